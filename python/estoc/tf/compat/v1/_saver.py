# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.train.Saver: the variables of a session as checkpoints."""
from __future__ import annotations

import glob
import logging
import os
from typing import Any, Mapping

import numpy as np

from .... import checkpoint as _checkpoint
from ...._lib import NULL, Keep, check, lib, text
from ....errors import UnimplementedError
from ....graph import Variable as _Variable
from ..._absent import Named
from ..._variable import Variable as _AtOnce
from . import _graph, _meta_graph

_logger = logging.getLogger("tensorflow")


def _name(variable: Any) -> str:
    return variable.name.partition(":")[0] if isinstance(variable, _AtOnce) else text(lib.est_node_name(variable._c))


def _session(sess: Any, variable: Any = None) -> Any:
    if sess is None and variable is not None:
        sess = _graph.state_of(variable.graph).session  # of tf.compat.v1.wrap_function
    if sess is None:
        raise TypeError("'sess' must be a Session; None: the variables belong to a graph. After "
                        "tf.compat.v1.enable_eager_execution() those of get_variable do not")
    return sess


class Saver(Named):
    """Saves and restores variables by their names, or by the keys of a dict of them: those of a graph in a session,
    those of a program that computes at once without one."""

    _where = "tf.compat.v1.train.Saver"

    def __init__(self, var_list: Any = None, reshape: bool = False, sharded: bool = False, max_to_keep: int | None = 5,
                 keep_checkpoint_every_n_hours: float = 10000.0, name: str | None = None,
                 restore_sequentially: bool = False, saver_def: Any = None, builder: Any = None,
                 defer_build: bool = False, allow_empty: bool = False, write_version: Any = None,
                 pad_step_number: bool = False, save_relative_paths: bool = False, filename: str | None = None):
        if reshape or saver_def is not None or builder is not None or pad_step_number or \
                keep_checkpoint_every_n_hours != 10000.0:
            raise NotImplementedError("reshape, saver_def, builder, pad_step_number and "
                                      "keep_checkpoint_every_n_hours do not exist yet")
        self._given = var_list
        self._graph = _graph.get_default_graph()
        if not defer_build and not allow_empty and not self._variables():
            if var_list is None and _graph.executing_eagerly():
                raise RuntimeError("When eager execution is enabled, `var_list` must specify a list or dict of variables "
                                   "to save")
            raise ValueError("No variables to save")
        self._max = max_to_keep or 0
        self._kept: list[str] = []

    def _variables(self) -> dict[str, _Variable]:
        if self._given is None:
            return {_name(variable): variable for variable in self._graph.global_variables}
        if isinstance(self._given, Mapping):
            return dict(self._given)
        return {_name(variable): variable for variable in self._given}

    @property
    def last_checkpoints(self) -> list[str]:
        return list(self._kept)

    def set_last_checkpoints(self, last_checkpoints: Any) -> None:
        self._kept = list(last_checkpoints)

    def save(self, sess: Any, save_path: str | os.PathLike, global_step: Any = None, latest_filename: Any = None,
             meta_graph_suffix: str = "meta", write_meta_graph: bool = True, write_state: bool = True,
             strip_default_attrs: bool = False, save_debug_info: bool = False) -> str:
        """Writes a checkpoint and returns its prefix, `save_path` or `save_path`-<step>. The graph of a session is
        written beside it, as <prefix>.meta."""
        if latest_filename is not None:
            raise NotImplementedError("the file that names the latest checkpoint is called \"checkpoint\"")
        prefix = os.fspath(save_path)
        if global_step is not None:
            in_graph = hasattr(global_step, "graph") and not isinstance(global_step, _AtOnce)
            step = _session(sess).run(global_step) if in_graph else global_step
            prefix = f"{prefix}-{int(step)}"
        values = {name: variable.numpy() if isinstance(variable, _AtOnce) else _session(sess, variable)._read(variable)
                  for name, variable in self._variables().items()}
        _checkpoint.save_checkpoint(prefix, values, latest=write_state)
        if write_meta_graph:
            self._write_graph(f"{prefix}.{meta_graph_suffix}")
        if prefix in self._kept:
            self._kept.remove(prefix)
        self._kept.append(prefix)
        while 0 < self._max < len(self._kept):
            remove_checkpoint(self._kept.pop(0), meta_graph_suffix=meta_graph_suffix)
        return prefix

    def _write_graph(self, path: str) -> None:
        """Writes the graph, if there is one. A checkpoint is complete without it."""
        saved = self._variables()
        if any(isinstance(variable, _AtOnce) for variable in saved.values()):
            return
        try:
            _meta_graph.write(self._graph, path, saved, self._max)
        except UnimplementedError as error:
            _logger.warning("%s was not written: %s", path, error.message)

    def export_meta_graph(self, filename: Any = None, collection_list: Any = None, as_text: bool = False,
                          export_scope: Any = None, clear_devices: bool = False, clear_extraneous_savers: bool = False,
                          strip_default_attrs: bool = False, save_debug_info: bool = False) -> Any:
        """The graph with this saver, as a message, and as a file if it has a name."""
        _meta_graph.refuse(collection_list=collection_list, as_text=as_text, export_scope=export_scope,
                           save_debug_info=save_debug_info)
        return _meta_graph.export(self._graph, filename, self._variables(), self._max)

    def restore(self, sess: Any, save_path: str | os.PathLike) -> None:
        """Gives the variables the values of a checkpoint; they need no initializer then."""
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        prefix = os.fspath(save_path)
        if not checkpoint_exists(prefix):
            raise ValueError(f"The passed save_path is not a valid checkpoint: {prefix}")
        if self._given is None:
            _session(sess)
            keep = Keep()
            options = keep.options("est_restore_options", path=keep.string(prefix))
            check(lib.est_saver_restore(NULL, sess._c, options, NULL))
            return
        reader, variables = _checkpoint.load_checkpoint(prefix), self._variables()
        for variable, value in [(variable, reader.get_tensor(name)) for name, variable in variables.items()]:
            if isinstance(variable, _AtOnce):
                variable.assign(value)
            else:
                _session(sess, variable)._write(variable, value)


