# SPDX-License-Identifier: Apache-2.0
"""Clusters: their description, which task this process is, and servers.

    cluster = estoc.ClusterSpec({"worker": ["a:2222", "b:2222"], "ps": ["c:2222"]})
    server = estoc.Server(cluster, job_name="ps", task_index=0)
    server.join()

`LocalCluster` has all servers in this process, for notebooks and tests.
"""
from __future__ import annotations

import json
import os
import socket
import threading
import weakref
from typing import Any, Mapping, Sequence

from . import errors
from ._lib import NULL, Keep, check, failure, ffi, lib, owned, running, text

# --- ClusterSpec ------------------------------------------------------------------------------------------------------


class ClusterSpec:
    """The addresses of the tasks of every job: {"worker": ["a:2222", "b:2222"], "ps": {0: "c:2222"}}."""

    def __init__(self, cluster: "Mapping[str, Any] | ClusterSpec"):
        self._jobs: dict[str, dict[int, str]] = {}
        if isinstance(cluster, ClusterSpec):
            self._jobs = {job: dict(tasks) for job, tasks in cluster._jobs.items()}
        elif isinstance(cluster, Mapping):
            for job, tasks in cluster.items():
                self._jobs[job] = _tasks(job, tasks)
        else:
            raise TypeError("`cluster` must be a dictionary mapping one or more job names to lists of network "
                            f"addresses, or a ClusterSpec; got {type(cluster).__name__}")

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs."""
        return list(self._jobs)

    def _tasks(self, job_name: str) -> dict[int, str]:
        if job_name not in self._jobs:
            raise ValueError(f"No such job in cluster: {job_name!r}; it has "
                             f"{', '.join(map(repr, self._jobs)) or 'none'}")
        return self._jobs[job_name]

    def num_tasks(self, job_name: str) -> int:
        """How many tasks a job has."""
        return len(self._tasks(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """The indices of the tasks of a job, in order."""
        return sorted(self._tasks(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """The address of a task."""
        tasks = self._tasks(job_name)
        if task_index not in tasks:
            raise ValueError(f"No task with index {task_index!r} in job {job_name!r}; it has {sorted(tasks)}")
        return tasks[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """The addresses of the tasks of a job; None for an index that has no task."""
        tasks = self._tasks(job_name)
        return [tasks.get(i) for i in range(max(tasks, default=-1) + 1)]

    def as_dict(self) -> dict[str, Any]:
        """The jobs: lists of addresses, or dicts of them by index where an index has no task."""
        result: dict[str, Any] = {}
        for job, tasks in self._jobs.items():
            dense = sorted(tasks) == list(range(len(tasks)))
            result[job] = [tasks[i] for i in range(len(tasks))] if dense else dict(tasks)
        return result

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: Any) -> bool:
        return self._jobs == other._jobs if isinstance(other, ClusterSpec) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ClusterSpec({dict(sorted(self.as_dict().items()))!r})"

    def _c(self) -> Any:
        """An est_cluster, owned by the result. C checks the addresses."""
        keep, jobs, out = Keep(), [], ffi.new("est_cluster **")
        for job in self._jobs:
            addresses = [keep.string(address) for address in self.job_tasks(job)]
            jobs.append({"name": keep.string(job), "addresses": keep.span("est_strings", "char *", addresses)})
        check(lib.est_cluster_create(keep.span("est_jobs", "est_job", jobs), out))
        return owned(out[0], "est_cluster_free")


def _tasks(job: Any, tasks: Any) -> dict[int, str]:
    if not isinstance(job, str):
        raise TypeError(f"Job name must be a string, not {job!r}")
    if isinstance(tasks, Mapping):
        pairs = list(tasks.items())
    elif isinstance(tasks, Sequence) and not isinstance(tasks, (str, bytes)):
        pairs = list(enumerate(tasks))
    else:
        raise TypeError(f"The tasks of job {job!r} must be a list of addresses, or a dict of them by index; got "
                        f"{tasks!r}")
    for index, address in pairs:
        if not isinstance(index, int) or not isinstance(address, (str, bytes)):
            raise TypeError(f"Task {index!r} of job {job!r} must have a number and an address, not {address!r}")
    return {index: address.decode() if isinstance(address, bytes) else address for index, address in pairs}


def c_spec(cluster: Any) -> ClusterSpec:
    """A ClusterSpec for an est_cluster."""
    jobs: dict[str, dict[int, str]] = {}
    for i in range(0 if cluster == NULL else lib.est_cluster_jobs(cluster)):
        job = lib.est_cluster_job(cluster, i)
        addresses = [lib.est_cluster_address(cluster, job, k) for k in range(lib.est_cluster_tasks(cluster, job))]
        jobs[text(job)] = {k: text(address) for k, address in enumerate(addresses) if address != NULL}
    return ClusterSpec(jobs)


# --- resolvers --------------------------------------------------------------------------------------------------------


class ClusterResolver:
    """The cluster, and which of its tasks this process is."""

    task_type: str | None = None
    task_id: int | None = None
    rpc_layer: str | None = None
    environment = ""

    def cluster_spec(self) -> ClusterSpec:
        """The cluster."""
        raise NotImplementedError

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """The target of sessions at a task; "" where there is no cluster of several tasks."""
        task_type = self.task_type if task_type is None else task_type
        task_id = self.task_id if task_id is None else task_id
        if task_type is None or task_id is None:
            return ""
        address, layer = self.cluster_spec().task_address(task_type, task_id), rpc_layer or self.rpc_layer
        return f"{layer}://{address}" if layer else address

    def num_accelerators(self, task_type: str | None = None, task_id: int | None = None,
                         config_proto: Any = None) -> dict[str, int]:
        """There are none."""
        return {}

    def _resolver(self, no_chief_ok: bool = True) -> Any:
        """An est_resolver of the same meaning, owned by the result."""
        keep, out = Keep(), ffi.new("est_resolver **")
        check(lib.est_resolve_simple(self.cluster_spec()._c(), keep.string(self.task_type), self.task_id or 0,
                                     keep.options("est_task_rules", no_chief_ok=no_chief_ok), out))
        return owned(out[0], "est_resolver_free")

    def __repr__(self) -> str:
        return f"<estoc.{type(self).__name__} task_type={self.task_type!r} task_id={self.task_id!r}>"


class SimpleClusterResolver(ClusterResolver):
    """What the arguments say. Without a task_type this program is none of the tasks, and drives them."""

    def __init__(self, cluster_spec: ClusterSpec, master: str = "", task_type: str | None = None,
                 task_id: int | None = None, environment: str = "", num_accelerators: Mapping[str, int] | None = None,
                 rpc_layer: str | None = None):
        if not isinstance(cluster_spec, ClusterSpec):
            raise TypeError("cluster_spec must be a `tf.train.ClusterSpec`.")
        if not isinstance(master, str):
            raise TypeError("master must be a string.")
        self._cluster = cluster_spec
        self._master = master
        self.task_type, self.task_id, self.rpc_layer = task_type, task_id, rpc_layer
        self.environment = environment
        self._accelerators = dict(num_accelerators or {})

    def cluster_spec(self) -> ClusterSpec:
        return self._cluster

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        if task_type is None or task_id is None:
            return self._master
        return super().master(task_type, task_id, rpc_layer)

    def num_accelerators(self, task_type: str | None = None, task_id: int | None = None,
                         config_proto: Any = None) -> dict[str, int]:
        return dict(self._accelerators)


class TFConfigClusterResolver(ClusterResolver):
    """What TF_CONFIG says. Arguments and attributes that are set replace its task."""

    def __init__(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None,
                 environment: str | None = None):
        self._type, self._id, self._layer = task_type, task_id, rpc_layer
        self._environment = environment

    @staticmethod
    def _config() -> dict[str, Any]:
        value = os.environ.get("TF_CONFIG") or "{}"
        try:
            config = json.loads(value)
        except ValueError:
            config = None
        if not isinstance(config, dict):
            out = ffi.new("est_resolver **")
            check(lib.est_resolve_tf_config(value.encode(), NULL, out))  # fails, and shows where
        return config

    @property
    def task_type(self) -> str | None:  # type: ignore[override]
        if self._type is not None:
            return self._type
        task_type = self._config().get("task", {}).get("type")
        return None if task_type is None else str(task_type)

    @task_type.setter
    def task_type(self, value: str | None) -> None:
        self._type = value

    @property
    def task_id(self) -> int | None:  # type: ignore[override]
        if self._id is not None:
            return int(self._id)
        index = self._config().get("task", {}).get("index")
        return None if index is None else int(index)

    @task_id.setter
    def task_id(self, value: int | None) -> None:
        self._id = value

    @property
    def rpc_layer(self) -> str | None:  # type: ignore[override]
        return self._layer if self._layer is not None else self._config().get("rpc_layer")

    @rpc_layer.setter
    def rpc_layer(self, value: str | None) -> None:
        self._layer = value

    @property
    def environment(self) -> str:  # type: ignore[override]
        return self._environment if self._environment is not None else self._config().get("environment", "")

    def cluster_spec(self) -> ClusterSpec:
        """The cluster, and the same in every task; empty without TF_CONFIG."""
        jobs = self._config().get("cluster", {})
        return ClusterSpec({job: {int(i): address for i, address in tasks.items()} if isinstance(tasks, dict) else tasks
                            for job, tasks in jobs.items()})

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        given = self._config().get("session_master")
        if given is not None:
            return given
        spec = self.cluster_spec()
        if not spec or len(spec.jobs) == 1 and spec.num_tasks(spec.jobs[0]) == 1:
            return ""
        return super().master(task_type, task_id, rpc_layer)

    def _resolver(self, no_chief_ok: bool = True) -> Any:
        if self._type is not None or self._id is not None:
            return super()._resolver(no_chief_ok)
        keep, out = Keep(), ffi.new("est_resolver **")
        check(lib.est_resolve_tf_config(NULL, keep.options("est_task_rules", no_chief_ok=no_chief_ok), out))
        return owned(out[0], "est_resolver_free")


class SlurmClusterResolver(ClusterResolver):
    """What Slurm's variables say. jobs: how many tasks each job has, {"ps": 1, "worker": 3}; None: all are workers."""

    def __init__(self, jobs: Mapping[str, int] | None = None, port_base: int = 8888, rpc_layer: str = "grpc"):
        self._jobs = dict(jobs or {})
        self._port_base = port_base
        self.rpc_layer = rpc_layer
        resolver = self._resolver()
        task = lib.est_resolver_task(resolver)
        self._cluster = c_spec(task.cluster)
        self.task_type, self.task_id = text(task.type), int(task.index)

    def get_task_info(self) -> tuple[str | None, int | None]:
        """(task_type, task_id)"""
        return self.task_type, self.task_id

    def cluster_spec(self) -> ClusterSpec:
        return self._cluster

    def _resolver(self, no_chief_ok: bool = True) -> Any:
        keep, out, jobs = Keep(), ffi.new("est_resolver **"), []
        for job, n in self._jobs.items():
            jobs.append({"name": keep.string(job), "addresses": {"data": NULL, "n": int(n)}})
        check(lib.est_resolve_slurm(keep.options("est_slurm_options", port_base=self._port_base,
                                                 jobs=keep.span("est_jobs", "est_job", jobs)),
                                    keep.options("est_task_rules", no_chief_ok=no_chief_ok), out))
        return owned(out[0], "est_resolver_free")


