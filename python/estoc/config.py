# SPDX-License-Identifier: Apache-2.0
"""RunConfig, strategies, and the cluster of TF_CONFIG."""
from __future__ import annotations

import copy
import os
from typing import Any, Sequence

from ._lib import NULL, Keep, c_seed, check, ffi, lib, off, owned, text

_DEFAULT: Any = type("Default", (), {"__repr__": lambda self: "default"})()


class Strategy:
    """Where the variables of a training live and how gradients are reduced; for RunConfig.train_distribute."""

    def __init__(self, function: str, options: Any):
        out = ffi.new("est_strategy **")
        check(getattr(lib, function)(options, out))
        self._c = owned(out[0], "est_strategy_free")

    @property
    def num_replicas_in_sync(self) -> int:
        """The replicas of all workers."""
        return lib.est_strategy_num_replicas_in_sync(self._c)

    def __repr__(self) -> str:
        return f"<estoc.{type(self).__name__} num_replicas_in_sync={self.num_replicas_in_sync}>"


class MirroredStrategy(Strategy):
    """Replicas in this process, whose gradients are summed."""

    def __init__(self, devices: Sequence[str] | None = None, replicas: int = 0):
        keep = Keep()
        super().__init__("est_mirrored_strategy", keep.options("est_mirrored_options",
                                                               devices=keep.strings(devices or []), replicas=replicas))


class CentralStorageStrategy(Strategy):
    """Replicas in this process, and variables in one place."""

    def __init__(self, compute_devices: Sequence[str] | None = None, parameter_device: str | None = None,
                 replicas: int = 0):
        keep = Keep()
        super().__init__("est_central_storage_strategy", keep.options(
            "est_central_storage_options", compute_devices=keep.strings(compute_devices or []), replicas=replicas,
            parameter_device=keep.string(parameter_device)))


class OneDeviceStrategy(Strategy):
    """Everything on one device."""

    def __init__(self, device: str = "/cpu:0"):
        super().__init__("est_one_device_strategy", Keep().string(device))


class MultiWorkerMirroredStrategy(Strategy):
    """Replicas in every worker of the cluster of TF_CONFIG, which make every step together."""

    def __init__(self, replicas: int = 0, timeout_secs: float = 0, rejoin_secs: float = 0, elastic: bool = False,
                 cluster_json: str | None = None):
        keep = Keep()
        super().__init__("est_multi_worker_mirrored_strategy", keep.options(
            "est_multi_worker_mirrored_options", replicas=replicas, timeout_secs=timeout_secs, rejoin_secs=rejoin_secs,
            elastic=elastic, cluster_json=keep.string(cluster_json)))


class ParameterServerStrategy(Strategy):
    """Variables at the ps tasks of the cluster of TF_CONFIG, each worker on its own, or n of them in step."""

    def __init__(self, sync_replicas: int = 0, max_staleness: int = 0, round_robin: bool = False,
                 consistent_checkpoints: bool = False, cluster_json: str | None = None):
        keep = Keep()
        super().__init__("est_parameter_server_strategy", keep.options(
            "est_parameter_server_options", sync_replicas=sync_replicas, max_staleness=max_staleness,
            round_robin=round_robin, consistent_checkpoints=consistent_checkpoints,
            cluster_json=keep.string(cluster_json)))


class Task:
    """Which task of a cluster this process is, from TF_CONFIG or a text of the same form."""

    def __init__(self, cluster_json: str | None = None, no_chief_ok: bool = False):
        keep, out = Keep(), ffi.new("est_resolver **")
        check(lib.est_resolve_tf_config(keep.string(cluster_json),
                                        keep.options("est_task_rules", no_chief_ok=no_chief_ok), out))
        resolver = owned(out[0], "est_resolver_free")
        task = lib.est_resolver_task(resolver)
        self.type = text(task.type)
        self.index = int(task.index)
        self.is_chief = bool(task.is_chief)
        self.num_ps_replicas = int(task.num_ps_replicas)
        self.num_worker_replicas = int(task.num_worker_replicas)
        self.global_id = int(task.global_id)
        self.master = text(task.master)
        self.cluster: dict[str, list[str]] = {}
        if task.cluster != NULL:
            for i in range(lib.est_cluster_jobs(task.cluster)):
                job = lib.est_cluster_job(task.cluster, i)
                self.cluster[text(job)] = [text(lib.est_cluster_address(task.cluster, job, k))
                                           for k in range(lib.est_cluster_tasks(task.cluster, job))]


_PRECISIONS = {"float32": lib.EST_PRECISION_FLOAT32, "mixed_bfloat16": lib.EST_PRECISION_MIXED_BFLOAT16}


