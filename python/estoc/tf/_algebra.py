# SPDX-License-Identifier: Apache-2.0
"""Sums over indices, running sums and linear algebra. Decompositions are numpy's, of values: they have no gradients."""
from __future__ import annotations

import re
from typing import Any, Callable, NamedTuple

import numpy as np

from .. import ops
from .._tensor import as_array, int32
from ..errors import InvalidArgumentError
from ..graph import NeedsValue, Node, as_node
from ._array import reverse
from ._eager import Tensor, eager, tapes, unwrap
from ._variable import Variable

# --- einsum -----------------------------------------------------------------------------------------------------------


def einsum(equation: str, *inputs: Any, optimize: Any = None, name: str | None = None) -> Any:
    """Products of tensors summed over indices, as "ij,jk->ik"; "..." stands for leading axes."""
    made = _einsum(list(inputs), re.sub(r"\s", "", equation))
    return made if name is None or not isinstance(made, Node) else made.named(name)


@eager
def _einsum(inputs: "Tensors", equation: str) -> Node:  # noqa: F821
    graph = next(item for item in inputs if isinstance(item, Node)).graph
    like = next(item for item in inputs if isinstance(item, Node)).dtype
    operands = [as_node(item, graph, like) for item in inputs]
    left, _, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands) or not re.fullmatch(r"[A-Za-z.,]*", left):
        raise ValueError(f"einsum: {equation!r} has {len(terms)} inputs, {len(operands)} were given")
    if any(item.shape is None for item in operands):
        raise ValueError("einsum: the rank of an input is not known")
    given = list(operands)
    spare = iter(chr(i) for i in range(0x100, 0x200))  # labels for the axes below "..."
    below = [next(spare) for _ in range(max((len(item.shape) - len(term.replace("...", ""))
                                             for term, item in zip(terms, operands) if "..." in term), default=0))]

    def labels(term: str, rank: int) -> str:
        if "..." not in term:
            return term
        count = rank - len(term.replace("...", ""))
        return term.replace("...", "".join(below[len(below) - count:]))

    terms = [labels(term, len(item.shape)) for term, item in zip(terms, operands)]
    for term, item in zip(terms, operands):
        if len(term) != len(item.shape) or "." in term:
            raise ValueError(f"einsum: {equation!r} does not fit an input of shape {tuple(item.shape)}")
    _check_sizes(operands, terms, below)
    pairs = [_diagonals(item, term) for term, item in zip(terms, operands)]
    operands, terms = [item for item, _ in pairs], [term for _, term in pairs]
    if "->" in equation:
        result = right.replace("...", "".join(below))
    else:
        joined = "".join(labels(term, len(item.shape)) for term, item in zip(left.split(","), given))
        right = "..." if left.count("...") == 1 else ""
        result = "".join(below if right else ()) + "".join(
            sorted(x for x in set(joined) if joined.count(x) == 1 and x not in below))
    if below and "..." not in right:
        raise InvalidArgumentError(f"einsum: {equation!r} has {len(below)} axes below \"...\", and no \"...\" in its result")
    if len(set(result)) < len(result) or set(result) - set("".join(terms)):
        raise ValueError(f"einsum: the result of {equation!r} has an index twice, or one that no input has")
    total, at = operands[0], terms[0]
    for i in range(1, len(operands)):
        kept = set(result).union(*terms[i + 1:])
        total, at = _product(total, at, operands[i], terms[i], kept)
    gone = [axis for axis, label in enumerate(at) if label not in result]
    if gone:
        total, at = ops.reduce_sum(total, gone), "".join(label for label in at if label in result)
    order = [at.index(label) for label in result]
    return total if order == list(range(len(order))) else ops.transpose(total, order)


def _check_sizes(operands: list, terms: list, below: list) -> None:
    """An index has one size; only axes below "..." broadcast."""
    seen: dict[str, int] = {}
    for term, item in zip(terms, operands):
        for label, size in zip(term, item.shape):
            if label not in below and size is not None and seen.setdefault(label, size) != size:
                raise InvalidArgumentError(f"einsum: the index {label!r} has the sizes {seen[label]} and {size}")


