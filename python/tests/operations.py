# SPDX-License-Identifier: Apache-2.0
"""Operations of tf, symbol by symbol, called with ordinary and with odd arguments: a case of cases.py for each symbol,
which computes values and gradients at once and in a tf.function.

A row of TABLE is a symbol and its calls. Arrays become tensors; anything else is passed on as it is."""
import functools

import numpy as np

A = np.array([[1.5, -2.0, 3.0], [0.25, 4.0, -1.0]], np.float32)
B = np.array([[2.0, 0.5, -3.0], [1.0, 0.125, 7.0]], np.float32)
ROW = np.array([1.0, 2.0, 4.0], np.float32)
COLUMN = np.array([[2.0], [-3.0]], np.float32)
POSITIVE = np.array([[0.5, 1.0], [3.0, 10.0]], np.float32)
ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, -1e30, 88.0, -88.0], np.float32)
EMPTY = np.zeros((0, 3), np.float32)
SCALAR = np.float32(0.75)
DOUBLE = np.array([1.5, -2.25, 1e-12], np.float64)
INTS = np.array([[7, -7, 3], [2, 0, -5]], np.int32)
MORE = np.array([[2, 3, -2], [-3, 4, 5]], np.int32)
LONGS = np.array([2**40, -3, 5], np.int64)
BYTES = np.array([0, 3, 255], np.uint8)
BOOLS = np.array([[True, False, True], [False, False, True]])
WORDS = np.array(["a", "Bern", "", "Zürich"], object)
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 8 - 1
IMAGE = np.arange(50, dtype=np.float32).reshape(1, 5, 5, 2) % 7 - 3
FILTER = np.arange(24, dtype=np.float32).reshape(3, 2, 2, 2) / 8 - 1
LABELS = np.array([[0.0, 1.0, 0.0], [0.2, 0.3, 0.5]], np.float32)
CASES = {}


class Call:
    """The arguments of one call."""

    def __init__(self, *positional, **named):
        self.positional, self.named = positional, named

    def arguments(self, tf):
        return self.positional, self.named


class By(Call):
    """A call whose arguments need tf, as dtypes do."""

    def __init__(self, make):
        self.make = make

    def arguments(self, tf):
        made = self.make(tf)
        return (made.positional, made.named) if isinstance(made, Call) else (made, {})


ALL_KINDS = [Call(A), Call(EMPTY), Call(SCALAR), Call(DOUBLE), Call(ODD)]
PAIRS = [Call(A, B), Call(A, ROW), Call(COLUMN, A), Call(A, 2.0), Call(SCALAR, A), Call(EMPTY, ROW), Call(DOUBLE, DOUBLE),
         Call(ODD, ODD[::-1]), Call(CUBE, CUBE[0, :1])]
WHOLE_PAIRS = [Call(INTS, MORE), Call(INTS, 3), Call(LONGS, np.array([7], np.int64))]
REDUCTIONS = [Call(A), Call(A, 0), Call(A, -1), Call(A, axis=1, keepdims=True), Call(A, [0, 1]), Call(CUBE, axis=[0, -1]),
              Call(EMPTY, axis=1), Call(SCALAR), Call(DOUBLE), Call(INTS), Call(INTS, 0), Call(LONGS)]
LOGICAL = [Call(BOOLS), Call(BOOLS, 0), Call(BOOLS, axis=-1, keepdims=True), Call(BOOLS[:0]), Call(BOOLS[:0], 1)]

