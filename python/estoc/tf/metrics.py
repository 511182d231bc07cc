# SPDX-License-Identifier: Apache-2.0
"""tf.metrics: those of Keras, and the functions of TensorFlow 1.x whose names Keras does not have."""
from ._absent import module_getattr as _module_getattr
from .keras import metrics as _metrics

globals().update({key: value for key, value in vars(_metrics).items() if not key.startswith("_")})

__getattr__ = _module_getattr(__name__)
