# SPDX-License-Identifier: Apache-2.0
"""Models and their weights in files: what save, save_weights and export write, and what load_weights takes."""
from __future__ import annotations

import copy
import json
import os
import tempfile
import warnings
from typing import Any, Sequence

import numpy as np

from ... import data as _data
from ..._lib import Keep, check, lib, text
from ...checkpoint import load_checkpoint
from .._checkpoint import Checkpoint, restored
from .._checkpoint import write as write_checkpoint
from . import _config, _files, _serial
from ._layer import Layer
from ._native import NativeLayer
from ._network import Network
from .layers._text import TextVectorization

EXTRA = os.path.join("assets.extra", "estoc")  # of a SavedModel: what only this package reads
WEIGHTS = "weights"  # the checkpoint in a file of save_weights


def _writable(path: str, overwrite: bool) -> None:
    if not overwrite and os.path.exists(path):
        raise FileExistsError(f"{path} exists; remove it, or give overwrite=True")


class _Loaded:
    """What load_weights gives for a checkpoint."""

    def __init__(self, lacks: str | None, status: Any = None):
        self._lacks, self._status = lacks, status  # of what the checkpoint has for an optimizer

    def assert_existing_objects_matched(self) -> "_Loaded":
        """Every variable of the model was in the checkpoint."""
        if self._lacks is not None:
            raise AssertionError(self._lacks)
        return self

    def assert_consumed(self) -> "_Loaded":
        """Also every value for an optimizer has a variable."""
        left = [] if self._status is None else [key for key in self._status._match().unmatched() if
                                                key.startswith("optimizer/") or "/.OPTIMIZER_SLOT/" in key]
        if left:
            raise AssertionError(f"Unresolved object in checkpoint: nothing in this program takes {', '.join(left[:5])}")
        return self.assert_existing_objects_matched()

    def assert_nontrivial_match(self) -> "_Loaded":
        """Something was there: load_weights has seen to it."""
        return self

    def expect_partial(self) -> "_Loaded":
        """Values that nothing takes are expected; there is no warning about them anyway."""
        return self


def _remade(files: dict[str, bytes], objects: dict[str, Any]) -> Any:
    """The model of Saving._packed."""
    from .models import load_model
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
        return load_model(folder, objects)