TABLE = {
    # elementwise, one argument
    **{name: ALL_KINDS for name in (
        "square sin cos exp tanh sigmoid identity zeros_like ones_like round floor sign abs negative stop_gradient "
        "math.erf math.expm1 math.ceil math.is_nan math.is_inf math.is_finite math.softplus math.reciprocal "
        "math.softsign nn.elu nn.selu nn.silu nn.gelu nn.leaky_relu nn.softplus nn.swish").split()},
    **{name: ALL_KINDS[:4] + [Call(ODD[1:])] for name in ("nn.relu", "nn.relu6")},  # docs/differences.md says why not NaN
    "sqrt": [Call(POSITIVE), Call(ODD[3:6]), Call(DOUBLE[:1]), Call(A)],
    "math.rsqrt": [Call(POSITIVE), Call(ODD[:4]), Call(DOUBLE)],
    "math.log": [Call(POSITIVE), Call(ODD), Call(A), Call(EMPTY)],
    "math.log1p": [Call(POSITIVE), Call(ODD), Call(np.array([-1.0, 1e-8, -2.0], np.float32))],
    "math.softmax": [Call(A), Call(A, axis=0), Call(CUBE), Call(A * 100), Call(EMPTY), Call(DOUBLE)],
    "nn.log_softmax": [Call(A), Call(A, axis=0), Call(A, -1), Call(A * 100), Call(DOUBLE)],
    "logical_not": [Call(BOOLS), Call(BOOLS[:0])],
    # elementwise, two arguments
    **{name: PAIRS for name in ("divide maximum minimum math.squared_difference math.divide_no_nan truediv").split()},
    **{name: PAIRS + WHOLE_PAIRS for name in "add subtract multiply".split()},
    **{name: [Call(A, B), Call(A, ROW), Call(COLUMN, A), Call(EMPTY, ROW), Call(DOUBLE, DOUBLE), Call(CUBE, 1.0),
              *WHOLE_PAIRS] for name in "equal not_equal less less_equal greater greater_equal".split()},
    "math.floordiv": [Call(A, B), Call(INTS, MORE), Call(INTS, 3), Call(A, 2.0), Call(LONGS, LONGS)],
    "math.floormod": [Call(A, B), Call(INTS, MORE), Call(INTS, -3), Call(A, 2.0)],
    "pow": [Call(POSITIVE, POSITIVE), Call(A, 2.0), Call(A, 3.0), Call(POSITIVE, 0.5), Call(np.array([3.0, 2.0], np.float32), 0.0),
            Call(MORE, 2)],
    **{name: [Call(BOOLS, ~BOOLS), Call(BOOLS, BOOLS[0]), Call(BOOLS[:0], BOOLS[0])] for name in ("logical_and", "logical_or")},
    # reductions
    **{f"reduce_{name}": REDUCTIONS for name in "sum prod max min".split()},
    "reduce_mean": REDUCTIONS[:9] + [Call(INTS), Call(INTS, 1)],
    "reduce_all": LOGICAL, "reduce_any": LOGICAL,
    "argmax": [Call(A), Call(A, 1), Call(A, axis=-1), Call(INTS, 1), By(lambda tf: (A, 0, tf.int32)), Call(np.ones((2, 3), np.float32), 1)],
    "argmin": [Call(A), Call(A, 1), Call(INTS, -1)],
    "add_n": [Call([A, B]), Call([INTS, MORE, INTS]), Call([SCALAR])],
    "norm": [Call(A), Call(A, ord=1, axis=1), Call(A, axis=-1, keepdims=True), Call(A, ord=np.inf, axis=0)],
    "linalg.norm": [Call(A, axis=1)],
    "nn.moments": [Call(A, [0]), Call(CUBE, [0, 1]), Call(IMAGE, [0, 1, 2], keepdims=True), Call(A, [-1])],
    "nn.l2_loss": [Call(A), Call(EMPTY)],
    "nn.l2_normalize": [Call(A, 1), Call(A, 0), Call(CUBE, [0, 2])],
    "linalg.l2_normalize": [Call(A, -1)],
    "clip_by_value": [Call(A, -1.0, 2.0), Call(INTS, -2, 3), Call(A, ROW * 0, ROW), Call(ODD, -1.0, 1.0)],
    "clip_by_norm": [Call(A, 2.0), Call(A, 100.0), Call(A, 1.0, axes=[1])],
    "clip_by_global_norm": [Call([A, B], 2.0), Call([A, B], 1000.0)],
    "linalg.global_norm": [Call([A, B])],
    # products
    "matmul": [Call(A, B.T.copy()), Call(A, B, transpose_b=True), Call(A, B, transpose_a=True), Call(CUBE, CUBE, transpose_b=True),
               Call(CUBE, CUBE.transpose(0, 2, 1).copy()), Call(EMPTY, B.T.copy()), Call(A.astype(np.float64), B.T.astype(np.float64)),
               Call(INTS, MORE, transpose_b=True)],
    "linalg.matmul": [Call(A, B, transpose_b=True)],
    "linalg.matvec": [Call(A, ROW), Call(CUBE, np.ones((2, 4), np.float32))],
    "nn.conv2d": [Call(IMAGE, FILTER, 1, "SAME"), Call(IMAGE, FILTER, 2, "VALID"), Call(IMAGE, FILTER, [1, 2, 1, 1], "SAME"),
                  Call(IMAGE[:, :, :, :1], FILTER[:, :, :1], 1, "VALID")],
    "nn.max_pool2d": [Call(IMAGE, 2, 2, "VALID"), Call(IMAGE, 3, 2, "SAME"), Call(IMAGE, [2, 3], [1, 2], "VALID")],
    "nn.avg_pool2d": [Call(IMAGE, 2, 2, "VALID"), Call(IMAGE, 3, 2, "SAME")],
    "nn.max_pool": [Call(IMAGE, 2, 1, "SAME")], "nn.avg_pool": [Call(IMAGE, 2, 1, "SAME")],
    "nn.bias_add": [Call(A, ROW), Call(CUBE, np.ones(4, np.float32)), Call(EMPTY, ROW)],
    "nn.embedding_lookup": [Call(A, np.array([1, 0, 1])), Call(A, np.array([[0], [1]], np.int32)), Call(A, np.zeros((0,), np.int64))],
    "nn.softmax_cross_entropy_with_logits": [Call(LABELS, A), Call(labels=LABELS, logits=A * 50), Call(LABELS[:0], EMPTY)],
    "nn.sparse_softmax_cross_entropy_with_logits": [Call(np.array([2, 0]), A), Call(np.array([1, 1], np.int32), A * 50)],
    "nn.sigmoid_cross_entropy_with_logits": [Call(LABELS, A), Call(labels=LABELS, logits=A * 100), Call(LABELS[:0], EMPTY)],
    "nn.compute_average_loss": [Call(ROW), Call(ROW, ROW, 8), Call(ROW, global_batch_size=2)],
    "nn.scale_regularization_loss": [Call(SCALAR), Call(ROW)],
    "nn.dropout": [Call(A, 0.0)],
    # arrays
    "reshape": [Call(A, [3, 2]), Call(A, [-1]), Call(A, [1, -1, 2]), Call(EMPTY, [3, 0]), Call(SCALAR, [1, 1]), Call(WORDS, [2, 2])],
    "transpose": [Call(A), Call(CUBE), Call(CUBE, [1, 0, 2]), Call(CUBE, perm=[2, 0, 1]), Call(EMPTY), Call(INTS)],
    "expand_dims": [Call(A, 0), Call(A, -1), Call(A, axis=1), Call(SCALAR, 0), Call(WORDS, -1)],
    "squeeze": [Call(COLUMN), Call(COLUMN, -1), Call(COLUMN, [1]), Call(CUBE[:1, :1], [0, 1]), Call(CUBE[:1, :1], axis=0)],
    "concat": [Call([A, B], 0), Call([A, B], -1), Call([A, COLUMN], 1), Call([EMPTY, A], 0), Call([WORDS, WORDS], 0), Call([INTS, MORE], axis=1)],
    "stack": [Call([A, B]), Call([A, B], 1), Call([A, B], axis=-1), Call([SCALAR, SCALAR]), Call([INTS, MORE], 2)],
    "unstack": [Call(A), Call(A, axis=1), Call(CUBE, axis=-1), Call(CUBE, num=2)],
    "split": [Call(A, 3, 1), Call(A, [1, 2], axis=1), Call(A, 2), Call(CUBE, [1, 0, 3], -1)],
    "slice": [Call(A, [0, 1], [2, 2]), Call(CUBE, [1, 0, 2], [1, -1, 1]), Call(WORDS, [1], [2])],
    "tile": [Call(A, [2, 1]), Call(SCALAR[None], [3]), Call(A, [1, 0]), Call(WORDS, [2])],
    "pad": [Call(A, [[1, 0], [0, 2]]), Call(A, [[0, 0], [1, 1]], constant_values=7.0), Call(INTS, [[1, 1], [0, 0]])],
    "gather": [Call(A, np.array([1, 0])), Call(A, np.array([2, 0, 2], np.int32), axis=1), Call(A, np.array(1)), Call(A, np.array([[0, 1], [1, 1]])),
               Call(CUBE, np.array([3, 0]), axis=-1), Call(WORDS, np.array([3, 0])), Call(A, np.zeros((0,), np.int32))],
    "one_hot": [Call(np.array([1, 0, 3, -1]), 3), Call(np.array([[0, 2]]), 3, on_value=5.0, off_value=-1.0), Call(np.array([1, 0]), 2, axis=0)],
    "where": [Call(BOOLS, A, B), Call(BOOLS, A, 0.0), Call(BOOLS, INTS, MORE), Call(BOOLS[:, :1], A, B), Call(BOOLS[0], A, B), Call(BOOLS, WORDS[:3], WORDS[1:])],
    "boolean_mask": [Call(A, BOOLS), Call(A, np.array([False, True])), Call(WORDS, np.array([True, False, False, True])), Call(A, np.array([False, False]))],
    "broadcast_to": [Call(ROW, [2, 3]), Call(COLUMN, [2, 3]), Call(SCALAR, [2, 2]), Call(INTS, [2, 2, 3])],
    "unique": [Call(np.array([3, 1, 3, 2], np.int32)), Call(np.zeros((0,), np.int64))],
    "range": [Call(4), Call(2, 10, 3), Call(0.0, 1.0, 0.25), Call(5, 0, -2), Call(3, 3)],
    "fill": [Call([2, 3], 7.0), Call([0], 1), Call([], 2)],
    "zeros": [Call([2, 3]), By(lambda tf: ([2], tf.int64)), Call([])], "ones": [Call([2, 3]), By(lambda tf: ([2], tf.bool))],
    "eye": [Call(2), Call(2, 3), Call(3, 2)], "linalg.eye": [Call(2)],
    "linspace": [Call(0.0, 1.0, 5), Call(2.0, 2.0, 1), Call(-1.0, 3.0, 2)],
    "cast": [By(lambda tf, x=x, to=to: (x, getattr(tf, to))) for x in (A, INTS, LONGS, BYTES, BOOLS, DOUBLE)
             for to in ("float32", "float64", "int32", "int64", "bool")] + [By(lambda tf: (INTS + 7, tf.uint8))],
    "shape": [Call(A), Call(SCALAR), Call(EMPTY), By(lambda tf: Call(CUBE, out_type=tf.int64))],
    "size": [Call(A), Call(EMPTY), Call(SCALAR)], "rank": [Call(A), Call(SCALAR), Call(CUBE)],
    "math.top_k": [Call(A, 2), Call(A), Call(INTS, k=3), Call(np.array([1.0, 3.0, 3.0, 2.0], np.float32), 3)],
    "nn.top_k": [Call(A, 1)],
    "math.in_top_k": [Call(np.array([0, 1]), A, 1), Call(np.array([2, 2], np.int32), A, 2), Call(np.array([0, 5], np.int32), A, 1)],
    "math.unsorted_segment_sum": [Call(A, np.array([1, 1]), 3), Call(INTS, np.array([0, -1]), 2), Call(ROW, np.array([2, 0, 2]), 3)],
    "strings.as_string": [Call(INTS), Call(LONGS), Call(BOOLS)],
    "strings.to_hash_bucket_fast": [Call(WORDS, 1000), Call(np.array([["x"], ["y"]], object), 7)],
    "convert_to_tensor": [Call(A), Call([1, 2]), Call([1.5]), Call(True), Call("word"), By(lambda tf: ([1, 2], tf.float32))],
    "constant": [Call([[1, 2], [3, 4]]), Call(2**40), Call(1.5, shape=[2, 2]), By(lambda tf: Call([1, 2], dtype=tf.float64)), Call([])],
    "keras.activations.hard_sigmoid": [Call(A), Call(A * 3)], "keras.activations.mish": [Call(A)],
    "keras.activations.softmax": [Call(A), Call(A, axis=0)], "keras.activations.gelu": [Call(A), Call(A, approximate=True)],
    "keras.activations.elu": [Call(A), Call(A, alpha=0.5)], "keras.activations.relu": [Call(A), Call(A, alpha=0.1, max_value=2.0, threshold=0.5)],
    # what must raise in both
    "operations that fail": [
        By(lambda tf: (tf.add, A, np.ones((2, 2), np.float32))), By(lambda tf: (tf.add, A, INTS)),
        By(lambda tf: (tf.matmul, A, A)), By(lambda tf: (tf.reshape, A, [4, 2])), By(lambda tf: (tf.concat, [A, CUBE], 0)),
        By(lambda tf: (tf.squeeze, A, 0)), By(lambda tf: (tf.gather, A, np.array([2]))), By(lambda tf: (tf.add, A, "x")),
        By(lambda tf: (tf.nn.embedding_lookup, A, np.array([-1]))), By(lambda tf: (tf.reduce_sum, A, 2)),
        By(lambda tf: (tf.stack, [A, ROW])), By(lambda tf: (tf.split, A, 2, 1)), By(lambda tf: (tf.expand_dims, A, 4)),
        By(lambda tf: (tf.logical_and, A, B)), By(lambda tf: (tf.transpose, A, [0, 0])), By(lambda tf: (tf.cast, WORDS, tf.float32)),
        By(lambda tf: (tf.math.floordiv, INTS, MORE * 0)), By(lambda tf: (tf.constant, [[1], [2, 3]]))],
}


