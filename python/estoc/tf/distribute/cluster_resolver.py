# SPDX-License-Identifier: Apache-2.0
"""tf.distribute.cluster_resolver"""
from typing import Any as _Any

from ... import cluster as _cluster
from ...cluster import ClusterResolver, SimpleClusterResolver, TFConfigClusterResolver  # noqa: F401
from .._absent import module_getattr as _module_getattr


class SlurmClusterResolver(_cluster.SlurmClusterResolver):
    """What Slurm's variables say."""

    def __init__(self, jobs: _Any = None, port_base: int = 8888, gpus_per_node: _Any = None, gpus_per_task: _Any = None,
                 tasks_per_node: _Any = None, auto_set_gpu: bool = True, rpc_layer: str = "grpc"):
        if not (gpus_per_node is None and gpus_per_task is None and tasks_per_node is None and auto_set_gpu):
            raise NotImplementedError("the number of tasks comes from Slurm, and there are no GPUs to set")
        super().__init__(jobs, port_base, rpc_layer)


__getattr__ = _module_getattr(__name__)