class Saving:
    """The calls of a model that write and read files, and those that say how it is made."""

    # --- copies ---

    def __copy__(self) -> Any:
        """As deepcopy, if it has variables, as in Keras."""
        return _remade(*self._packed()) if self._has_values() else super().__copy__()

    def __reduce_ex__(self, protocol: int) -> Any:
        """pickle: another model with these values, as load_model makes it of a file."""
        if not self._has_values():
            raise NotImplementedError(f"{self.name} has no variables yet, and no pickle: build it, or call it first")
        return _remade, self._packed()

    def __deepcopy__(self, memo: dict) -> Any:
        if self._has_values() or self._functional or self._compiled is not None:
            new = _remade(*self._packed())
        else:  # of a class of the program, and never called
            args, named = copy.deepcopy(self._made_with, memo)
            new = type(self)(*args, **named)
            new.__dict__["_name"] = self._name
        memo[id(self)] = new
        return new

    def _has_values(self) -> bool:
        return bool(self.weights) or self._known_inputs() is not None

    def _packed(self) -> tuple[dict[str, bytes], dict[str, Any]]:
        """The files of the model, and the classes and functions of the program in it."""
        files: dict[str, bytes] = {}
        with tempfile.TemporaryDirectory() as folder, _config.noting_objects() as objects:
            if self._has_values():
                self._write_weights(os.path.join(folder, WEIGHTS), False)
            config = self._save_config(folder, True)
            if config["model"] is None:
                raise NotImplementedError(f"{self.name} cannot be copied or pickled: {config['why']}. Make another model and "
                                          "give it the values: other.set_weights(model.get_weights())")
            for root, _, names in os.walk(folder):
                for name in names:
                    path = os.path.join(root, name)
                    with open(path, "rb") as file:
                        files[os.path.relpath(path, folder)] = file.read()
        return files, objects

    # --- files ---

    def _need_graph(self, what: str) -> None:
        """Before a SavedModel is written: an error if no SavedModel can hold a part of the model."""
        if self.stateful:
            raise NotImplementedError(f"{self.name} has layers that keep their states from batch to batch, which no SavedModel "
                                      "does; give a name that ends with .keras, or use save_weights")
        texts = next((layer for layer in self._flat_layers() if isinstance(layer, TextVectorization)), None)
        if texts is not None:
            raise NotImplementedError(f"{what}: {texts.name} splits texts by operations that no SavedModel can hold; give a "
                                      "name that ends with .keras, or make a model of the layers after it")

    def _saved_network(self) -> Network:
        if self._network is None:
            specs = self._known_inputs()
            if specs is None:
                raise ValueError("the model was never called, so the shapes of its inputs are not known; fit, predict "
                                 "or call it first")
            self._network_from(specs)
        self._network.take()
        return self._network

    def _whole_network(self) -> Network:
        """One that predicts what the model does."""
        network = self._saved_network()
        if network.has_guesses:
            if network.has_writes:
                raise NotImplementedError(f"{self.name} assigns to variables in its call, which no predictor does: give a name "
                                          "that ends with .keras, or use save_weights")
            raise NotImplementedError(f"{self.name} has a loop over an unknown number of steps, which is unrolled: fit or "
                                      "predict with the number of steps that the SavedModel takes first, or give a name "
                                      "that ends with .keras")
        return network

    def get_config(self) -> dict:
        """How the model is made, for from_config; of a subclass its name."""
        if self._functional:
            return _config.of_model(self)
        return {"name": self.name}

    @classmethod
    def from_config(cls, config: dict, custom_objects: Any = None) -> Any:
        if "kind" not in config:
            return cls(**config)
        with _config.CustomObjectScope(custom_objects):
            return _config.made_model(config)

    def to_json(self, **named: Any) -> str:
        """How the model is made, for model_from_json."""
        return json.dumps(_config.of_model(self), **named)

    def save_weights(self, filepath: Any, overwrite: bool = True, save_format: Any = None, options: Any = None) -> None:
        """Writes the variables, and those of the optimizer, as a checkpoint of TensorFlow's format; to a name that ends
        with .h5 as one file of this package, without the optimizer, as in Keras."""
        path = os.fspath(filepath)
        as_file = _files.is_file(path, save_format)
        if (as_file or not self._has_objects()) and self._known_inputs() is None:
            raise ValueError(f"Weights for model {self.name!r} have not yet been created. Weights are created when the "
                             "model is first called on inputs or `build()` is called with an `input_shape`.")
        _writable(path if as_file else path + ".index", overwrite)
        if as_file:
            with _files.packing(path) as folder:
                self._write_weights(os.path.join(folder, WEIGHTS), False)
        else:
            self._write_weights(path, self.optimizer is not None and not self._world_now().is_shared)

    def _write_weights(self, path: str, with_optimizer: bool) -> None:
        if not self._world_now().is_remote and (self._has_objects() or with_optimizer) and (
                self.weights or self._known_inputs() is None):
            write_checkpoint(self, path, True)
        else:
            check(lib.est_network_save_weights(self._saved_network()._c, path.encode()))

    def _has_objects(self) -> bool:
        """Whether layers that are written in Python, of the program or the library, are among its own: their variables are
        known by the attributes that hold them, as in Keras, and not by numbers of layers."""
        return any(not type(layer).__module__.startswith("estoc.") or not isinstance(layer, (NativeLayer, Saving))
                   for layer in [self] + self._flat_layers())

    def load_weights(self, filepath: Any, skip_mismatch: bool = False, by_name: bool = False,
                     options: Any = None) -> Any:
        """Sets the variables from a checkpoint, a SavedModel or a file of save_weights or save. Those of a model that
        was never called wait until it is. What a checkpoint lacks keeps its values, with a warning, and assert_consumed
        of the result refuses it."""
        path = os.fspath(filepath)
        if os.path.isfile(path) or _files.is_file(path):
            with _files.unpacked(path) as folder:
                self.load_weights(os.path.join(folder, WEIGHTS), skip_mismatch, by_name)
                self._world_now().ready()  # now, since the files do not stay
            return None
        is_checkpoint = not by_name and not skip_mismatch and os.path.exists(path + ".index")
        if is_checkpoint and not self._world_now().is_remote and (self._has_objects() or self._known_inputs() is None):
            if self._known_inputs() is not None and not self.weights:
                self._saved_network()
            status = restored(self, path)
            if status is not None and (self._known_inputs() is None or status._restoration._given):
                return status
            if status is not None:
                status._restoration.drop()  # the network finds the variables by the numbers of layers
        keep, network = Keep(), self._saved_network()
        lacks = None
        for partial in (False, True):
            code = lib.est_network_load_weights(network._c, keep.string(path), keep.options(
                "est_load_weights_options", by_name=by_name, skip_mismatch=skip_mismatch, partial=partial))
            if partial or not is_checkpoint or code != lib.EST_FAILED_PRECONDITION:
                break
            lacks = text(lib.est_error_message()).split(". Set ")[0]
        check(code)
        self._world_now().trained.add(network)
        return _Loaded(lacks, self._take_optimizer(path)) if is_checkpoint else None

    def _take_optimizer(self, path: str) -> Any:
        """What a checkpoint has for the optimizer of the model, or for that of a later compile; None: nothing."""
        reader = load_checkpoint(path)
        objects = lib.est_checkpoint_saved_objects(reader._c)
        has_one = objects.n and any(text(objects.data[0].children[i].name) == "optimizer"
                                    for i in range(objects.data[0].n_children))
        return restored(self, path) if has_one and not self._world_now().is_remote else None

    def save(self, filepath: Any, overwrite: bool = True, save_format: Any = None, include_optimizer: bool = True,
             signatures: Any = None, options: Any = None, save_traces: bool = True) -> None:
        """Writes a SavedModel; to a name that ends with .keras or .h5 as one file of this package."""
        path = os.fspath(filepath)
        _writable(path, overwrite)
        if options is not None and not hasattr(options, "experimental_io_device"):
            raise TypeError(f"Model.save: options are a tf.saved_model.SaveOptions, not {type(options).__name__}")
        if _files.is_file(path, save_format):
            if signatures is not None:
                raise NotImplementedError("Model.save: a file has no signatures; a name without .keras and .h5 makes a "
                                          "SavedModel, which has them")
            with _files.packing(path) as folder:
                self._write_weights(os.path.join(folder, WEIGHTS), False)
                self._save_config(folder, include_optimizer, legacy_state=_files.is_hdf5(path, save_format))
            return
        self._need_graph("save to a folder")
        if signatures is not None:
            from .. import saved_model
            written = saved_model._write(self, path, signatures)
            self._save_config(path, include_optimizer, [written.get(id(variable)) for variable in self._ordered_weights()])
            return
        network = self._whole_network()
        check(lib.est_network_save(network._c, path.encode()))
        names = [network.name_of(variable._bytes) for variable in self._ordered_weights()]
        self._save_config(path, include_optimizer, [name and name.decode() for name in names])

    def save_spec(self, dynamic_batch: bool = True) -> tuple | None:
        """The arguments of call, as TensorSpecs: (positional, named); None: they are not known yet."""
        if not dynamic_batch:
            raise NotImplementedError("save_spec(dynamic_batch=False): models take batches of any size")
        known = self._known_inputs()
        if known is None:
            return None
        specs = [_data.TensorSpec((None, *tuple(shape)[1:]), dtype, name) for name, dtype, shape in known]
        return (specs[0] if len(specs) == 1 else specs,), {}

    def export(self, filepath: Any) -> None:
        """Writes a SavedModel for prediction only."""
        self._need_graph("export")
        check(lib.est_network_save(self._whole_network()._c, os.fspath(filepath).encode()))

    def _save_config(self, path: str, with_optimizer: bool, names: Sequence = (), legacy_state: bool = False) -> dict:
        """How the model was made, for load_model; a model of a program's own classes has only what predicts. `names`
        are those of the variables in the SavedModel, in their order: layers made again may be numbered otherwise.
        legacy_state: with the counter and the slots of an optimizer of `legacy`, which Keras has in .h5 alone."""
        config: dict = {"model": None, "compile": None, "variables": list(names)}
        try:
            config["model"] = _config.of_model(self)
        except _config.Unknown as why:
            config["why"] = str(why)
        folder = os.path.join(path, EXTRA)
        os.makedirs(folder, exist_ok=True)
        self._save_assets(folder)
        if self._compiled is not None and type(self).get_compile_config is not Saving.get_compile_config:
            config["compile_config"] = _serial.serialize(self.get_compile_config())
        elif self._compiled is not None and with_optimizer and config["model"] is not None:
            given = self._compiled
            try:
                config["compile"] = _config.encode({
                    "optimizer": self.optimizer, "loss": self.loss, "metrics": given.given_metrics,
                    "loss_weights": given.loss_weights, "weighted_metrics": given.given_weighted})
                if legacy_state or self.optimizer is self._trainer:
                    self._state_of_optimizer().write(os.path.join(folder, "optimizer"))
            except _config.Unknown as why:
                warnings.warn(f"{self.name} is saved without what compile was told: {why}")
        with open(os.path.join(folder, "model.json"), "w", encoding="utf-8") as file:
            json.dump(config, file, indent=1)
        return config

    def _state_of_optimizer(self) -> Checkpoint:
        """With the variables, to which the slots of optimizers of `legacy` belong."""
        return Checkpoint(optimizer=self.optimizer, variables=list(self._ordered_weights()))

    def _save_assets(self, folder: str) -> None:
        """What layers of a program write themselves: files (save_assets) and arrays (save_own_variables)."""
        for i, layer in enumerate([self] + self._flat_layers()):
            if type(layer).save_own_variables is not Layer.save_own_variables:
                store: dict[str, Any] = {}
                layer.save_own_variables(store)
                np.savez(os.path.join(folder, f"variables-{i}.npz"),
                         **{key: np.asarray(value) for key, value in store.items()})
            if hasattr(type(layer), "save_assets"):
                path = os.path.join(folder, "assets", str(i))
                os.makedirs(path, exist_ok=True)
                layer.save_assets(path)

    def get_compile_config(self) -> dict | None:
        """What compile was told, as plain values; a subclass whose compile takes something else overrides it, and
        compile_from_config."""
        if self._compiled is None:
            return None
        given = self._compiled
        return _serial.serialize({"optimizer": self.optimizer, "loss": self.loss, "metrics": given.given_metrics,
                                  "weighted_metrics": given.given_weighted, "loss_weights": given.loss_weights})

    def compile_from_config(self, config: dict) -> None:
        """Compiles with what get_compile_config of another model gave."""
        self.compile(**_serial.deserialize(config))
