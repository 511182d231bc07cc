# SPDX-License-Identifier: Apache-2.0
"""tf.losses: those of Keras, and the functions of TensorFlow 1.x whose names Keras does not have."""
from ._absent import module_getattr as _module_getattr
from .keras import losses as _losses

globals().update({key: value for key, value in vars(_losses).items() if not key.startswith("_")})

__getattr__ = _module_getattr(__name__)
