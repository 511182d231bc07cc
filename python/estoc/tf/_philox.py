# SPDX-License-Identifier: Apache-2.0
"""Random numbers that depend on a seed or a state alone, in values as TensorFlow draws them: Philox4x32-10, whose counter
and key the seed gives. They are drawn at once, by numpy."""
from __future__ import annotations

import enum
import secrets
from typing import Any

import numpy as np

from .. import ops
from ..errors import InvalidArgumentError
from .._tensor import as_array, as_dtype, float32, int32, int64
from ..data import TensorSpec
from ..graph import NeedsValue, Node, default_graph
from ._array import _plain_shape
from ._eager import Tensor, is_recorded, unwrap
from ._module import Module
from ._trace import current_strategy, current_trace, replica_context
from ._variable import Variable

_MASK = 2**32 - 1
_FACTORS, _STEPS, _ROUNDS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85), 10
_SKIP = 256  # counters for each number of a generator, and words for each truncated one
_TINY = 1e-7  # the least number whose logarithm is taken


class Algorithm(enum.Enum):
    """tf.random.Algorithm: Philox is the only one."""

    PHILOX, THREEFRY, AUTO_SELECT = 1, 2, 3


def check_algorithm(alg: Any) -> None:
    name = alg.name if isinstance(alg, Algorithm) else {1: "PHILOX", 2: "THREEFRY", 3: "AUTO_SELECT"}.get(alg, alg)
    if str(name).upper() not in ("PHILOX", "AUTO_SELECT"):
        raise NotImplementedError(f"tf.random: the algorithm is \"philox\", not {alg!r}")


def _words(counter: int, key: int, n: int) -> np.ndarray:
    """uint32 [n, 4]: the words of n counters, which count from `counter` on."""
    low = np.arange(n, dtype=np.uint64) + np.uint64(counter & 2**64 - 1)  # wraps around
    carry = low < np.uint64(counter & 2**64 - 1)
    high = np.full(n, (counter >> 64) & 2**64 - 1, np.uint64) + carry.astype(np.uint64)
    half = np.uint64(32)
    c = [low & np.uint64(_MASK), low >> half, high & np.uint64(_MASK), high >> half]
    k = [key & _MASK, (key >> 32) & _MASK]
    for _ in range(_ROUNDS):
        products = [c[0] * np.uint64(_FACTORS[0]), c[2] * np.uint64(_FACTORS[1])]
        c = [(products[1] >> half) ^ c[1] ^ np.uint64(k[0]), products[1] & np.uint64(_MASK),
             (products[0] >> half) ^ c[3] ^ np.uint64(k[1]), products[0] & np.uint64(_MASK)]
        k = [(word + step) & _MASK for word, step in zip(k, _STEPS)]
    return np.stack(c, 1).astype(np.uint32)


def _key_of(seed: Any) -> tuple[int, int]:
    """The key and the counter of a stateless seed of two integers."""
    if isinstance(seed, Node):
        raise NeedsValue("a seed of tf.random.stateless_... must have a value")
    numbers = [int(number) for number in as_array(unwrap(seed)).reshape(-1)]
    if len(numbers) != 2:
        raise ValueError(f"seed must have shape [2], not {np.shape(unwrap(seed))}")
    counter = (numbers[0] & 2**64 - 1) | (numbers[1] & 2**64 - 1) << 64
    mixed = [int(word) for word in _words(counter, 0x02461E29 << 32 | 0x3EC8F720, 1)[0]]
    return mixed[0] | mixed[1] << 32, (mixed[2] | mixed[3] << 32) << 64


def _unit_float(words: np.ndarray) -> np.ndarray:
    """uint32 as float32 in [0, 1)."""
    return ((words & np.uint32(0x7FFFFF)) | np.uint32(127 << 23)).view(np.float32) - np.float32(1)


