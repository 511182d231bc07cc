# SPDX-License-Identifier: Apache-2.0
"""tf.strings"""
from .. import ops as _ops
from ._absent import module_getattr as _module_getattr
from ._eager import eager as _eager

as_string = _eager(_ops.as_string)
to_hash_bucket_fast = _eager(_ops.string_to_hash_bucket, "to_hash_bucket_fast")

__getattr__ = _module_getattr(__name__)
