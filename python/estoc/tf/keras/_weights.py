# SPDX-License-Identifier: Apache-2.0
"""The variables of layers: in the world, and in each graph in which a layer is called."""
from __future__ import annotations

import contextlib
from typing import Any, Sequence

import numpy as np

from ..._lib import Keep, here, lib
from ..._tensor import as_dtype, c_shape
from ...graph import Graph, default_graph
from .. import _structure
from .._creators import announce
from .._variable import Variable
from .._world import World, current_world
from ._calling import context, scopes_of, shown_name
from ._symbolic import KerasTensor, call_again


class Weights:
    """The part of a layer that makes, lists and sets its variables."""

    def add_weight(self, name: str | None = None, shape: Any = (), dtype: Any = None, initializer: Any = None,
                   regularizer: Any = None, trainable: bool | None = None, constraint: Any = None,
                   **named: Any) -> Variable:
        """A variable of this layer. The default initializer is Glorot uniform for floats, else zeros."""
        for key in named.keys() - {"use_resource", "synchronization", "aggregation", "caching_device",
                                   "experimental_autocast"}:
            raise TypeError(f"add_weight() got an unexpected keyword argument '{key}'")
        here()
        keep = Keep()
        graph = default_graph()
        sketched = graph is not None and graph.is_sketch
        program = graph.program if sketched else None
        if program is not None:
            graph, world = program, None
        else:
            world = getattr(graph, "world", None) if graph is not None and not sketched else self._world_now()
            graph = graph if graph is not None and not sketched else world.graph
        shape = tuple((shape,) if isinstance(shape, (int, np.integer)) else shape)
        from . import constraints, initializers, regularizers
        cost = regularizers.get(regularizer)
        # in a sketch the scope of the layer is that of another graph
        path = "/".join(context.__dict__.get("names", [])) if sketched else ""
        scope = scopes_of(graph).get(path, path)
        with contextlib.ExitStack() as around:
            if world is not None:
                around.enter_context(world.alone())
            if scope:
                around.enter_context(graph.scope(scope))
            handle = lib.est_weight(graph._c, keep.string(name or "Variable"), c_shape(shape), keep.options(
                "est_weight_options", dtype=as_dtype(dtype or self._dtype).number,
                initializer=initializers._c(keep, initializer),
                regularizer=regularizers._c(keep, cost if world is None else None),
                frozen=trainable is False))
        graph.check()
        graph.keep.append(keep)
        variable = Variable._of(world, graph, handle, trainable is not False)
        if program is not None:
            scopes_of(program)[path] = variable._name.rpartition("/")[0] + "/"
        variable._shown = shown_name(name or "Variable")
        variable.constraint = constraints.get(constraint)
        if cost is not None:
            self.__dict__.setdefault("_own_costs", []).append((variable, cost))
        announce([variable])
        if not any(variable is item for item in self._own_weights):
            self._own_weights.append(variable)
        return variable

    def add_variable(self, *args: Any, **named: Any) -> Variable:
        """add_weight, by its name of TensorFlow 1."""
        return self.add_weight(*args, **named)

    def _world_now(self) -> World:
        return self._home if self._home is not None else current_world()

    def _graph_now(self) -> Graph:
        """The graph whose variables a program means: that of a model_fn, or of the world."""
        graph = default_graph()
        if graph is not None and getattr(graph, "world", None) is None:
            return graph
        return self._world_now().graph

    def _collect(self, graph: Graph) -> list[Variable]:
        """The variables in a graph: own ones, then those of layers within."""
        found = self._variables_of(graph)
        for layer in self._layers:
            found += layer._collect(graph)
        return list({id(item): item for item in found}.values())

    def _variables_of(self, graph: Graph) -> list[Variable]:
        """The variables of this layer, without those within, in the order in which they were made."""
        own = list(self._own_weights)
        before = self.__dict__.get("_own_before", len(own))
        return own[:before] + list(self._in_graphs.get(graph, ())) + own[before:]

    def _ensure_built(self) -> None:
        """Makes the variables, if the shape of the input is known."""
        sequence = self.__dict__.get("_in_sequence")
        if default_graph() is None and not self.built and sequence is not None and sequence() is not None:
            sequence()._ensure_built()
        world = self._world_now() if "_symbolic" in self.__dict__ and default_graph() is None else None
        if world is None or world.graph in self._made_in or self._collect(world.graph):
            return
        self._made_in.add(world.graph)
        call = next((leaf._call for leaf in _structure.flatten(self._symbolic[1]) if isinstance(leaf, KerasTensor)), None)
        if call is not None:
            call_again(self, world, call)

    @property
    def weights(self) -> list[Variable]:
        return self._parts(self._ordered_weights())

    @property
    def variables(self) -> list[Variable]:
        return self.weights

    def _parts(self, found: list) -> list:
        return [part for variable in found for part in self._world_now().parts(variable)]

    @property
    def trainable_weights(self) -> list[Variable]:
        found, frozen = self._all_weights(), self._frozen_ids()  # in this order: the first makes them
        return [item for item in found if item.trainable and id(item) not in frozen]

    @property
    def non_trainable_weights(self) -> list[Variable]:
        found, frozen = self._all_weights(), self._frozen_ids()
        return [item for item in found if not item.trainable or id(item) in frozen]

    def _all_weights(self) -> list[Variable]:
        self._ensure_built()
        return self._collect(self._graph_now())

    def _frozen_ids(self) -> set:
        graph = self._graph_now()
        if not self._trainable:
            return {id(item) for item in self._collect(graph)}
        return set().union(*(layer._frozen_ids() for layer in self._layers)) if self._layers else set()

    @property
    def trainable_variables(self) -> list[Variable]:
        return self.trainable_weights

    @property
    def non_trainable_variables(self) -> list[Variable]:
        return self.non_trainable_weights

    def get_weights(self) -> list[np.ndarray]:
        return [np.asarray(variable.numpy()) for variable in self._ordered_weights()]

    def set_weights(self, weights: Sequence[Any]) -> None:
        variables = self._ordered_weights()
        if len(variables) != len(weights):
            raise ValueError(f"You called `set_weights(weights)` on layer \"{self.name}\" with a weight list of length "
                             f"{len(weights)}, but the layer was expecting {len(variables)} weights.")
        for variable, value in zip(variables, weights):
            if tuple(np.shape(value)) != tuple(variable.shape):
                raise ValueError(f"Layer {self.name} weight shape {tuple(variable.shape)} is not compatible with "
                                 f"provided weight shape {np.shape(value)}.")
        for variable, value in zip(variables, weights):
            variable.assign(value)

    def _ordered_weights(self) -> list[Variable]:
        """Trainable ones first."""
        return self.trainable_weights + self.non_trainable_weights

    def count_params(self) -> int:
        return sum(int(np.prod(variable.shape, dtype=np.int64)) for variable in self._all_weights())
