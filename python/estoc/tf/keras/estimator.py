# SPDX-License-Identifier: Apache-2.0
"""tf.keras.estimator"""
from __future__ import annotations

import functools as _functools
from typing import Any as _Any

from ... import _nest
from ... import data as _data
from ... import estimator as _estimator
from ..._lib import Keep as _Keep
from ..._lib import lib as _lib
from .._absent import module_getattr as _module_getattr


class _FromModel(_estimator.Estimator):
    """An Estimator of a compiled Keras model."""

    def __init__(self, model: _Any, model_dir: _Any, config: _Any):
        if model._compiled is None:
            raise ValueError("The given keras model has not been compiled yet. Please compile the model with "
                             "`model.compile()` before calling `model_to_estimator()`.")
        network = model._saved_network()

        def create(own: _Any, handle: _Any, keep: _Keep, out: _Any) -> _Any:
            keep.extend([model, network])
            return _lib.est_network_to_estimator(network._c, keep.options(
                "est_estimator_options", model_dir=keep.string(own.model_dir), config=own.config._c(keep)), out)

        self._names = network.names
        self._setup(None, model_dir, config, None, create)

    def _input(self, input_fn: _Any, keep: _Keep) -> dict[str, _Any]:
        """A feature that has no name goes to the only input."""
        @_functools.wraps(input_fn)
        def named(*args: _Any, **more: _Any) -> _Any:
            dataset = input_fn(*args, **more)
            if len(self._names) != 1 or not isinstance(dataset, _data.Dataset):
                return dataset
            form, name = dataset.structure, self._names[0]
            if isinstance(form, tuple) and len(form) == 2 and form[0] is _nest.LEAF:
                return dataset.map_graph(lambda features, labels: ({name: features}, labels))
            return dataset.map_graph(lambda features: {name: features}) if form is _nest.LEAF else dataset

        return super()._input(named, keep)


def model_to_estimator(keras_model: _Any = None, keras_model_path: _Any = None, custom_objects: _Any = None,
                       model_dir: _Any = None, config: _Any = None, checkpoint_format: str = "checkpoint",
                       metric_names_map: _Any = None, export_outputs: _Any = None) -> _Any:
    """An Estimator that trains a compiled model, beginning with its variables."""
    if keras_model is None or keras_model_path is not None or metric_names_map or export_outputs:
        raise NotImplementedError("model_to_estimator takes keras_model, model_dir and config")
    return _FromModel(keras_model, model_dir, config)


__getattr__ = _module_getattr(__name__)
