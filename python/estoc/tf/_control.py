# SPDX-License-Identifier: Apache-2.0
"""Control flow and arrays of tensors: Python decides, which needs values. In a function that is traced conditions of
tensors raise NeedsValue, and the function is run as Python."""
from __future__ import annotations

from typing import Any, Callable

from .. import ops
from .._tensor import as_dtype, int32
from ..errors import InvalidArgumentError, OutOfRangeError
from ..graph import NeedsValue, Node, Shape, merged_shape
from . import _structure, nest
from ._array import zeros
from ._eager import Tensor, composite_among, eager, unwrap
from ._variable import Variable

_stack, _concat, _unstack, _gather = eager(ops.stack), eager(ops.concat), eager(ops.unstack), eager(ops.gather)
_cast, _reshape = eager(ops.cast), eager(ops.reshape)


def _tensor(value: Any, dtype: Any = None) -> Any:
    if isinstance(value, _structure.Composite):
        return value
    if isinstance(value, Variable):
        value = value.value()
    return value if isinstance(value, (Tensor, Node)) else Tensor(unwrap(value), dtype)


def _tensors(value: Any) -> Any:
    return nest.map_structure(_tensor, value)


def _number(value: Any, what: str) -> int:
    if isinstance(value, Node):
        raise NeedsValue(f"{what} must be known while a function is traced")
    return int(value)