def _diagonals(x: Node, at: str) -> tuple[Node, str]:
    """Of an index that an operand has twice, the elements where both are equal."""
    for label in dict.fromkeys(at):
        while at.count(label) > 1:
            i, j = at.index(label), at.rindex(label)
            n = x.shape[i]
            if n is None or n != x.shape[j]:
                raise ValueError(f"einsum: an index twice in an input of shape {tuple(x.shape)}, where both sizes must be "
                                 "known and equal")
            mask = np.eye(n, dtype=x.dtype.as_numpy_dtype).reshape([n if k in (i, j) else 1 for k in range(len(at))])
            x = ops.reduce_sum(ops.where(x.graph.constant(mask != 0), x, ops.zeros_like(x)), j)
            at = at[:j] + at[j + 1:]
    return x, at


def _product(a: Node, at_a: str, b: Node, at_b: str, kept: set) -> tuple[Node, str]:
    """Two operands as a product of matrices: the indices that are in both and not kept are summed over."""
    for own, other in ((0, at_b), (1, at_a)):  # an index of one operand alone
        x, at = ((a, at_a), (b, at_b))[own]
        gone = [axis for axis, label in enumerate(at) if label not in other and label not in kept]
        if gone:
            x, at = ops.reduce_sum(x, gone), "".join(label for i, label in enumerate(at) if i not in gone)
            a, at_a, b, at_b = (x, at, b, at_b) if own == 0 else (a, at_a, x, at)
    batch = "".join(label for label in at_a if label in at_b and label in kept)
    summed = "".join(label for label in at_a if label in at_b and label not in kept)
    rows = "".join(label for label in at_a if label not in at_b)
    columns = "".join(label for label in at_b if label not in at_a)
    sizes = {**_sizes(b, at_b), **_sizes(a, at_a)}
    for label in batch:  # a size of 1 below "..." goes with any
        of_a, of_b = a.shape[at_a.index(label)], b.shape[at_b.index(label)]
        if 1 in (of_a, of_b) and of_a != of_b:
            a, b = (_repeated(x, at, label, sizes_of[label]) if size == 1 else x
                    for x, at, size, sizes_of in ((a, at_a, of_a, _sizes(b, at_b)), (b, at_b, of_b, _sizes(a, at_a))))
            sizes = {**_sizes(b, at_b), **_sizes(a, at_a)}
    a = _folded(ops.transpose(a, [at_a.index(x) for x in batch + rows + summed]), sizes, (batch, rows, summed))
    b = _folded(ops.transpose(b, [at_b.index(x) for x in batch + summed + columns]), sizes, (batch, summed, columns))
    if a.dtype.is_floating:
        both = ops.matmul(a, b)
    else:  # products of matrices are of floats
        both = ops.reduce_sum(ops.expand_dims(a, -1) * ops.expand_dims(b, -3), -2)
    at = batch + rows + columns
    return _shaped(both, [sizes[label] for label in at]), at


def _sizes(x: Node, at: str) -> dict[str, Any]:
    shape = None if None not in x.shape else ops.shape(x)
    return {label: x.shape[i] if x.shape[i] is not None else shape[i] for i, label in enumerate(at)}


def _repeated(x: Node, at: str, label: str, size: Any) -> Node:
    if isinstance(size, Node):
        raise NotImplementedError("einsum: an axis of size 1 below \"...\" that goes with one of unknown size")
    return ops.tile(x, [size if item == label else 1 for item in at])


def _folded(x: Node, sizes: dict, groups: tuple) -> Node:
    """One axis for each group of indices."""
    wide = [ops.reduce_prod(ops.stack([as_node(sizes[label], x.graph, int32) for label in group]))
            if any(isinstance(sizes[label], Node) for label in group) else
            int(np.prod([sizes[label] for label in group], dtype=np.int64)) for group in groups]
    return x if all(len(group) == 1 for group in groups) else _shaped(x, wide)


def _shaped(x: Node, sizes: list) -> Node:
    open_ = [i for i, size in enumerate(sizes) if isinstance(size, Node)]
    if len(open_) == 1:
        sizes = [-1 if isinstance(size, Node) else size for size in sizes]
    return ops.reshape(x, sizes)


# --- running sums -----------------------------------------------------------------------------------------------------


