# SPDX-License-Identifier: Apache-2.0
"""Failures of the library as exceptions: one class for each status code, named as in tf.errors."""
from __future__ import annotations

OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16


class OpError(Exception):
    """A failure that the library reported. `message` is its text, `error_code` the number of the status. Programs that
    raise one themselves may give (message) or, as in tf.errors, (node_def, op, message)."""

    code = UNKNOWN

    def __init__(self, message: object = "", where: object = "", *more: object):
        self.node_def = self.op = None
        if more:
            self.node_def, self.op, message, where = message, where, more[0], ""
        super().__init__(message)
        self.message = message
        #: The place in the library that decided that this is an error, as "file.c:123".
        self.where = where

    @property
    def error_code(self) -> int:
        return self.code

    def __str__(self) -> str:
        return self.message


class CancelledError(OpError):
    code = CANCELLED


class UnknownError(OpError):
    code = UNKNOWN


class InvalidArgumentError(OpError, ValueError):
    """A wrong argument; also a ValueError, so that Python programs can catch it as one."""

    code = INVALID_ARGUMENT


class DeadlineExceededError(OpError):
    code = DEADLINE_EXCEEDED


class NotFoundError(OpError):
    code = NOT_FOUND


class AlreadyExistsError(OpError):
    code = ALREADY_EXISTS


class PermissionDeniedError(OpError):
    code = PERMISSION_DENIED


class ResourceExhaustedError(OpError):
    code = RESOURCE_EXHAUSTED


class FailedPreconditionError(OpError):
    code = FAILED_PRECONDITION


class AbortedError(OpError):
    code = ABORTED


class OutOfRangeError(OpError):
    code = OUT_OF_RANGE


class UnimplementedError(OpError):
    code = UNIMPLEMENTED


class InternalError(OpError):
    code = INTERNAL


class UnavailableError(OpError):
    code = UNAVAILABLE


class DataLossError(OpError):
    code = DATA_LOSS


class UnauthenticatedError(OpError):
    code = UNAUTHENTICATED


_CLASSES = {cls.code: cls for cls in list(globals().values())
            if isinstance(cls, type) and issubclass(cls, OpError) and cls is not OpError}


class NanLossDuringTrainingError(InvalidArgumentError, RuntimeError):
    """A model that diverged; the error of nan_hook and of Estimators, in TensorFlow a RuntimeError."""

    def __init__(self, message: object = "NaN loss during training.", where: object = "", *more: object):
        super().__init__(message, where, *more)


def exception_type_from_error_code(code: int) -> type[OpError]:
    """The class of a status code."""
    return _CLASSES[code]


def error_code_from_exception_type(cls: type[OpError]) -> int:
    """The status code of a class."""
    return cls.code