def resolve(tf, symbol):
    return functools.reduce(getattr, symbol.split("."), tf)


def described(value):
    """An output with its dtype and shape; lists and tuples (also named ones) part by part."""
    if isinstance(value, (list, tuple)):
        return [described(part) for part in value]
    return {"dtype": value.dtype.name, "shape": list(value.shape), "value": value.numpy()}


def flat(value):
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, (list, tuple)) else [value]


def weighed(tf, y):
    """A number whose derivative by an element of a float tensor is that element plus 1; None for other tensors."""
    return tf.reduce_sum(tf.square(y) * 0.5 + y) if y.dtype.is_floating else None


def is_array(value):
    return isinstance(value, (np.ndarray, np.float32))


def arrays_of(value):
    """The arrays among arguments, which lists may hold."""
    if isinstance(value, (list, tuple)):
        return [array for part in value for array in arrays_of(part)]
    return [value] if is_array(value) else []


def filled(value, tensors):
    """The arguments with the next of the tensors in place of each array."""
    if isinstance(value, (list, tuple)) and arrays_of(value):
        return [filled(part, tensors) for part in value]
    return next(tensors) if is_array(value) else value


class Called:
    """One call of a symbol, over tensors."""

    def __init__(self, tf, function, arguments):
        self.tf, self.function = tf, function
        self.positional, self.named = arguments.arguments(tf)
        self.given = [tf.constant(array) for array in arrays_of([self.positional, *self.named.values()])]

    def value(self, tensors):
        rest = iter(tensors)
        made = filled(list(self.positional), rest)
        return self.function(*made, **{key: filled(value, rest) for key, value in self.named.items()})

    def gradients(self, tensors):
        """Of a sum over the results; zeros where there are none."""
        tf, watched = self.tf, [tensor for tensor in tensors if tensor.dtype.is_floating]
        with tf.GradientTape() as tape:
            for tensor in watched:
                tape.watch(tensor)
            parts = [weighed(tf, y) for y in flat(self.value(tensors))]
            parts = [part for part in parts if part is not None]
            total = tf.add_n(parts) if parts else None
        found = [None] * len(watched) if total is None else tape.gradient(total, watched)
        return [tf.zeros_like(tensor) if gradient is None else tf.convert_to_tensor(gradient)
                for tensor, gradient in zip(watched, found)]