def cumsum(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Any:
    """The sums of the elements so far along an axis."""
    return _running(x, int(axis), exclusive, reverse, False)


def cumprod(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Any:
    """The products of the elements so far along an axis."""
    return _running(x, int(axis), exclusive, reverse, True)


@eager
def _running(x: "Tensor", axis: int, exclusive: bool, backwards: bool, product: bool) -> Node:
    x = ops._node(x)
    if x.shape is None or x.shape[axis] is None:
        raise NotImplementedError("cumsum, cumprod: the size of the axis must be known")
    rank, axis, n = len(x.shape), axis % len(x.shape), x.shape[axis]
    fill = 1 if product else 0

    def moved(y: Node, by: int) -> Node:
        first = ops.slice(y, [0] * rank, [n - by if i == axis else -1 for i in range(rank)])
        return ops.pad(first, [[by, 0] if i == axis else [0, 0] for i in range(rank)], fill)

    if backwards:
        x = reverse.over_nodes(x, [axis])
    if exclusive and n > 0:
        x = moved(x, 1)
    by = 1
    while by < n:
        x = x * moved(x, by) if product else x + moved(x, by)
        by *= 2
    return reverse.over_nodes(x, [axis]) if backwards else x


# --- matrices ---------------------------------------------------------------------------------------------------------


def _square(x: Node) -> int:
    if x.shape is None or None in x.shape[-2:]:
        raise NotImplementedError("the sizes of the matrix must be known")
    return min(x.shape[-2:])


@eager
def diag(diagonal: "Tensor") -> Node:
    """Matrices with these diagonals, and 0 elsewhere."""
    x = ops._node(diagonal)
    if x.shape is None or x.shape[-1] is None:
        raise NotImplementedError("diag: the size of the diagonal must be known")
    n = x.shape[-1]
    rows = ops.tile(ops.expand_dims(x, -1), [1] * len(x.shape) + [n])
    return ops.where(x.graph.constant(np.eye(n, dtype=bool)), rows, ops.zeros_like(rows))


@eager
def diag_part(input: "Tensor") -> Node:  # noqa: A002
    """The diagonals of matrices."""
    x = ops._node(input)
    n = _square(x)
    mask = np.eye(*x.shape[-2:], dtype=bool)
    kept = ops.where(x.graph.constant(np.broadcast_to(mask, mask.shape)), x, ops.zeros_like(x))
    summed = ops.reduce_sum(kept, -1)
    return Node.__getitem__(summed, (Ellipsis, slice(0, n)))


@eager
def trace(x: "Tensor") -> Node:
    """The sums of diagonals."""
    return ops.reduce_sum(diag_part.over_nodes(x), -1)


@eager
def set_diag(input: "Tensor", diagonal: "Tensor") -> Node:  # noqa: A002
    """Matrices with other diagonals."""
    graph = next(item for item in (input, diagonal) if isinstance(item, Node)).graph
    x = as_node(input, graph)
    values = as_node(diagonal, graph, x.dtype)
    _square(x)
    rows, columns = x.shape[-2:]
    extra = rows - min(rows, columns)
    if extra:
        values = ops.pad(values, [[0, 0]] * (len(values.shape) - 1) + [[0, extra]])
    mask = graph.constant(np.eye(rows, columns, dtype=bool))
    return ops.where(mask, ops.expand_dims(values, -1), x)


@eager
def band_part(input: "Tensor", num_lower: int, num_upper: int) -> Node:  # noqa: A002
    """The part of matrices within so many diagonals below and above the main one; -1: all of them."""
    x = ops._node(input)
    _square(x)
    rows, columns = np.indices(x.shape[-2:])
    mask = ((num_lower < 0) | (rows - columns <= num_lower)) & ((num_upper < 0) | (columns - rows <= num_upper))
    return ops.where(x.graph.constant(mask), x, ops.zeros_like(x))


@eager
def matrix_transpose(a: "Tensor") -> Node:
    """Matrices with rows and columns exchanged."""
    x = ops._node(a)
    rank = len(x.shape)
    return ops.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Any:
    """The sum of products over axes of both: so many last and first ones, or pairs of lists."""
    a, b = (x if isinstance(x, (Node, Variable, Tensor)) else Tensor(unwrap(x)) for x in (a, b))
    rank_a, rank_b = len(a.shape), len(b.shape)
    axes = unwrap(axes)
    if np.ndim(axes) == 0:
        first, second = list(range(rank_a - int(axes), rank_a)), list(range(int(axes)))
    else:
        first, second = ([int(item) for item in np.reshape(part, -1)] for part in axes)
    if len(first) != len(second):
        raise ValueError("Different number of contraction axes 'a' and 'b'")
    letters = [chr(ord("a") + i) for i in range(rank_a + rank_b)]
    of_a, of_b = letters[:rank_a], letters[rank_a:]
    for i, j in zip(first, second):
        of_b[j % rank_b] = of_a[i % rank_a]
    gone = {i % rank_a for i in first}
    result = [x for i, x in enumerate(of_a) if i not in gone] + [x for x in of_b if x not in of_a]
    return einsum(f"{''.join(of_a)},{''.join(of_b)}->{''.join(result)}", a, b)


@eager
def _crossed(a: "Tensor", b: "Tensor") -> Node:
    graph = next(item for item in (a, b) if isinstance(item, Node)).graph
    x = as_node(a, graph, b.dtype if isinstance(b, Node) else None)
    y = as_node(b, graph, x.dtype)
    if x.shape is not None and y.shape is not None and (len(x.shape) != len(y.shape) or any(
            None not in pair and pair[0] != pair[1] for pair in zip(x.shape, y.shape))):
        raise InvalidArgumentError(f"Both inputs must be of same shape: {tuple(x.shape)} vs. {tuple(y.shape)}")
    if x.shape is None or x.shape[-1] != 3:
        raise InvalidArgumentError(f"cross: the last axis has 3 elements, got the shape {tuple(x.shape)}")
    parts = [tuple(Node.__getitem__(z, (Ellipsis, i)) for i in range(3)) for z in (x, y)]
    (a0, a1, a2), (b0, b1, b2) = parts
    return ops.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], -1)


