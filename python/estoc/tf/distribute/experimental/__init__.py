# SPDX-License-Identifier: Apache-2.0
"""tf.distribute.experimental: other places of strategies."""
from ..._absent import module_getattr as _module_getattr
from .. import CentralStorageStrategy, MultiWorkerMirroredStrategy, ParameterServerStrategy  # noqa: F401
from .. import CommunicationImplementation, CommunicationOptions  # noqa: F401
from .. import CommunicationImplementation as CollectiveCommunication  # noqa: F401
from .. import coordinator  # noqa: F401
from . import partitioners  # noqa: F401

__getattr__ = _module_getattr(__name__)
