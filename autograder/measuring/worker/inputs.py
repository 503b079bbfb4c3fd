"""The inputs of the calls that are timed, so that nobody can know an answer beforehand.

A compiled function has no memory: the calls of a block share one of a few other sets of arguments (`Repeated`).
Code may keep what it returned, so each of its calls, and each call of the baseline beside it, gets numbers that no
call had before (`Fresh`). Which of them a block of code gets follows from its `draw` alone: two processes that are told
the same draw make the same inputs. The sets for what is compiled are one process's own.
"""

import functools
import math
import random
import secrets
from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from autograder.measuring.wire.arrays import Value, is_array, is_floating, is_key

AS_GIVEN = 0  # the draw of a block that gets the arguments as they were given
COPIES = 8  # of what is compiled, at most
LEAST = 31 / 32  # a factor just below 1 keeps signs, zeros and upper bounds of floating-point arrays
ENOUGH = 12  # bits: an array of which there are fewer than 2**ENOUGH variants would soon come back
_KEPT_BYTES = 32_000_000
_FRESH_BYTES = 256_000_000

Arrange = Callable[[list[Value]], tuple]  # the arguments of a call, from the leaves


def new_draw() -> int:
    """A draw that nobody can foretell."""
    return 1 + secrets.randbits(62)


class Block(NamedTuple):
    """The arguments of each call of a block. The results of call number `checked` are compared."""

    calls: list[tuple]
    checked: int


class Supply(Protocol):
    """Where the inputs of a function come from."""

    def block(self, calls: int, draw: int, arrange: Arrange) -> Block:
        """The inputs of so many calls."""

    def again(self, draw: int) -> int:
        """The draw of the next block, where one block is timed several times."""

    def most_calls(self, calls: int) -> int:
        """So many calls, or as many as there is room for."""


