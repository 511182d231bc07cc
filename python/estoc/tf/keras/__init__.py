# SPDX-License-Identifier: Apache-2.0
"""tf.keras: models, layers, losses, metrics, optimizers and callbacks of the library under Keras' names."""
from .._absent import module_getattr as _module_getattr
from . import (activations, backend, callbacks, constraints, datasets, estimator, experimental, initializers, layers,  # noqa: F401
               losses, metrics, mixed_precision, models, optimizers, preprocessing, regularizers, saving, utils)
from ._symbolic import Input  # noqa: F401
from .models import Model, Sequential  # noqa: F401

__version__ = "2.15.0"
__getattr__ = _module_getattr(__name__)