def cross(a: Any, b: Any, name: str | None = None) -> Any:
    """The cross products of vectors of three elements."""
    return _crossed(a, b)


# --- of values --------------------------------------------------------------------------------------------------------


def _floats(value: Any, what: str) -> np.ndarray:
    if isinstance(value, Node):
        raise NeedsValue(f"tf.linalg.{what} works on values")
    if tapes():
        raise NotImplementedError(f"tf.linalg.{what} has no gradient here: compute it outside of the GradientTape, or "
                                  "within its stop_recording()")
    array = as_array(unwrap(value))
    if array.dtype.kind != "f":
        raise TypeError(f"tf.linalg.{what} takes float32 or float64, not {array.dtype.name}")
    return array


def _by_numpy(what: str, meaning: str, function: Callable) -> Callable:
    def call(input: Any, name: str | None = None) -> Any:  # noqa: A002
        array = _floats(input, what)
        return Tensor(np.asarray(_checked(function, array), array.dtype))

    call.__name__ = call.__qualname__ = what
    call.__doc__ = meaning
    return call


def _checked(function: Callable, *arrays: np.ndarray) -> Any:
    try:
        return function(*arrays)
    except np.linalg.LinAlgError as error:
        raise InvalidArgumentError(f"{error}. Input is not invertible.") from None


det = _by_numpy("det", "The determinants of matrices.", np.linalg.det)


def _roots(matrices: np.ndarray) -> np.ndarray:
    """Lower triangular roots, of NaN for what is not positive definite."""
    try:
        return np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        if matrices.shape[-1] != matrices.shape[-2]:
            raise
        if matrices.ndim > 2:
            return np.stack([_roots(matrix) for matrix in matrices])
        return np.tril(np.full(matrices.shape, np.nan, matrices.dtype))


logdet = _by_numpy("logdet", "The logarithms of determinants of positive definite matrices; NaN for others.",
                   lambda x: 2 * np.log(np.diagonal(_roots(x), axis1=-2, axis2=-1)).sum(-1))
cholesky = _by_numpy("cholesky", "The lower triangular roots of positive definite matrices; NaN for others.", _roots)


def inv(input: Any, adjoint: bool = False, name: str | None = None) -> Any:  # noqa: A002
    """The inverses of matrices, or of their transposes."""
    array = _floats(input, "inv")
    found = _checked(np.linalg.inv, array)
    return Tensor(np.ascontiguousarray(np.swapaxes(found, -1, -2) if adjoint else found))


def solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Any:
    """x of matrix x = rhs."""
    left = _floats(matrix, "solve")
    right = _floats(rhs, "solve")
    if left.shape[:-1] != right.shape[:-1]:
        raise InvalidArgumentError(f"solve: matrices {left.shape} and right hand sides {right.shape} do not go together; a "
                                   "vector needs a last axis of size 1")
    left = np.swapaxes(left, -1, -2) if adjoint else left
    return Tensor(np.ascontiguousarray(_checked(np.linalg.solve, left, right)))


