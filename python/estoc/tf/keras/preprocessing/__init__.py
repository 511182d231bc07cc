# SPDX-License-Identifier: Apache-2.0
"""tf.keras.preprocessing"""
from ..._absent import module_getattr as _module_getattr
from .._arrays import text_dataset_from_directory, timeseries_dataset_from_array  # noqa: F401
from . import sequence  # noqa: F401

__getattr__ = _module_getattr(__name__)
