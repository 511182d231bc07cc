# SPDX-License-Identifier: Apache-2.0
"""tf.random: in a function every run draws other numbers; outside every call does."""
from __future__ import annotations

from typing import Any as _Any
from typing import Callable as _Callable

import numpy as _np

from .. import errors as _errors
from .. import ops as _ops
from .._lib import c_seed as _c_seed
from .._lib import here as _here
from .._lib import lib as _lib
from .._tensor import as_array as _as_array
from .._tensor import as_dtype as _as_dtype
from .._tensor import float32 as _float32
from .._tensor import int64 as _int64
from ..graph import Graph as _Graph
from ..graph import Node as _Node
from ..graph import Session as _Session
from ..graph import as_node as _as_node
from ..graph import default_graph as _default_graph
from ._absent import module_getattr as _module_getattr
from ._eager import Tensor as _Tensor
from ._eager import unwrap as _unwrap
from ._philox import (Algorithm, Generator, create_rng_state, fold_in, get_global_generator,  # noqa: F401
                      set_global_generator, split, stateless_normal, stateless_truncated_normal, stateless_uniform)
from ._variable import Variable as _Variable
from ._world import next_seed as _next_seed
from ._world import numbered as _numbered
from ._world import numbering as _numbering
from ._world import set_seed as _set_seed

def set_seed(seed: int) -> None:
    """Of everything that is drawn from now on; where a graph of tf.compat.v1 is built, of that graph."""
    from .compat.v1 import _graph
    graph = _graph.seeded_graph()
    if graph is not None and not _numbering:
        _lib.est_graph_set_seed(graph._c, _c_seed(seed))
    _set_seed(seed)


def _draw(build: _Callable, *inputs: _Any, seed: int | None = None) -> _Any:
    """A random operation over nodes."""
    graph = _default_graph() or next((item.graph for item in inputs if isinstance(item, _Node)), None)
    _here()
    if graph is not None:
        nodes = [_as_node(_unwrap(item), graph) for item in inputs]
        return graph.node(build(*nodes))
    graph = _numbered(_Graph(_next_seed(seed)))
    nodes = [graph.constant(_as_array(_unwrap(item))) for item in inputs]
    with _Session(graph, threads=1, devices=["/cpu:0"]) as session:
        return _Tensor(session.run(graph.node(build(*nodes))))


def _shape(shape: _Any) -> _Any:
    if isinstance(shape, (list, tuple)):
        node = next((item for item in shape if isinstance(item, _Node)), None)
        if node is not None:  # sizes that are known when it is run
            return _ops.stack([_ops.cast(_as_node(item, node.graph), "int32") for item in shape])
    return shape if isinstance(shape, _Node) else _np.asarray(_unwrap(shape), _np.int32).reshape(-1)


def shuffle(value: _Any, seed: int | None = None, name: str | None = None) -> _Any:
    """The rows of a tensor in another order."""
    if not isinstance(value, _Node) and _np.ndim(_unwrap(value)) == 0:
        return value if isinstance(value, _Tensor) else _Tensor(_unwrap(value))
    rows = _np.asarray(_as_array(_unwrap(value)).shape[:1], _np.int32) if not isinstance(value, _Node) else None
    if rows is None or _default_graph() is not None:
        node = _as_node(_unwrap(value), _default_graph() or value.graph)
        keys = _draw(lambda shape: _lib.est_random_uniform(shape._c, _float32.number, _c_seed(seed)),
                     _ops.slice(_ops.shape(node), [0], [1]), seed=seed)
        if node.shape is None or node.shape[0] is None:
            raise NotImplementedError("tf.random.shuffle in a function: the number of rows must be known")
        return _ops.gather(node, _ops.top_k(keys, node.shape[0])[1])
    keys = _draw(lambda shape: _lib.est_random_uniform(shape._c, _float32.number, _c_seed(seed)), rows, seed=seed)
    return _Tensor(_as_array(_unwrap(value))[_np.argsort(keys.numpy(), kind="stable")])