class Repeated:
    """A few copies with other numbers, as `Fresh` has them; all calls of a block share one. Two where they are large.

    All that was made of the same leaves in this process has the same copies, which nobody can foretell: a table that
    was compiled in holds none of their results.
    """

    def __init__(self, leaves: list[Value]):
        self._leaves = leaves
        self._copies: list[list[Value]] = []

    def block(self, calls: int, draw: int, arrange: Arrange) -> Block:
        """See `Supply`. Draws take turns with the copies."""
        values = self._leaves
        if draw != AS_GIVEN:
            if not self._copies:  # all of them, before the first block that counts
                room = max(2, _KEPT_BYTES // max(1, bytes_in(values)))
                self._copies = [jax.block_until_ready(copy) for copy in other_numbers(values, min(room, COPIES))]
            values = self._copies[draw % len(self._copies)]
        return Block([arrange(values)] * calls, calls - 1)

    def again(self, draw: int) -> int:
        """See `Supply`. The same buffers, which are warm now."""
        return draw

    def most_calls(self, calls: int) -> int:
        """See `Supply`."""
        return calls


class Fresh:
    """New inputs for every call, in buffers of their own, so that a call may consume them.

    Floating-point arrays are new; beside them integers are indices and sizes, and stay. Where no floating-point array
    can be new, random keys are; where there are none, integers and booleans. Python numbers stay: they may be static.
    `new` says whether there is anything that can be.
    """

    def __init__(self, leaves: list[Value]):
        self._same = [_copies(leaf) for leaf in leaves]
        self._bytes = bytes_in(leaves)
        variants = variants_of(leaves)
        self.new = bool(variants)
        self._new = (
            [makes or same for makes, same in zip(variants, self._same, strict=True)] if variants else self._same
        )

    def block(self, calls: int, draw: int, arrange: Arrange) -> Block:
        """See `Supply`. The first inputs of a draw, which blocks of all lengths share, go to the call that is checked.

        That may be any one: whoever knows which call is checked could leave out the others.
        """
        leaves = self._same if draw == AS_GIVEN else self._new
        generator = np.random.default_rng(draw)
        inputs = []
        for _ in range(calls):
            chance = _Chance.of(generator)
            inputs.append(arrange(jax.block_until_ready([make(chance) for make in leaves])))
        checked = random.randrange(calls) if calls else 0
        if calls:
            inputs[0], inputs[checked] = inputs[checked], inputs[0]
        return Block(inputs, checked)

    def again(self, draw: int) -> int:
        """See `Supply`."""
        return new_draw()

    def most_calls(self, calls: int) -> int:
        """See `Supply`."""
        return max(1, min(calls, _FRESH_BYTES // max(1, self._bytes)))


class _Chance(NamedTuple):
    """What one set of inputs has in common: two factors, and the stretch (shares of the length) that gets both."""

    factors: np.ndarray
    stretch: np.ndarray
    generator: np.random.Generator

    @staticmethod
    def of(generator: np.random.Generator) -> "_Chance":
        return _Chance(1 - (1 - LEAST) * generator.random(2), np.sort(generator.random(2)), generator)


_Variants = Callable[[_Chance], Value]  # makes a leaf


def variants_of(leaves: list[Value]) -> list[_Variants | None]:
    """What makes other leaves: of floating-point arrays, else of random keys, else of integers; empty if none can."""
    found = [list(map(kind, leaves)) for kind in (_multiples, _other_keys, _redrawings)]
    return next(filter(any, found), [])


def _copies(leaf: Value) -> _Variants:
    if not is_array(leaf) or is_key(leaf):
        return lambda chance: leaf
    return lambda chance: _like(leaf, np.array(leaf))


def _multiples(leaf: Value) -> _Variants | None:
    """A floating-point array times the first factor. What has an order keeps it; else the second comes in as well."""
    if not is_floating(leaf):
        return None
    array = np.asarray(leaf)
    ordered, nonzero = has_order(array), np.count_nonzero(array)
    digits = jnp.finfo(array.dtype).nmant - 4  # of a factor between 31/32 and 1
    below_one = 1 - float(jnp.finfo(array.dtype).epsneg)
    if not nonzero or (digits if ordered else 2 * (digits + math.log2(nonzero))) < ENOUGH:
        return None

    def make(chance: _Chance) -> Value:
        first, second = np.minimum(chance.factors, below_one).astype(array.dtype)
        new = np.asarray(array * first)
        if not ordered:
            start, stop = (chance.stretch * array.size).astype(int)
            new.reshape(-1)[start : min(stop + 1, start + array.size - 1)] *= second  # never all of them
        return _like(leaf, new)

    return make


def _other_keys(leaf: Value) -> _Variants | None:
    if not is_key(leaf):
        return None
    shape, kind = jax.random.key_data(leaf).shape, str(jax.random.key_impl(leaf))

    def make(chance: _Chance) -> Value:
        words = chance.generator.integers(2**32, size=shape, dtype=np.uint32)
        return jax.random.wrap_key_data(jnp.array(words), impl=kind)

    return make


def _redrawings(leaf: Value) -> _Variants | None:
    """Integers or booleans, each drawn from those that occur; if all are different, in another order.

    What has an order is not changed.
    """
    if not is_array(leaf) or is_key(leaf) or leaf.dtype.kind not in "biu" or has_order(np.asarray(leaf)):
        return None
    shape, size, pool = leaf.shape, leaf.size, np.unique(np.asarray(leaf))
    different = len(pool) == size
    if (math.lgamma(size + 1) / math.log(2) if different else size * math.log2(len(pool))) < ENOUGH:
        return None

    def make(chance: _Chance) -> Value:
        drawn = chance.generator.permutation(pool) if different else chance.generator.choice(pool, size)
        return _like(leaf, drawn.reshape(shape))

    return make


def has_order(array: np.ndarray) -> bool:
    """Whether the values rise or fall along an axis, or are symmetric: what a function may rely on."""
    if array.size < 2:
        return True
    for axis in range(array.ndim):
        rows = np.moveaxis(array, axis, 0)
        if len(rows) > 1 and ((rows[1:] >= rows[:-1]).all() or (rows[1:] <= rows[:-1]).all()):
            return True
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        return False
    mirrored = np.swapaxes(array, -1, -2)
    return bool((array == mirrored).all() or (array == np.conj(mirrored)).all())


@functools.cache
def _secret() -> int:
    """Of this process, from its first contest on: both sides are given the same copies."""
    return secrets.randbits(62)


def other_numbers(values: list[Value], copies: int) -> list[list[Value]]:
    """So many copies of the values, with numbers that this process has drawn."""
    generator = np.random.default_rng(_secret())
    variants = variants_of(values) or [None] * len(values)
    chances = [_Chance.of(generator) for _ in range(copies)]
    return [[make(chance) if make else v for make, v in zip(variants, values, strict=True)] for chance in chances]


def _like(value: Value, array: np.ndarray) -> Value:
    # Through NumPy: a JAX operation would be compiled first.
    if not isinstance(value, jax.Array):
        return array
    return jnp.asarray(array.item()) if value.weak_type and not value.shape else jnp.array(array)


def bytes_in(values: list[Value]) -> int:
    """Bytes in all arrays."""
    return sum(int(value.nbytes) for value in values if is_array(value) and hasattr(value, "nbytes"))