# --- servers ----------------------------------------------------------------------------------------------------------


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def transport(protocol: str | None) -> str | None:
    """The transport for a protocol: "grpc" stands for the library's default."""
    return None if protocol in (None, "", "grpc") else protocol


_by_target: "weakref.WeakValueDictionary[str, Server]" = weakref.WeakValueDictionary()


def server_of(target: str | None) -> "Server | None":
    """The server of this process that has the target."""
    server = _by_target.get(target or "")
    return server if server is not None and server._c is not None else None


class Server:
    """Makes this process a task of a cluster: it keeps variables for others, runs their operations and, as a worker,
    executes the calls of a coordinator, from start until close, beside the program. A process may have several."""

    def __init__(self, cluster: "ClusterSpec | Mapping[str, Any]", job_name: str | None = None,
                 task_index: int | None = None, protocol: str | None = None, start: bool = True, threads: int = 0,
                 certificates: str | os.PathLike | None = None, job: str | None = None, lonely_secs: float = 0):
        spec = ClusterSpec(cluster)
        if job_name is None:
            if len(spec.jobs) != 1:
                raise ValueError(f"Must specify an explicit `job_name`; the cluster has "
                                 f"{', '.join(spec.jobs) or 'none'}")
            job_name = spec.jobs[0]
        if task_index is None:
            if spec.num_tasks(job_name) != 1:
                raise ValueError(f"Must specify an explicit `task_index`; job {job_name} has "
                                 f"{spec.num_tasks(job_name)}")
            task_index = spec.task_indices(job_name)[0]
        self.cluster_spec, self.job_name, self.task_index = spec, job_name, task_index
        self._options = {"transport": transport(protocol), "certificates": certificates, "job": job}
        self._numbers = {"threads": threads, "lonely_secs": lonely_secs}
        self._c: Any = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        if start:
            self.start()

    def start(self) -> None:
        """Listens and serves, in threads of its own. A second call does nothing."""
        if self._c is not None:
            return
        keep, out = Keep(), ffi.new("est_server **")
        texts = {name: keep.string(value) for name, value in self._options.items()}
        check(lib.est_server_create(self.cluster_spec._c(), self.job_name.encode(), self.task_index,
                                    keep.options("est_server_options", **texts, **self._numbers), out))
        self._c = owned(out[0], "est_server_free")
        name = f"estoc-{self.job_name}-{self.task_index}"
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        running.add(self)
        _by_target[self.target] = self
        self._thread.start()

    def _serve(self) -> None:
        status = lib.est_server_join(self._c)
        if status != errors.OK:
            self._failure = failure(status)

    @property
    def target(self) -> str:
        """Of sessions that this server drives: Session(graph, target=server.target)."""
        if self._c is None:
            raise RuntimeError("the server has not been started")
        return text(lib.est_server_target(self._c))

    def join(self) -> None:
        """Serves until the job ends; Ctrl-C interrupts it."""
        if self._thread is None:
            raise RuntimeError("the server has not been started")
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Ends the server and closes its connections. At the latest the end of the program does."""
        if self._c is None:
            return
        lib.est_server_stop(self._c)
        self._thread.join()
        ffi.release(self._c)
        self._c = None
        running.discard(self)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<estoc.Server /job:{self.job_name}/task:{self.task_index}>"


class LocalCluster:
    """Servers for ps tasks and workers at free ports of this machine, in threads of this process. With chief=True this
    program is the chief, else a client outside the cluster."""

    def __init__(self, ps: int = 0, workers: int = 0, chief: bool = False, threads: int = 0,
                 protocol: str | None = None):
        keep, out = Keep(), ffi.new("est_local_cluster **")
        server = keep.options("est_server_options", threads=threads, transport=keep.string(transport(protocol)))
        check(lib.est_local_cluster_create(keep.options(
            "est_local_cluster_options", ps=ps, workers=workers, chief=chief, server=server), out))
        self._c = owned(out[0], "est_local_cluster_free")
        self.resolver = _LocalResolver(self)
        running.add(self)

    def _cluster(self) -> Any:
        if self._c is None:
            raise RuntimeError("the local cluster is closed")
        return self._c

    @property
    def cluster_spec(self) -> ClusterSpec:
        """The addresses of its tasks."""
        return c_spec(lib.est_resolver_task(lib.est_local_cluster_resolver(self._cluster())).cluster)

    def target(self, task_type: str, task_id: int = 0) -> str:
        """Of sessions that a task drives."""
        server = lib.est_local_cluster_server(self._cluster(), task_type.encode(), task_id)
        if server == NULL:
            raise ValueError(f"the local cluster has no server {task_type}:{task_id}, or it is lost")
        return text(lib.est_server_target(server))

    def lose(self, task_type: str, task_id: int) -> None:
        """Loses a task as kill -9 does."""
        check(lib.est_local_cluster_lose(self._cluster(), task_type.encode(), task_id))

    def restart(self, task_type: str, task_id: int) -> None:
        """Starts a task again, without variables."""
        check(lib.est_local_cluster_restart(self._cluster(), task_type.encode(), task_id))

    def close(self) -> None:
        """Ends all servers."""
        if self._c is not None:
            ffi.release(self._c)
            self._c = None
            running.discard(self)

    def __enter__(self) -> "LocalCluster":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


class _LocalResolver(ClusterResolver):
    """This program in a LocalCluster."""

    def __init__(self, local: LocalCluster):
        self._local = local
        task = lib.est_resolver_task(lib.est_local_cluster_resolver(local._cluster()))
        self.task_type = text(task.type)
        self.task_id = int(task.index) if self.task_type is not None else None

    def cluster_spec(self) -> ClusterSpec:
        return self._local.cluster_spec


__all__ = ["ClusterResolver", "ClusterSpec", "LocalCluster", "Server", "SimpleClusterResolver", "SlurmClusterResolver",
           "TFConfigClusterResolver"]
