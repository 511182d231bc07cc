# SPDX-License-Identifier: Apache-2.0
"""tf.keras.saving"""
from .._absent import module_getattr as _module_getattr
from ._config import CustomObjectScope as custom_object_scope  # noqa: F401,N813
from ._config import register as register_keras_serializable  # noqa: F401
from ._config import registered_name as get_registered_name  # noqa: F401
from ._config import registered_object as get_registered_object  # noqa: F401
from ._config import custom_objects as get_custom_objects  # noqa: F401
from ._serial import deserialize as deserialize_keras_object  # noqa: F401
from ._serial import serialize as serialize_keras_object  # noqa: F401
from .models import load_model, save_model  # noqa: F401

__getattr__ = _module_getattr(__name__)