def _unit_double(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    bits = (high.astype(np.uint64) & np.uint64(0xFFFFF)) << np.uint64(32) | low.astype(np.uint64)
    return (bits | np.uint64(1023 << 52)).view(np.float64) - 1


def _pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Two normal numbers of two uniform ones, by Box and Muller."""
    kind = first.dtype.type
    radius = np.sqrt(kind(-2) * np.log(np.maximum(first, kind(_TINY))))
    angle = kind(2 * np.pi) * second
    return np.stack([np.sin(angle) * radius, np.cos(angle) * radius], -1)


def _groups(n: int, each: int) -> int:
    return -(-n // each)


def _uniform(key: int, counter: int, n: int, kind: Any) -> np.ndarray:
    if kind == float32:
        return _unit_float(_words(counter, key, _groups(n, 4)).reshape(-1))[:n]
    words = _words(counter, key, _groups(n, 2)).reshape(-1, 2)
    return _unit_double(words[:, 0], words[:, 1])[:n]


def _normal(key: int, counter: int, n: int, kind: Any) -> np.ndarray:
    if kind == float32:
        units = _unit_float(_words(counter, key, _groups(n, 4)).reshape(-1, 2))
        return _pairs(units[:, 0], units[:, 1]).reshape(-1)[:n]
    words = _words(counter, key, _groups(n, 2))
    return _pairs(_unit_double(words[:, 0], words[:, 1]), _unit_double(words[:, 2], words[:, 3])).reshape(-1)[:n]


def _truncated(key: int, counter: int, n: int, kind: Any) -> np.ndarray:
    """Normal numbers within 2: groups of numbers, which have counters of their own."""
    each, found = 4 if kind == float32 else 2, []
    for group in range(_groups(n, each)):
        numbers = _normal(key, counter + group * each * _SKIP // 4, _SKIP, kind)
        found.append(numbers[np.abs(numbers) < 2][:each])
    return np.concatenate(found)[:n] if found else np.zeros(0, kind.as_numpy_dtype)


def _integers(key: int, counter: int, n: int, kind: Any) -> np.ndarray:
    """All integers of a dtype, without their sign."""
    if kind == int32:
        return _words(counter, key, _groups(n, 4)).reshape(-1)[:n]
    words = _words(counter, key, _groups(n, 2)).reshape(-1, 2).astype(np.uint64)
    return (words[:, 0] | words[:, 1] << np.uint64(32))[:n]


def _draw(key: int, counter: int, shape: Any, what: str, dtype: Any, low: Any = 0, high: Any = None) -> Tensor:
    sizes, kind = _plain_shape(shape), as_dtype(dtype)
    if isinstance(sizes, Node):
        raise NeedsValue("the shape of tf.random.Generator and tf.random.stateless_... must have a value")
    if kind not in (float32, as_dtype("float64"), int32, int64):
        raise TypeError(f"random numbers are float32, float64, int32 or int64, not {kind.name}")
    if any(size < 0 for size in sizes):
        raise InvalidArgumentError(f"a shape has no sizes below 0, got {sizes}")
    n = int(np.prod(sizes, dtype=np.int64))
    if what == "full":
        found = _integers(key, counter, n, kind).view(kind.as_numpy_dtype)
    elif kind.is_integer:
        if high is None:
            raise ValueError(f"Must specify maxval for integer dtype {kind.name}")
        low, high = int(unwrap(low)), int(unwrap(high))
        if low >= high:
            raise ValueError(f"Need minval < maxval, got {low} >= {high}")
        drawn = _integers(key, counter, n, kind)
        found = ((drawn % drawn.dtype.type(high - low)).astype(np.int64) + low).astype(kind.as_numpy_dtype)
    else:
        found = {"uniform": _uniform, "normal": _normal, "truncated": _truncated}[what](key, counter, n, kind)
        if is_recorded(low) or is_recorded(high):
            drawn = Tensor(found.reshape(sizes))
            high = 1.0 if high is None else high
            return drawn * (high - low) + low if what == "uniform" else drawn * high + low
        first, second = (np.asarray(unwrap(value), found.dtype) for value in (low, 1.0 if high is None else high))
        if what == "uniform":
            found = found.reshape(sizes) * (second - first) + first
        else:  # deviation and mean
            found = found.reshape(sizes) * second + first
    return Tensor(np.asarray(found).reshape(sizes))


# --- of a seed --------------------------------------------------------------------------------------------------------


def stateless_uniform(shape: Any, seed: Any, minval: Any = 0, maxval: Any = None, dtype: Any = float32,
                      name: str | None = None, alg: Any = "auto_select") -> Tensor:
    """Uniform numbers in [minval, maxval), the same for the same seed; all integers if both are None."""
    check_algorithm(alg)
    if as_dtype(dtype).is_integer and minval is None and maxval is None:
        return _draw(*_key_of(seed), shape, "full", dtype)
    return _draw(*_key_of(seed), shape, "uniform", dtype, 0 if minval is None else minval, maxval)


def stateless_normal(shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = float32,
                     name: str | None = None, alg: Any = "auto_select") -> Tensor:
    """Normal numbers, the same for the same seed."""
    check_algorithm(alg)
    return _draw(*_key_of(seed), shape, "normal", dtype, mean, stddev)


def stateless_truncated_normal(shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = float32,
                               name: str | None = None, alg: Any = "auto_select") -> Tensor:
    """Normal numbers within two deviations, the same for the same seed."""
    check_algorithm(alg)
    return _draw(*_key_of(seed), shape, "truncated", dtype, mean, stddev)


def split(seed: Any, num: int = 2, alg: Any = "auto_select") -> Tensor:
    """So many seeds of one."""
    check_algorithm(alg)
    return stateless_uniform([int(num), 2], seed, None, None, as_array(unwrap(seed)).dtype)


def fold_in(seed: Any, data: Any, alg: Any = "auto_select") -> Tensor:
    """A seed of a seed and a number."""
    check_algorithm(alg)
    number = as_array(unwrap(data))
    return Tensor(np.array([stateless_uniform([], seed, None, None, number.dtype).numpy(), number], number.dtype))


# --- of a state -------------------------------------------------------------------------------------------------------


def create_rng_state(seed: Any, alg: Any) -> np.ndarray:
    """The state of a generator: two parts of the counter, and the key."""
    check_algorithm(alg)
    if isinstance(seed, int):
        parts = [seed >> 64 * i & 2**64 - 1 for i in range(3)]
        return np.array(parts, np.uint64).view(np.int64)
    given = as_array(unwrap(seed)).astype(np.int64).reshape(-1)
    return np.concatenate([np.zeros(max(3 - len(given), 0), np.int64), given])[:3]


class _Draw:
    """One draw of a function that was traced: every run is given its numbers, as the next element of an iterator."""

    def __init__(self, draws: "_Draws", offset: int, replica: int | None, arguments: tuple):
        self._draws, self._offset, self._replica, self._arguments = draws, offset, replica, arguments

    def _next_values(self) -> list[np.ndarray]:
        draws = self._draws
        if self is draws.all[0]:
            draws.before = draws.generator._value()
        drawn = draws.generator._numbers_at(draws.before, self._offset, self._replica, *self._arguments)
        if self is draws.all[-1]:
            draws.generator._go_on(draws.before, max(draws.offsets.values()))
        return [drawn.numpy()]


class _Draws:
    """The draws of one generator in one trace. A run goes on from the state that it finds."""

    def __init__(self, generator: "Generator"):
        self.generator = generator
        self.all: list[_Draw] = []
        self.offsets: dict[int | None, int] = {}  # how far each replica has gone
        self.before: Any = None

    def add(self, trace: Any, count: int, replica: int | None, sizes: Any, arguments: tuple) -> Any:
        offset = self.offsets.get(replica, 0)
        self.offsets[replica] = offset + count
        self.all.append(_Draw(self, offset, replica, (sizes, *arguments)))
        return trace.pull(self.all[-1], TensorSpec(sizes, as_dtype(arguments[1])))


class Generator(Module):
    """tf.random.Generator: random numbers of a state, which every call changes. One that is made in the scope of a
    strategy has other numbers in each replica."""

    def __init__(self, copy_from: Any = None, state: Any = None, alg: Any = None):
        super().__init__("generator")
        if copy_from is not None:
            if state is not None or alg is not None:
                raise ValueError("copy_from and either state or alg are given")
            state, alg = copy_from.state.numpy(), 1
        if state is None or alg is None:
            raise ValueError("state and alg are needed; Generator.from_seed makes them")
        check_algorithm(alg)
        self._strategy = current_strategy()
        self._made_in = current_trace()
        self._read_in: Any = None  # the trace that has read the state
        self._state_var = Variable(np.asarray(as_array(unwrap(state)), np.int64), trainable=False, name="StateVar")

    @classmethod
    def from_seed(cls, seed: Any, alg: Any = None) -> "Generator":
        """The generator of a seed."""
        return cls(state=create_rng_state(seed, 1 if alg is None else alg), alg=1)

    @classmethod
    def from_state(cls, state: Any, alg: Any) -> "Generator":
        """The generator of a state."""
        return cls(state=state, alg=alg)

    @classmethod
    def from_key_counter(cls, key: Any, counter: Any, alg: Any) -> "Generator":
        """The generator of a key and two parts of a counter."""
        return cls(state=_joined(key, counter), alg=alg)

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> "Generator":
        """A generator that is another one in every program."""
        numbers = np.array([secrets.randbits(64) for _ in range(3)], np.uint64).view(np.int64)
        return cls(state=numbers, alg=1 if alg is None else alg)

    algorithm = property(lambda self: 1)

    @property
    def state(self) -> Variable:
        """The counter and the key."""
        trace = current_trace()
        if trace is not None:
            if self in trace.draws:
                raise NeedsValue("a function that draws from a tf.random.Generator cannot read its state")
            self._read_in = trace
        return self._state_var

    @property
    def key(self) -> Tensor:
        return Tensor(self._numbers()[2])

    def _value(self) -> np.ndarray:
        return self._state_var.numpy()

    def _numbers(self) -> np.ndarray:
        if default_graph() is not None:
            raise NeedsValue("tf.random.Generator draws in functions, and outside of them; in other graphs tf.random.normal "
                             "and its like draw other numbers in every run")
        return self._value()

    def reset(self, state: Any) -> None:
        """Goes to a state."""
        self._state_var.assign(np.asarray(as_array(unwrap(state)), np.int64))

    def reset_from_seed(self, seed: Any) -> None:
        """Goes to the state of a seed."""
        self.reset(create_rng_state(seed, 1))

    def reset_from_key_counter(self, key: Any, counter: Any) -> None:
        """Goes to the state of a key and two parts of a counter."""
        self.reset(_joined(key, counter))

    def skip(self, delta: Any) -> Tensor:
        """Goes over so many numbers; the state before."""
        before = self._numbers()
        self._go_on(before, int(unwrap(delta)))
        return Tensor(before)

    def _go_on(self, before: np.ndarray, count: int) -> None:
        counter = _counter_of(before) + count * _SKIP
        after = np.array([counter & 2**64 - 1, counter >> 64 & 2**64 - 1], np.uint64).view(np.int64)
        self._state_var.assign(np.concatenate([after, before[2:]]))

    def _numbers_at(self, before: np.ndarray, offset: int, replica: int | None, sizes: Any, what: str, dtype: Any,
                    low: Any = 0, high: Any = None) -> Tensor:
        key = int(before[2]) & 2**64 - 1
        if replica is not None:  # the key of a replica is drawn with its number for a counter
            key = int(_integers(key, replica, 1, int64)[0])
        return _draw(key, _counter_of(before) + offset * _SKIP, sizes, what, dtype, low, high)

    def _replica(self) -> int | None:
        context = replica_context()
        return None if self._strategy is None or context is None else int(context.replica_id_in_sync_group)

    def _draw(self, shape: Any, what: str, dtype: Any, low: Any = 0, high: Any = None) -> Any:
        sizes = _plain_shape(shape)
        if isinstance(sizes, Node):
            raise NeedsValue("the shape of what a tf.random.Generator draws must have a value")
        count, trace = int(np.prod(sizes, dtype=np.int64)), current_trace()
        if trace is not None:
            return self._draw_in(trace, count, sizes, what, dtype, low, high)
        before = self._numbers()
        drawn = self._numbers_at(before, 0, self._replica(), sizes, what, dtype, low, high)
        self._go_on(before, count)
        return drawn

    def _draw_in(self, trace: Any, count: int, sizes: Any, what: str, dtype: Any, low: Any, high: Any) -> Any:
        """What a function that is traced draws."""
        if isinstance(low, Node) or isinstance(high, Node) or is_recorded(low) or is_recorded(high):
            raise NeedsValue("the bounds, mean and deviation of what a tf.random.Generator draws must have values; multiply "
                             "and add what is drawn without them")
        if self._made_in is not None:
            raise NeedsValue("a tf.random.Generator is made outside of the function, or of what strategy.run is given: a "
                             "trace would go on with its numbers in the next run")
        if trace.world.is_remote:
            raise NeedsValue("tf.random.Generator draws in this process; tf.random.normal and its like draw at the tasks")
        if self._read_in is trace:
            raise NeedsValue("a function that reads the state of a tf.random.Generator cannot draw from it")
        draws = trace.draws.setdefault(self, _Draws(self))
        return draws.add(trace, count, self._replica(), sizes, (what, dtype, low, high))

    def normal(self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = float32,
               name: str | None = None) -> Tensor:
        """Normal numbers."""
        return self._draw(shape, "normal", dtype, mean, stddev)

    def truncated_normal(self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = float32,
                         name: str | None = None) -> Tensor:
        """Normal numbers within two deviations."""
        return self._draw(shape, "truncated", dtype, mean, stddev)

    def uniform(self, shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = float32,
                name: str | None = None) -> Tensor:
        """Uniform numbers in [minval, maxval)."""
        return self._draw(shape, "uniform", dtype, minval, maxval)

    def uniform_full_int(self, shape: Any, dtype: Any = "uint64", name: str | None = None) -> Tensor:
        """All integers of a dtype, int32 or int64; those of the default do not exist."""
        return self._draw(shape, "full", dtype)

    def make_seeds(self, count: int = 1) -> Tensor:
        """Seeds of stateless calls, [2, count]."""
        drawn = self.uniform_full_int([int(count)], int64)
        if isinstance(drawn, Node):
            return ops.stack([drawn, ops.zeros_like(drawn)])
        return Tensor(np.stack([drawn._value, np.zeros_like(drawn._value)]))

    def split(self, count: int = 1) -> list["Generator"]:
        """So many generators, each of numbers of its own."""
        self._numbers()  # in a function there is none
        return [Generator(state=np.array([0, 0, key], np.int64), alg=1) for key in self.make_seeds(count)._value[0]]


def _counter_of(state: np.ndarray) -> int:
    low, high = (int(part) & 2**64 - 1 for part in state[:2])
    return low | high << 64


def _joined(key: Any, counter: Any) -> np.ndarray:
    parts = [np.asarray(as_array(unwrap(part)), np.int64).reshape(-1) for part in (counter, key)]
    return np.concatenate([parts[0], np.zeros(2 - len(parts[0]), np.int64), parts[1]])


_global: list[Generator] = []


def get_global_generator() -> Generator:
    """The generator of the program, another one in every run."""
    if not _global:
        _global.append(Generator.from_non_deterministic_state())
    return _global[0]


def set_global_generator(generator: Generator) -> None:
    """Makes a generator that of the program."""
    _global[:] = [generator]
