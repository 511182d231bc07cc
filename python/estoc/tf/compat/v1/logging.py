# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.logging: the logger "tensorflow"."""
from __future__ import annotations

import logging as _logging

from ..._absent import module_getattr as _module_getattr

DEBUG, INFO, WARN, ERROR, FATAL = (_logging.DEBUG, _logging.INFO, _logging.WARNING, _logging.ERROR, _logging.CRITICAL)
_logger = _logging.getLogger("tensorflow")
debug, info, warning, warn, error, fatal = (_logger.debug, _logger.info, _logger.warning, _logger.warning,
                                            _logger.error, _logger.critical)


def _show() -> None:
    """Lines go to stderr, unless the program has configured logging before."""
    if not _logger.handlers and not _logging.getLogger().handlers:
        handler = _logging.StreamHandler()
        handler.setFormatter(_logging.Formatter(_logging.BASIC_FORMAT))
        _logger.addHandler(handler)


def set_verbosity(v: int) -> None:
    """Lines of this level and above are shown."""
    _logger.setLevel(v)


def get_verbosity() -> int:
    """The least level that is shown."""
    return _logger.getEffectiveLevel()


__getattr__ = _module_getattr(__name__)