def _is(value: _Any, number: float) -> bool:
    return isinstance(value, (int, float)) and value == number


def _moved(drawn: _Any, factor: _Any, offset: _Any) -> _Any:
    """drawn * factor + offset, of which both may be tensors."""
    return drawn if _is(factor, 1) and _is(offset, 0) else drawn * factor + offset


def normal(shape: _Any, mean: float = 0.0, stddev: float = 1.0, dtype: _Any = _float32, seed: int | None = None,
           name: str | None = None) -> _Any:
    """Normal numbers."""
    kind = _as_dtype(dtype)
    drawn = _draw(lambda node: _lib.est_random_normal(node._c, kind.number, _c_seed(seed)), _shape(shape), seed=seed)
    return _moved(drawn, stddev, mean)


def truncated_normal(shape: _Any, mean: float = 0.0, stddev: float = 1.0, dtype: _Any = _float32,
                     seed: int | None = None, name: str | None = None) -> _Any:
    """Normal numbers within two deviations."""
    kind = _as_dtype(dtype)
    drawn = _draw(lambda node: _lib.est_truncated_normal(node._c, kind.number, _c_seed(seed)), _shape(shape), seed=seed)
    return _moved(drawn, stddev, mean)


def uniform(shape: _Any, minval: _Any = 0, maxval: _Any = None, dtype: _Any = _float32, seed: int | None = None,
            name: str | None = None) -> _Any:
    """Uniform numbers in [minval, maxval); maxval is 1 for floats, and needed for integers."""
    kind = _as_dtype(dtype)
    if kind.is_integer:
        if maxval is None:
            raise ValueError("Must specify maxval for integer dtype int32")
        low, high = (_np.asarray(_unwrap(bound), kind.as_numpy_dtype) for bound in (minval, maxval))
        return _draw(lambda node, a, b: _lib.est_random_uniform_int(node._c, a._c, b._c, _c_seed(seed)), _shape(shape), low,
                     high, seed=seed)
    drawn = _draw(lambda node: _lib.est_random_uniform(node._c, kind.number, _c_seed(seed)), _shape(shape), seed=seed)
    if maxval is None and _is(minval, 0):
        return drawn
    low, high = (bound if isinstance(bound, (int, float, _Tensor, _Variable)) else _Tensor(_unwrap(bound), kind)
                 for bound in (minval, 1.0 if maxval is None else maxval))
    return _moved(drawn, high - low, low)


def categorical(logits: _Any, num_samples: int, dtype: _Any = None, seed: int | None = None,
                name: str | None = None) -> _Any:
    """Numbers of classes, [batch, num_samples], drawn by their unnormalized log-probabilities, [batch, classes]."""
    kind = _int64 if dtype is None else _as_dtype(dtype)
    logits = logits if isinstance(logits, _Node) else _as_array(_unwrap(logits))
    if logits.shape is not None and len(logits.shape) != 2:
        raise _errors.InvalidArgumentError(f"logits should be a matrix, got shape {list(logits.shape)}")

    def build(node: _Node) -> _Any:
        sizes = _ops.shape(node)
        shape = _ops.concat([sizes[:1], _np.array([num_samples], _np.int32), sizes[1:]], 0)
        drawn = node.graph.node(_lib.est_random_uniform(shape._c, _float32.number, _c_seed(seed)))
        # the largest of logits with noise of Gumbel's distribution
        keys = _ops.expand_dims(_ops.cast(node, _float32), 1) - _ops.log(-_ops.log(drawn))
        return _ops.cast(_ops.argmax(keys, -1), kind)._c

    return _draw(build, logits, seed=seed)


class experimental:  # noqa: N801 - a module in TensorFlow
    """tf.random.experimental"""

    Algorithm, Generator = Algorithm, Generator
    get_global_generator, set_global_generator = staticmethod(get_global_generator), staticmethod(set_global_generator)
    create_rng_state, stateless_fold_in, stateless_split = map(staticmethod, (create_rng_state, fold_in, split))


__getattr__ = _module_getattr(__name__)