def same(a, b):
    return len(a) == len(b) and all(x.dtype == y.dtype and tuple(x.shape) == tuple(y.shape) and (
        np.allclose(x, y, 1e-5, 1e-6, equal_nan=True) if x.dtype.is_floating else np.array_equal(x, y))
        for x, y in zip(a, b))


def results(tf, symbol, calls):
    """Results and gradients of the calls. A tf.function of them all must compute the same; what it has else is added."""
    called = [Called(tf, resolve(tf, symbol), arguments) for arguments in calls]

    def all_of_them(*given):
        return [[one.value(tensors), one.gradients(tensors)] for one, tensors in zip(called, given)]

    given, out = [one.given for one in called], []
    for eager, traced in zip(all_of_them(*given), tf.function(all_of_them)(*given)):
        found = {"value": described(eager[0]), "gradients": [gradient.numpy() for gradient in eager[1]]}
        if not same(flat(eager), flat(traced)):
            found["traced"] = described(traced)
        out.append(found)
    return out


def fails(tf, arguments):
    (function, *positional), _ = arguments.arguments(tf)
    try:
        return described(function(*(tf.constant(part) if is_array(part) else part for part in positional)))
    except (ValueError, TypeError, tf.errors.OpError):
        return "raises"


def case_of(symbol, calls):
    def case(tf):
        if symbol == "operations that fail":
            return [fails(tf, arguments) for arguments in calls]
        return results(tf, symbol, calls)

    return case


for _symbol, _calls in TABLE.items():
    CASES[f"tf.{_symbol}"] = case_of(_symbol, _calls)