def NewCheckpointReader(filepattern: str | os.PathLike) -> Any:  # noqa: N802
    """The variables of a checkpoint."""
    return _checkpoint.load_checkpoint(filepattern)


def init_from_checkpoint(ckpt_dir_or_file: str | os.PathLike, assignment_map: Any) -> None:
    """Variables of the graph begin with values of a checkpoint. The map has a name of the checkpoint for a variable, for
    the name of one, or a scope of the checkpoint ("bert/", "/": all) for one of the graph."""
    reader = _checkpoint.load_checkpoint(ckpt_dir_or_file)
    variables = {_name(variable): variable for variable in _graph.get_default_graph().global_variables}
    pairs = assignment_map.items() if isinstance(assignment_map, Mapping) else assignment_map
    for stored, target in pairs:
        if isinstance(target, _Variable):
            _begin_with(reader, stored, target)
        elif isinstance(target, (list, tuple)):
            raise NotImplementedError(f"init_from_checkpoint: {stored!r} is for parts of a variable; variables are whole")
        elif target in variables:
            _begin_with(reader, stored, variables[target])
        else:
            _begin_scope(reader, stored, target, variables)


def _begin_scope(reader: Any, stored: str, target: str, variables: Mapping[str, _Variable]) -> None:
    if stored and not stored.endswith("/") or target and not target.endswith("/"):
        raise ValueError(f"Assignment map with scope only name {target} should map to scope only {stored}. Should be "
                         "'scope/': 'other_scope/'.")
    scope, prefix = "" if target == "/" else target, "" if stored == "/" else stored
    found = [name for name in variables if name.startswith(scope) and name != "global_step"]
    if not found:
        raise ValueError(f"Assignment map with scope only name {target}: the graph has no variable there")
    for name in found:
        _begin_with(reader, prefix + name[len(scope):], variables[name])


def _begin_with(reader: Any, stored: str, variable: _Variable) -> None:
    shapes = reader.get_variable_to_shape_map()
    if stored not in shapes:
        raise ValueError(f"Tensor {stored} is not found in {reader.path} checkpoint {sorted(shapes)}")
    graph, array = variable.graph, reader.get_tensor(stored)
    if tuple(array.shape) != tuple(variable.shape):
        raise ValueError(f"Shape of variable {_name(variable)} ({tuple(variable.shape)}) doesn't match with shape of "
                         f"tensor {stored} ({tuple(array.shape)}) from checkpoint reader.")
    with graph.after(None):
        value = graph.constant(np.asarray(array, variable.dtype.as_numpy_dtype))
        lib.est_variable_initializer(variable._c, value._c)
    graph.check()


def checkpoint_exists(checkpoint_prefix: str | os.PathLike) -> bool:
    """Whether a checkpoint of that prefix exists."""
    return os.path.exists(os.fspath(checkpoint_prefix) + ".index")


def get_checkpoint_mtimes(checkpoint_prefixes: Any) -> list[float]:
    """When checkpoints were written, those that exist."""
    return [os.path.getmtime(prefix + ".index") for prefix in checkpoint_prefixes if checkpoint_exists(prefix)]


def remove_checkpoint(checkpoint_prefix: str | os.PathLike, checkpoint_format_version: Any = None,
                      meta_graph_suffix: str = "meta") -> None:
    """Removes the files of a checkpoint."""
    prefix = os.fspath(checkpoint_prefix)
    for path in [prefix + ".index", f"{prefix}.{meta_graph_suffix}", *glob.glob(glob.escape(prefix) + ".data-*")]:
        if os.path.exists(path):
            os.remove(path)