def triangular_solve(matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None) -> Any:
    """x of matrix x = rhs, of which only one triangle is read; infinite where an element of the diagonal is 0."""
    left, right = _floats(matrix, "triangular_solve"), _floats(rhs, "triangular_solve")
    if min(left.ndim, right.ndim) < 2 or left.shape[-1] != left.shape[-2] or left.shape[-1] != right.shape[-2]:
        raise InvalidArgumentError(f"triangular_solve: matrices {left.shape} and right hand sides {right.shape} do not go "
                                   "together")
    left, lower = (np.swapaxes(left, -1, -2), not lower) if adjoint else (left, lower)
    n = left.shape[-1]
    found = np.zeros(np.broadcast_shapes(left.shape[:-2], right.shape[:-2]) + right.shape[-2:], left.dtype)
    with np.errstate(all="ignore"):
        for i in range(n) if lower else reversed(range(n)):
            known = slice(0, i) if lower else slice(i + 1, n)
            rest = right[..., i, :] - (left[..., i, None, known] @ found[..., known, :])[..., 0, :]
            found[..., i, :] = rest / left[..., i, i, None]
    return Tensor(found)


def lstsq(matrix: Any, rhs: Any, l2_regularizer: float = 0.0, fast: bool = True, name: str | None = None) -> Any:
    """The x with the smallest |matrix x - rhs|^2 + l2_regularizer |x|^2."""
    left, right = _floats(matrix, "lstsq"), _floats(rhs, "lstsq")
    wide = left.shape[-1]
    if l2_regularizer:
        down = np.sqrt(np.asarray(l2_regularizer, left.dtype)) * np.eye(wide, dtype=left.dtype)
        left = np.concatenate([left, np.broadcast_to(down, left.shape[:-2] + down.shape)], -2)
        zero = np.zeros(right.shape[:-2] + (wide, right.shape[-1]), right.dtype)
        right = np.concatenate([right, zero], -2)
    return Tensor(np.asarray(np.linalg.pinv(left) @ right, left.dtype))


class Svd(NamedTuple):
    """What svd gives."""

    s: Any
    u: Any
    v: Any


def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Singular values, and with compute_uv the vectors: tensor = u diag(s) transpose(v)."""
    array = _floats(tensor, "svd")
    if not compute_uv:
        return Tensor(np.asarray(np.linalg.svd(array, compute_uv=False), array.dtype))
    u, s, vh = np.linalg.svd(array, full_matrices=full_matrices)
    return Svd(Tensor(s), Tensor(np.ascontiguousarray(u)), Tensor(np.ascontiguousarray(np.swapaxes(vh, -1, -2))))


class Qr(NamedTuple):
    """What qr gives."""

    q: Any
    r: Any


def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> Qr:  # noqa: A002
    """input = q r with orthogonal q and upper triangular r."""
    q, r = np.linalg.qr(_floats(input, "qr"), "complete" if full_matrices else "reduced")
    return Qr(Tensor(np.ascontiguousarray(q)), Tensor(np.ascontiguousarray(r)))


class Eigh(NamedTuple):
    """What eigh gives."""

    e: Any
    v: Any


def eigh(tensor: Any, name: str | None = None) -> Eigh:
    """Eigenvalues, the smallest first, and eigenvectors of symmetric matrices."""
    e, v = np.linalg.eigh(_floats(tensor, "eigh"))
    return Eigh(Tensor(e), Tensor(np.ascontiguousarray(v)))


def eigvalsh(tensor: Any, name: str | None = None) -> Any:
    """Eigenvalues of symmetric matrices, the smallest first."""
    return Tensor(np.linalg.eigvalsh(_floats(tensor, "eigvalsh")))


def pinv(a: Any, rcond: Any = None, validate_args: bool = False, name: str | None = None) -> Any:
    """The Moore-Penrose inverses of matrices."""
    array = _floats(a, "pinv")
    if validate_args and not np.isfinite(array).all():
        raise ValueError("pinv: a number is not finite")
    limit = 10.0 * max(array.shape[-2:]) * np.finfo(array.dtype).eps if rcond is None else unwrap(rcond)
    return Tensor(np.asarray(np.linalg.pinv(array, limit), array.dtype))