class RunConfig:
    """Where a run keeps its state, how often it saves and logs, and its task in a cluster.

    None turns a setting off; save_checkpoints_secs is 600 unless save_checkpoints_steps is given.
    """

    def __init__(self, model_dir: str | os.PathLike | None = None, seed: int | None = None,
                 save_summary_steps: int | None = 100, save_checkpoints_steps: int | None = _DEFAULT,
                 save_checkpoints_secs: float | None = _DEFAULT, keep_checkpoint_max: int | None = 5,
                 keep_checkpoint_every_n_hours: float = 10000, log_step_count_steps: int | None = 100,
                 train_distribute: Strategy | None = None, eval_distribute: Strategy | None = None,
                 session_creation_timeout_secs: float = 7200, protocol: str | None = None, threads: int = 0,
                 check_numerics: bool = False, no_input_position: bool = False, no_graph_def: bool = False,
                 cluster_json: str | None = None, precision: str = "float32", devices: Sequence[str] = (),
                 no_soft_placement: bool = False, log_device_placement: bool = False, no_tf32: bool = False,
                 device_memory_limit: int = 0):
        if precision not in _PRECISIONS:
            raise ValueError(f"precision is {precision!r}; it is one of {', '.join(_PRECISIONS)}")
        if save_checkpoints_steps is _DEFAULT and save_checkpoints_secs is _DEFAULT:
            save_checkpoints_steps, save_checkpoints_secs = None, 600
        elif save_checkpoints_steps is _DEFAULT:
            save_checkpoints_steps = None
        elif save_checkpoints_secs is _DEFAULT:
            save_checkpoints_secs = None
        if save_checkpoints_steps is not None and save_checkpoints_secs is not None:
            raise ValueError("Can not provide both save_checkpoints_steps and save_checkpoints_secs.")
        for name, value in {"save_summary_steps": save_summary_steps, "save_checkpoints_steps": save_checkpoints_steps,
                            "save_checkpoints_secs": save_checkpoints_secs, "keep_checkpoint_max": keep_checkpoint_max,
                            "log_step_count_steps": log_step_count_steps, "seed": seed}.items():
            if value is not None and value < 0:
                raise ValueError(f"{name} should be >= 0, it is {value}")
        for name, value in {"keep_checkpoint_every_n_hours": keep_checkpoint_every_n_hours,
                            "session_creation_timeout_secs": session_creation_timeout_secs,
                            "log_step_count_steps": log_step_count_steps}.items():
            if value == 0:
                raise ValueError(f"{name} should be > 0")
        self.model_dir = None if model_dir is None else os.fspath(model_dir)
        self.seed = seed
        self.save_summary_steps = save_summary_steps
        self.save_checkpoints_steps = save_checkpoints_steps
        self.save_checkpoints_secs = save_checkpoints_secs
        self.keep_checkpoint_max = keep_checkpoint_max
        self.keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self.log_step_count_steps = log_step_count_steps
        self.train_distribute = train_distribute
        self.eval_distribute = eval_distribute
        self.session_creation_timeout_secs = session_creation_timeout_secs
        self.protocol = protocol
        self.threads = threads
        self.check_numerics = check_numerics
        self.no_input_position = no_input_position
        self.no_graph_def = no_graph_def
        self.cluster_json = cluster_json
        self.precision = precision
        self.devices = list(devices)
        self.no_soft_placement, self.log_device_placement = no_soft_placement, log_device_placement
        self.no_tf32, self.device_memory_limit = no_tf32, device_memory_limit
        self._task = Task(cluster_json, no_chief_ok=isinstance(train_distribute, MultiWorkerMirroredStrategy))

    task_type = property(lambda self: self._task.type)
    task_id = property(lambda self: self._task.index)
    is_chief = property(lambda self: self._task.is_chief)
    num_ps_replicas = property(lambda self: self._task.num_ps_replicas)
    num_worker_replicas = property(lambda self: self._task.num_worker_replicas)
    global_id_in_cluster = property(lambda self: self._task.global_id)
    master = property(lambda self: self._task.master)
    cluster_spec = property(lambda self: self._task.cluster)

    def replace(self, **changes: Any) -> "RunConfig":
        """A copy with other settings."""
        new = copy.copy(self)
        if "save_checkpoints_steps" in changes and "save_checkpoints_secs" not in changes:
            changes["save_checkpoints_secs"] = None
        elif "save_checkpoints_secs" in changes and "save_checkpoints_steps" not in changes:
            changes["save_checkpoints_steps"] = None
        for name, value in changes.items():
            if not hasattr(self, name) or name.startswith("_"):
                raise ValueError(f"a RunConfig has no setting {name!r}")
            setattr(new, name, value)
        if new.save_checkpoints_steps is not None and new.save_checkpoints_secs is not None:
            raise ValueError("Can not provide both save_checkpoints_steps and save_checkpoints_secs.")
        return new

    def _placement(self) -> dict[str, Any]:
        """Which devices compute, and how."""
        return {name: getattr(self, name) for name in (
            "devices", "no_soft_placement", "log_device_placement", "no_tf32", "device_memory_limit")}

    def _c(self, keep: Keep) -> Any:
        keep.append(self)
        placement = self._placement()
        return keep.options(
            "est_run_config", model_dir=keep.string(self.model_dir), seed=c_seed(self.seed),
            save_summary_steps=_or_off(self.save_summary_steps),
            save_checkpoints_steps=_or_off(self.save_checkpoints_steps),
            save_checkpoints_secs=_or_off(self.save_checkpoints_secs),
            keep_checkpoint_max=_or_off(self.keep_checkpoint_max),
            keep_checkpoint_every_n_hours=self.keep_checkpoint_every_n_hours,
            log_step_count_steps=_or_off(self.log_step_count_steps),
            session_creation_timeout_secs=self.session_creation_timeout_secs, threads=self.threads,
            check_numerics=self.check_numerics, no_input_position=self.no_input_position,
            no_graph_def=self.no_graph_def, precision=_PRECISIONS[self.precision], protocol=keep.string(self.protocol),
            train_distribute=self.train_distribute._c if self.train_distribute is not None else NULL,
            eval_distribute=self.eval_distribute._c if self.eval_distribute is not None else NULL,
            cluster_json=keep.string(self.cluster_json), quiet=True,
            **{**placement, "devices": keep.strings(placement["devices"])})


def _or_off(value: float | None) -> Any:
    return lib.EST_OFF if value is None else off(value)