class TensorArray:
    """A list of tensors of one dtype, which write() makes longer with dynamic_size."""

    def __init__(self, dtype: Any, size: Any = None, dynamic_size: bool | None = None,
                 clear_after_read: bool | None = None, tensor_array_name: str | None = None, handle: Any = None,
                 flow: Any = None, infer_shape: bool = True, element_shape: Any = None,
                 colocate_with_first_write_call: bool = True, name: str | None = None):
        if handle is not None or flow is not None:
            raise NotImplementedError("tf.TensorArray: handle and flow do not exist")
        self._dtype, self._dynamic = as_dtype(dtype), bool(dynamic_size)
        self._clear = clear_after_read is not False
        self._same = infer_shape
        self._element = None if element_shape is None else Shape(element_shape)
        self._items: list = [None] * (0 if size is None else _number(size, "the size of a tf.TensorArray"))
        self._cleared: set = set()

    dtype = property(lambda self: self._dtype)
    dynamic_size = property(lambda self: self._dynamic)
    element_shape = property(lambda self: Shape(None) if self._element is None else self._element)

    def _at(self, index: Any) -> int:
        return _number(index, "an index of a tf.TensorArray")

    def _take(self, value: Any) -> Any:
        value = _tensor(value, None if isinstance(value, (Tensor, Node, Variable)) else self._dtype)
        if value.dtype != self._dtype:
            raise InvalidArgumentError(f"TensorArray dtype is {self._dtype.name} but Op is trying to write dtype "
                                       f"{value.dtype.name}")
        if self._same and value.shape is not None:
            self._element = Shape(merged_shape(None if self._element is None else tuple(self._element), value.shape))
        return value

    def write(self, index: Any, value: Any, name: str | None = None) -> "TensorArray":
        """Puts a tensor at an index."""
        at = self._at(index)
        if at < 0 or at >= len(self._items) and not self._dynamic:
            raise OutOfRangeError(f"Tried to write to index {at} but array is not resizeable and size is: "
                                  f"{len(self._items)}")
        self._items += [None] * (at + 1 - len(self._items))
        self._items[at] = self._take(value)
        self._cleared.discard(at)
        return self

    def read(self, index: Any, name: str | None = None) -> Any:
        """The tensor at an index, once unless clear_after_read=False; zeros where none was written."""
        at = self._at(index)
        found = self._peek(at)
        if self._items[at] is not None and self._clear:
            self._items[at] = None
            self._cleared.add(at)
        return found

    def _peek(self, at: int) -> Any:
        if not 0 <= at < len(self._items):
            raise OutOfRangeError(f"Tried to read from index {at} but array size is: {len(self._items)}")
        if at in self._cleared:
            raise InvalidArgumentError(f"Could not read index {at} twice because it was cleared after a previous read "
                                       "(perhaps try setting clear_after_read = false?)")
        return self._missing(at) if self._items[at] is None else self._items[at]

    def _missing(self, at: int) -> Any:
        if self._element is None or None in self._element:
            raise InvalidArgumentError(f"Could not read index {at} before it was written, since the shape of the "
                                       "elements is not known")
        return zeros(self._element, self._dtype)

    def _all(self) -> list:
        return [self._peek(i) for i in range(len(self._items))]

    def stack(self, name: str | None = None) -> Any:
        """All tensors along a new first axis."""
        if not self._items:
            shape = () if self._element is None else tuple(self._element)
            return zeros((0, *shape), self._dtype)
        return _stack(self._all())

    def concat(self, name: str | None = None) -> Any:
        """All tensors, one after the other."""
        return _concat(self._all(), 0)

    def gather(self, indices: Any, name: str | None = None) -> Any:
        """The tensors at some indices along a new first axis."""
        return _stack([self._peek(i) for i in _ints(indices)])

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> "TensorArray":
        """Puts the rows of a tensor at some indices."""
        for at, row in zip(_ints(indices), _unstack(_tensor(value, self._dtype))):
            self.write(at, row)
        return self

    def unstack(self, value: Any, name: str | None = None) -> "TensorArray":
        """Takes the rows of a tensor."""
        rows = _unstack(_tensor(value, self._dtype))
        if len(rows) > len(self._items) and not self._dynamic:
            raise ValueError(f"Cannot unstack {len(rows)} tensors into a TensorArray of static size {len(self._items)}")
        self._items, self._cleared = [], set()
        self._items = [self._take(row) for row in rows]
        return self

    def split(self, value: Any, lengths: Any, name: str | None = None) -> "TensorArray":
        """Takes parts of a tensor, of these lengths."""
        sizes, self._same = _ints(lengths), False
        for at, part in enumerate(eager(ops.split)(_tensor(value, self._dtype), sizes)):
            self.write(at, part)
        return self

    def size(self, name: str | None = None) -> Tensor:
        return Tensor(len(self._items), int32)

    def identity(self) -> "TensorArray":
        return self

    def close(self, name: str | None = None) -> None:
        self._items = []

    __len__ = lambda self: len(self._items)  # noqa: E731


def _ints(values: Any) -> list[int]:
    if isinstance(values, Node):
        raise NeedsValue("indices of a tf.TensorArray must be known while a function is traced")
    return [int(value) for value in unwrap(_tensor(values)).reshape(-1)]


# --- branches and loops -----------------------------------------------------------------------------------------------


def cond(pred: Any, true_fn: Callable | None = None, false_fn: Callable | None = None, name: str | None = None) -> Any:
    """The result of one of two functions."""
    if not callable(true_fn) or not callable(false_fn):
        raise TypeError("'true_fn' and 'false_fn' must be callable.")
    return true_fn() if _truth(pred) else false_fn()


def _truth(value: Any) -> bool:
    if isinstance(value, Node):
        raise NeedsValue(f"graphs have no control flow, and {value.name} has no value while one is built; tf.where "
                         "selects element by element")
    return bool(value)


def case(pred_fn_pairs: Any, default: Callable | None = None, exclusive: bool = False, strict: bool = False,
         name: str = "case") -> Any:
    """The result of the first function whose condition holds."""
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict) else pred_fn_pairs)
    holds = [_truth(_tensor(condition.deref() if hasattr(condition, "deref") else condition)) for condition, _ in pairs]
    if exclusive and sum(holds) > 1:
        raise InvalidArgumentError("more than one condition of an exclusive tf.case holds")
    for (_, function), true in zip(pairs, holds):
        if true:
            return function()
    if default is None:
        raise InvalidArgumentError("None of the conditions of tf.case holds, and there is no default")
    return default()


