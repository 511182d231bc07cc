# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1: graphs, sessions, variables and what a model_fn for graphs is written with."""
from __future__ import annotations

from typing import Any as _Any

import numpy as _np

from .... import graph as _base
from ...._shape import Dimension  # noqa: F401
from ... import version as _version
from ..._absent import module_getattr as _module_getattr
from ..._eager import unwrap as _unwrap
from ._graph import (AUTO_REUSE, Graph, GraphKeys, Operation, Variable, VariableScope, add_to_collection,  # noqa: F401
                     add_to_collections, assign, assign_add, assign_sub, control_dependencies, device,
                     disable_eager_execution, disable_tensor_equality, disable_v2_behavior, enable_eager_execution,
                     enable_tensor_equality, enable_v2_behavior,
                     executing_eagerly, get_collection, get_collection_ref, get_default_graph, get_local_variable,
                     get_variable, get_variable_scope, global_variables, global_variables_initializer, gradients, group,
                     init_scope, initialize_all_variables, initialize_local_variables, local_variables,
                     local_variables_initializer, make_template, model_variables, name_scope, no_op, placeholder,
                     placeholder_with_default, print_tensors, report_uninitialized_variables, reset_default_graph,
                     tables_initializer, trainable_variables,
                     tuple_of_tensors, variable_scope, variables_initializer)
from ._initializers import (constant_initializer, glorot_normal_initializer, glorot_uniform_initializer,  # noqa: F401
                            ones_initializer, random_normal_initializer, random_uniform_initializer,
                            truncated_normal_initializer, zeros_initializer)
from ._meta_graph import GraphDef, MetaGraphDef, NodeDef, import_graph_def  # noqa: F401
from ._partitioners import (fixed_size_partitioner, min_max_variable_partitioner,  # noqa: F401
                            variable_axis_size_partitioner)
from ._session import (ConfigProto, GPUOptions, GraphOptions, InteractiveSession, RunOptions, Session,  # noqa: F401
                       get_default_session)
from . import (app, data, feature_column, flags, gfile, layers, logging, losses, metrics, nn, python_io,  # noqa: F401
               saved_model, summary, train)
from ._named import renamed as _renamed
from ._wrap import wrap_function  # noqa: F401
from .summary import Summary  # noqa: F401

__version__ = _version.VERSION
globals()["tuple"] = globals().pop("tuple_of_tensors")
globals()["Print"] = globals().pop("print_tensors")
#: Names of TensorFlow 1 that mean nothing else in TensorFlow 2, so that tf has them too.
_TO_TF = ("AUTO_REUSE", "ConfigProto", "GPUOptions", "GraphKeys", "InteractiveSession", "Session", "add_to_collection",
          "add_to_collections", "assign", "assign_add", "assign_sub", "disable_eager_execution", "disable_v2_behavior",
          "enable_eager_execution", "get_collection", "get_default_graph", "get_default_session", "get_variable",
          "get_variable_scope", "global_variables", "global_variables_initializer", "initialize_all_variables",
          "local_variables", "local_variables_initializer", "placeholder", "placeholder_with_default",
          "reset_default_graph", "tables_initializer", "trainable_variables", "variable_scope", "variables_initializer")
#: Names that TensorFlow 2 has with the same meaning.
_SHARED = ("Graph", "Operation", "control_dependencies", "device", "executing_eagerly", "gradients", "group",
           "import_graph_def", "init_scope", "name_scope", "no_op")
#: Functions that have moved to modules in TensorFlow 2.
_MOVED = {"decode_csv": "io.decode_csv", "FixedLenFeature": "io.FixedLenFeature", "VarLenFeature": "io.VarLenFeature",
          "FixedLenSequenceFeature": "io.FixedLenSequenceFeature", "sparse_tensor_to_dense": "sparse.to_dense",
          "parse_example": "io.parse_example", "parse_single_example": "io.parse_single_example",
          "random_normal": "random.normal", "random_uniform": "random.uniform", "set_random_seed": "random.set_seed",
          "truncated_normal": "random.truncated_normal", "log": "math.log", "is_nan": "math.is_nan",
          "squared_difference": "math.squared_difference", "floordiv": "math.floordiv",
          "string_to_hash_bucket_fast": "strings.to_hash_bucket_fast", "string_join": "strings.join",
          "string_strip": "strings.strip", "read_file": "io.read_file",
          "write_file": "io.write_file", "random_shuffle": "random.shuffle", "rsqrt": "math.rsqrt",
          "reciprocal": "math.reciprocal", "ceil": "math.ceil", "mod": "math.floormod", "floormod": "math.floormod",
          "is_inf": "math.is_inf", "is_finite": "math.is_finite", "log1p": "math.log1p", "expm1": "math.expm1",
          "erf": "math.erf", "global_norm": "linalg.global_norm", "unsorted_segment_sum": "math.unsorted_segment_sum",
          "py_func": "numpy_function", "encode_base64": "io.encode_base64", "decode_base64": "io.decode_base64"}


def _take(tf: "dict[str, _Any]") -> None:
    """Names of tf that mean the same here, and those of here that tf has too."""
    for name, path in _MOVED.items():
        found: _Any = tf
        for part in path.split("."):
            found = found.get(part) if found is tf else vars(found).get(part)
            if found is None:
                break
        if found is not None:
            globals()[name] = found
    globals()["norm"] = _renamed(tf["norm"], keep_dims="keepdims")
    globals()["py_func"] = _renamed(globals()["py_func"], stateful=None)
    for kind, named in (("float32", "to_float"), ("int32", "to_int32"), ("int64", "to_int64")):
        globals()[named] = _to(tf["cast"], tf[kind])
    globals()["div"] = lambda x, y, name=None: _divide(tf, x, y)
    globals()["div"].__doc__ = _divide.__doc__
    from . import estimator, keras  # over those of tf, which are there by now

    globals().update(estimator=estimator, keras=keras)
    for name in _TO_TF + _SHARED:
        tf.setdefault(name, globals()[name])
    for name, value in list(tf.items()):
        if not name.startswith("_") and name not in ("annotations", "compat", "contrib"):
            globals().setdefault(name, value)


def constant(value: _Any, dtype: _Any = None, shape: _Any = None, name: str = "Const", verify_shape: bool = False) -> _Any:
    """tf.constant; with verify_shape the value has to have the shape already."""
    from ... import constant as make
    found = _np.shape(_unwrap(value)) if verify_shape and shape is not None else None
    if found is not None and found != (*shape,):
        raise TypeError(f"tf.compat.v1.constant: shape={shape} with verify_shape, and the value has the shape {found}")
    return make(value, dtype, shape, name)


def multinomial(logits: _Any, num_samples: int, seed: int | None = None, name: str | None = None,
                output_dtype: _Any = None) -> _Any:
    """tf.random.categorical, by its name of TensorFlow 1."""
    from ... import random
    return random.categorical(logits, num_samples, output_dtype, seed, name)


def _to(cast: _Any, dtype: _Any) -> _Any:
    def call(x: _Any, name: "str | None" = None) -> _Any:
        return cast(x, dtype)

    call.__doc__ = f"The tensor as {dtype.name}."
    return call


def _divide(tf: "dict[str, _Any]", x: _Any, y: _Any) -> _Any:
    """The quotient; of integers the largest one below."""
    x = tf["convert_to_tensor"](x)
    return x // y if x.dtype.is_integer else x / y


__getattr__ = _module_getattr(__name__)
