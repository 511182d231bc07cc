# SPDX-License-Identifier: Apache-2.0
"""tf.metrics: the functions of TensorFlow 1.x whose names Keras' metrics do not have."""
from ._absent import module_getattr as _module_getattr
from .compat.v1.metrics import (accuracy, auc, mean, mean_per_class_accuracy, precision, recall,  # noqa: F401
                                root_mean_squared_error)

__getattr__ = _module_getattr(__name__)
