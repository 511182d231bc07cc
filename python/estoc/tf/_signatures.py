# SPDX-License-Identifier: Apache-2.0
"""The parameters that TensorFlow's operations have, where they are not those of estoc.ops and a name.

The first parameter stands for the first of ours, others for ours of the same name. What has no such counterpart may be
given as its default; anything else is refused.
"""
from __future__ import annotations

import ast
import inspect
from typing import Any, Mapping

_TABLE = """
argmax(input, axis=None, output_type=None, name=None)
argmin(input, axis=None, output_type=None, name=None)
as_string(input, precision=-1, scientific=False, shortest=False, width=-1, fill='', name=None)
avg_pool2d(input, ksize, strides, padding, data_format='NHWC', name=None)
bias_add(value, bias, data_format='NHWC', name=None)
boolean_mask(tensor, mask, axis=None, name=None)
check_numerics(tensor, message, name=None)
clip_by_norm(t, clip_norm, axes=None, name=None)
conv2d(input, filters, strides, padding, data_format='NHWC', dilations=None, name=None)
elu(features, name=None)
expand_dims(input, axis, name=None)
gather(params, indices, validate_indices=None, axis=None, batch_dims=0, name=None)
gather_nd(params, indices, batch_dims=0, name=None)
identity(input, name=None)
l2_loss(t, name=None)
leaky_relu(features, alpha=0.2, name=None)
log_softmax(logits, axis=None, name=None)
matmul(a, b, transpose_a=False, transpose_b=False, adjoint_a=False, adjoint_b=False, \
a_is_sparse=False, b_is_sparse=False, output_type=None, name=None)
matvec(a, b, transpose_a=False, adjoint_a=False, a_is_sparse=False, b_is_sparse=False, name=None)
max_pool2d(input, ksize, strides, padding, data_format='NHWC', name=None)
ones_like(input, dtype=None, name=None)
pad(tensor, paddings, mode='CONSTANT', constant_values=0, name=None)
reduce_all(input_tensor, axis=None, keepdims=False, name=None)
reduce_any(input_tensor, axis=None, keepdims=False, name=None)
reduce_max(input_tensor, axis=None, keepdims=False, name=None)
reduce_mean(input_tensor, axis=None, keepdims=False, name=None)
reduce_min(input_tensor, axis=None, keepdims=False, name=None)
reduce_prod(input_tensor, axis=None, keepdims=False, name=None)
reduce_sum(input_tensor, axis=None, keepdims=False, name=None)
relu(features, name=None)
relu6(features, name=None)
reshape(tensor, shape, name=None)
selu(features, name=None)
shape(input, out_type=None, name=None)
silu(features, beta=1.0)
size(input, out_type=None, name=None)
slice(input_, begin, size, name=None)
softmax(logits, axis=None, name=None)
softplus(features, name=None)
softsign(features, name=None)
split(value, num_or_size_splits, axis=0, num=None, name=None)
squeeze(input, axis=None, name=None)
stop_gradient(input, name=None)
strip(input, name=None)
tile(input, multiples, name=None)
to_number(input, out_type=None, name=None)
to_hash_bucket_fast(input, num_buckets, name=None)
top_k(input, k=1, sorted=True, index_type=None, name=None)
transpose(a, perm=None, conjugate=False, name=None)
unstack(value, num=None, axis=0, name=None)
zeros_like(input, dtype=None, name=None)
"""
#: Parameters that change nothing here: tensors of complex numbers do not exist, and what is sorted is also unsorted.
_NEUTRAL = {("gather", "validate_indices"), ("matmul", "a_is_sparse"), ("matmul", "b_is_sparse"),
            ("matvec", "a_is_sparse"), ("matvec", "b_is_sparse"), ("top_k", "sorted"),
            ("transpose", "conjugate")}
#: Of real numbers these are one thing.
_SAME = {"adjoint_a": "transpose_a", "adjoint_b": "transpose_b"}
#: Names that TensorFlow 1 has for parameters.
_EARLIER = {"reduction_indices": "axis", "keep_dims": "keepdims", "dimension": "axis", "squeeze_dims": "axis",
            "dim": "axis"}


def _parsed(line: str) -> tuple[str, dict[str, Any]]:
    name, _, rest = line.partition("(")
    found = {}
    for part in rest.rstrip(")").split(", "):
        key, _, default = part.partition("=")
        found[key] = ast.literal_eval(default) if default else inspect.Parameter.empty
    return name, found


_PARAMETERS = dict(_parsed(line) for line in _TABLE.strip().splitlines())


class Binding:
    """How a call with TensorFlow's parameters becomes one with those of a function over nodes."""

    def __init__(self, name: str, ours: Mapping[str, inspect.Parameter]):
        self.name = name
        own = {key: parameter.default for key, parameter in ours.items() if key != "name"}
        self.own = tuple(own)
        self.theirs: dict[str, Any] = _PARAMETERS.get(name) or {**own, "name": None}
        first = next(iter(self.theirs))
        self.names = {key: _SAME.get(key, key) for key in self.theirs if _SAME.get(key, key) in own and key != "name"}
        self.names[first] = next(iter(own))
        self.required = sum(default is inspect.Parameter.empty for default in self.theirs.values())
        #: So many positional arguments are those of the function.
        self.plain = 0
        for key, our in zip(self.theirs, own):
            if self.names.get(key) != our:
                break
            self.plain += 1

    def only_defaults(self) -> list[tuple[str, Any]]:
        """The parameters that no other value exists for."""
        return [(key, default) for key, default in self.theirs.items()
                if key not in self.names and key != "name" and (self.name, key) not in _NEUTRAL]

    def signature(self) -> inspect.Signature:
        return inspect.Signature([inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
                                  for key, default in self.theirs.items()])

    def bind(self, positional: tuple, named: dict) -> tuple[tuple, dict, Any]:
        """Arguments of the function, and the name that the result shall have."""
        if len(positional) > len(self.theirs):
            raise TypeError(f"{self.name}() takes {len(self.theirs)} positional arguments but {len(positional)} were "
                            "given")
        given = dict(zip(self.theirs, positional))
        for key, value in named.items():
            key = key if key in self.theirs else _EARLIER.get(key, key)
            if key not in self.theirs:
                raise TypeError(f"{self.name}() got an unexpected keyword argument '{key}'")
            if key in given:
                raise TypeError(f"{self.name}() got multiple values for argument '{key}'")
            given[key] = value
        missing = [key for key, default in self.theirs.items()
                   if default is inspect.Parameter.empty and key not in given]
        if missing:
            raise TypeError(f"{self.name}() missing {len(missing)} required positional arguments: {', '.join(missing)}")
        title = given.pop("name", None)
        bound = {}
        for key, value in given.items():
            default = self.theirs[key]
            if value is default or isinstance(default, (str, int, float)) and isinstance(value, type(default)) and \
                    value == default:
                continue
            if key in self.names:
                bound[self.names[key]] = value
            elif (self.name, key) not in _NEUTRAL:
                raise NotImplementedError(f"{self.name}: {key}={value!r} does not exist yet")
        leading = []
        for key in self.own:
            if key not in bound:
                break
            leading.append(bound.pop(key))
        return tuple(leading), bound, title