def switch_case(branch_index: Any, branch_fns: Any, default: Callable | None = None, name: str = "switch_case") -> Any:
    """The result of the function with that number; of the default, or the last one, where there is none."""
    if isinstance(branch_index, Node):
        _truth(branch_index)
    pairs = branch_fns.items() if isinstance(branch_fns, dict) else [
        item if isinstance(item, tuple) else (i, item) for i, item in enumerate(branch_fns)]
    branches = {int(number): function for number, function in pairs}
    if sorted(branches) != list(range(len(branches))):
        raise ValueError(f"branch indices must form contiguous range of [0 to {len(branches)}) but found {sorted(branches)}")
    return branches.get(int(branch_index), default or branches[max(branches)])()


def while_loop(cond: Callable, body: Callable, loop_vars: Any, shape_invariants: Any = None,  # noqa: A002
               parallel_iterations: int = 10, back_prop: bool = True, swap_memory: bool = False,
               maximum_iterations: Any = None, name: str | None = None) -> Any:
    """body(*loop_vars) for as long as cond(*loop_vars) holds."""
    if not back_prop:
        raise NotImplementedError("tf.while_loop: back_prop=False does not exist; tf.stop_gradient does")
    one = not isinstance(loop_vars, (list, tuple))
    values = _tensors([loop_vars] if one else loop_vars)
    left = None if maximum_iterations is None else _number(maximum_iterations, "maximum_iterations")
    while left != 0 and _truth(cond(*values)):
        made = body(*values)
        made = made if isinstance(made, (list, tuple)) else [made]
        if len(made) != len(values):
            raise ValueError(f"The body of tf.while_loop returned {len(made)} values for {len(values)} loop variables.")
        values = type(values)(*_tensors(made)) if hasattr(values, "_fields") else type(values)(_tensors(list(made)))
        left = None if left is None else left - 1
    return values[0] if one else values


def _rows(elems: Any) -> list:
    """The elements along the first axis of all parts of a structure."""
    if composite_among([elems] if isinstance(elems, _structure.Composite) else nest.flatten(elems)) is not None:
        leaves = [list(leaf) if isinstance(leaf, _structure.Composite) else list(_unstack(_tensor(leaf)))
                  for leaf in nest.flatten(elems)]
        if len({len(leaf) for leaf in leaves}) > 1:
            raise InvalidArgumentError(f"elems have first axes of different sizes: {sorted(map(len, leaves))}")
        return [nest.pack_sequence_as(elems, row) for row in zip(*leaves)]
    parts = [_tensor(leaf) for leaf in _structure.flatten(elems)]
    if not parts:
        raise ValueError("elems must be a Tensor or (possibly nested) sequence of Tensors.")
    counts = {None if part.shape is None else part.shape[0] if len(part.shape) else -1 for part in parts}
    if -1 in counts:
        raise ValueError("elems must be a 1+ dimensional Tensor, not a scalar")
    if None in counts:
        raise NeedsValue("how many rows a tensor has must be known while a function is traced")
    if len(counts) > 1:
        raise InvalidArgumentError(f"elems have first axes of different sizes: {sorted(counts)}")
    columns = [_unstack(part) for part in parts]
    return [_structure.pack_as(elems, row) for row in zip(*columns)]


def _together(results: list) -> Any:
    columns = zip(*(_structure.flatten(result) for result in results))
    return _structure.pack_as(results[0], [_stack(list(column)) for column in columns])


def _rows_together(results: list, kinds: list) -> Any:
    """The same where some results, as kinds says, are rows of ragged tensors."""
    from .ragged import stack
    columns = zip(*(nest.flatten(result) for result in results))
    return nest.pack_sequence_as(results[0], [
        stack(list(column)) if isinstance(kind, _structure.Composite) and len(kind.shape) > 1 else _stack(list(column))
        for column, kind in zip(columns, kinds)])


