# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.train.Saver: the variables of a session as checkpoints."""
from __future__ import annotations

import glob
import os
from typing import Any, Mapping

from .... import checkpoint as _checkpoint
from ...._lib import NULL, Keep, check, lib, text
from ....graph import Variable as _Variable
from . import _graph


def _name(variable: _Variable) -> str:
    return text(lib.est_node_name(variable._c))


class Saver:
    """Saves and restores variables by their names, or by the keys of a dict of them."""

    def __init__(self, var_list: Any = None, reshape: bool = False, sharded: bool = False, max_to_keep: int | None = 5,
                 keep_checkpoint_every_n_hours: float = 10000.0, name: str | None = None,
                 restore_sequentially: bool = False, saver_def: Any = None, builder: Any = None,
                 defer_build: bool = False, allow_empty: bool = False, write_version: Any = None,
                 pad_step_number: bool = False, save_relative_paths: bool = False, filename: str | None = None):
        if reshape or saver_def is not None or builder is not None or pad_step_number or \
                keep_checkpoint_every_n_hours != 10000.0:
            raise NotImplementedError("reshape, saver_def, builder, pad_step_number and "
                                      "keep_checkpoint_every_n_hours do not exist yet")
        self._graph = _graph.get_default_graph()
        self._given = var_list
        if not defer_build and not allow_empty and not self._variables():
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
        """Writes a checkpoint and returns its prefix, `save_path` or `save_path`-<step>. There is no .meta file."""
        if latest_filename is not None:
            raise NotImplementedError("the file that names the latest checkpoint is called \"checkpoint\"")
        prefix = os.fspath(save_path)
        if global_step is not None:
            step = sess.run(global_step) if hasattr(global_step, "graph") else global_step
            prefix = f"{prefix}-{int(step)}"
        values = {name: sess._read(variable) for name, variable in self._variables().items()}
        _checkpoint.save_checkpoint(prefix, values, latest=write_state)
        if prefix in self._kept:
            self._kept.remove(prefix)
        self._kept.append(prefix)
        while 0 < self._max < len(self._kept):
            remove_checkpoint(self._kept.pop(0))
        return prefix

    def restore(self, sess: Any, save_path: str | os.PathLike) -> None:
        """Gives the variables the values of a checkpoint; they need no initializer then."""
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        prefix = os.fspath(save_path)
        if not checkpoint_exists(prefix):
            raise ValueError(f"The passed save_path is not a valid checkpoint: {prefix}")
        if self._given is None:
            keep = Keep()
            options = keep.options("est_restore_options", path=keep.string(prefix))
            check(lib.est_saver_restore(NULL, sess._c, options, NULL))
            return
        reader = _checkpoint.load_checkpoint(prefix)
        for name, variable in self._variables().items():
            sess._write(variable, reader.get_tensor(name))


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
    for path in [prefix + ".index", prefix + ".meta", *glob.glob(glob.escape(prefix) + ".data-*")]:
        if os.path.exists(path):
            os.remove(path)
