# SPDX-License-Identifier: Apache-2.0
"""tf.errors"""
from ..errors import *  # noqa: F401,F403
from ..errors import OpError, error_code_from_exception_type, exception_type_from_error_code  # noqa: F401
from ._absent import module_getattr as _module_getattr

del NanLossDuringTrainingError  # noqa: F821 - is in tf.estimator
__getattr__ = _module_getattr(__name__)