def map_fn(fn: Callable, elems: Any, dtype: Any = None, parallel_iterations: int | None = None, back_prop: bool = True,
           swap_memory: bool = False, infer_shape: bool = True, name: str | None = None,
           fn_output_signature: Any = None) -> Any:
    """fn(element) for the elements along the first axis, which must be known in a function that is traced, together."""
    if not back_prop:
        raise NotImplementedError("tf.map_fn: back_prop=False does not exist; tf.stop_gradient does")
    wanted = fn_output_signature if fn_output_signature is not None else dtype
    results = [_tensors(fn(row)) for row in _rows(elems)]
    if not results:
        raise NotImplementedError("tf.map_fn of no rows: nothing says what the function returns")
    kinds = [leaf if isinstance(leaf, _structure.Composite) else _tensor(leaf).dtype for leaf in nest.flatten(elems)
             ] if wanted is None else [leaf if isinstance(leaf, _structure.Composite) else as_dtype(
                 getattr(leaf, "dtype", leaf)) for leaf in nest.flatten(wanted)]
    made = _rows_together(results, kinds) if composite_among(kinds) is not None else _together(results)
    for found, kind in zip(nest.flatten(made), kinds):
        if isinstance(kind, _structure.Composite):
            kind = kind.dtype
        if found.dtype != kind:
            raise InvalidArgumentError(f"tf.map_fn: the function gave {found.dtype.name}, and fn_output_signature (or "
                                       f"the dtype of elems) is {kind.name}")
    return made


def vectorized_map(fn: Callable, elems: Any, fallback_to_while_loop: bool = True, warn: bool = True) -> Any:
    """fn(element) for the elements along the first axis, together."""
    return _together([_tensors(fn(row)) for row in _rows(elems)])


def foldl(fn: Callable, elems: Any, initializer: Any = None, parallel_iterations: int = 10, back_prop: bool = True,
          swap_memory: bool = False, name: str | None = None) -> Any:
    """fn(result, element) over the elements along the first axis."""
    return _fold(fn, _rows(elems), initializer, back_prop)


def foldr(fn: Callable, elems: Any, initializer: Any = None, parallel_iterations: int = 10, back_prop: bool = True,
          swap_memory: bool = False, name: str | None = None) -> Any:
    """The same from the last element on."""
    return _fold(fn, _rows(elems)[::-1], initializer, back_prop)


def _fold(fn: Callable, rows: list, initializer: Any, back_prop: bool) -> Any:
    results = _scanned(fn, rows, initializer, back_prop)
    return results[-1] if results else _tensors(initializer)


def scan(fn: Callable, elems: Any, initializer: Any = None, parallel_iterations: int = 10, back_prop: bool = True,
         swap_memory: bool = False, infer_shape: bool = True, reverse: bool = False, name: str | None = None) -> Any:
    """All results of fn(result, element) over the elements along the first axis."""
    rows = _rows(elems)
    results = _scanned(fn, rows[::-1] if reverse else rows, initializer, back_prop)
    if not results:
        return _structure.map_structure(lambda leaf: zeros((0,), leaf.dtype), _tensors(initializer))
    return _together(results[::-1] if reverse else results)


def _scanned(fn: Callable, rows: list, initializer: Any, back_prop: bool) -> list:
    if not back_prop:
        raise NotImplementedError("back_prop=False does not exist; tf.stop_gradient does")
    if initializer is None:
        if not rows:
            raise ValueError("there are no elements, and there is no initializer")
        results = [_tensors(rows[0])]
        state, rows = results[0], rows[1:]
    else:
        results, state = [], _tensors(initializer)
    for row in rows:
        state = _tensors(fn(state, row))
        results.append(state)
    return results
