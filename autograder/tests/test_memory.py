"""Code that remembers wins nothing in a contest, and code that only looks as if it did loses nothing."""

import functools
import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from autograder import speedup
from autograder.failure import CheckFailed
from autograder.measuring import bench

pytestmark = pytest.mark.once  # the same on every version


@pytest.fixture(scope="module", autouse=True)
def one_process():
    yield
    bench.stop()


REPEATS = 300
X = np.random.default_rng(0).normal(size=50).astype(np.float32)


@jax.jit
def step(x):
    return jnp.sin(x) + 1


def slow(x):
    for _ in range(REPEATS):
        y = step(x)
    return 2 * y


def two_results(x):
    y = slow(x)
    return y, y.sum()


# --- memory that the numbers betray --------------------------------------------------------------------------------


def keeps_one():
    kept = []

    def the_last_result(x):
        if not kept:
            kept.append(slow(x))
        return kept[0]

    return the_last_result


def keyed_on(key):
    """Remembers what it returned, by what `key` makes of the arguments."""
    kept = {}

    def remembers(*args):
        if key(args) not in kept:
            kept[key(args)] = slow(*args)
        return kept[key(args)]

    return remembers


def every_other():
    kept = [0, None]

    def computes_every_other_call(x):
        kept[0] += 1
        if kept[0] % 2:
            kept[1] = slow(x)
        return kept[1]

    return computes_every_other_call


def right_at_first(calls):
    kept = [0, None]

    def goes_on_with_what_it_has(x):
        kept[0] += 1
        if kept[0] <= calls:
            kept[1] = slow(x)
        return kept[1]

    return goes_on_with_what_it_has


@pytest.mark.parametrize(
    "cheat",
    [
        keeps_one(),
        keyed_on(lambda args: args[0].shape),
        keyed_on(lambda args: round(float(args[0].max()))),
        every_other(),
        right_at_first(1),
        right_at_first(5),
    ],
    ids=["one result", "shape", "a rounded number", "every other call", "first call", "five calls"],
)
def test_a_result_that_was_kept_is_seen(cheat):
    with pytest.raises(CheckFailed, match="returns the same for different arguments, and slow does not") as caught:
        speedup(cheat, slow, X, at_least=2)
    caught.match(r"they agree on the arguments as given, and disagree in \d+ of 50 values on new ones")
    assert "a result was kept" in str(caught.value)


def test_a_dictionary_of_addresses_gives_the_results_of_others():
    """An address is used again, for other numbers."""
    with pytest.raises(CheckFailed, match="values on (others|new ones)"):
        speedup(keyed_on(lambda args: tuple(map(id, args))), slow, X, at_least=2)


def test_a_second_result_that_is_left_out_is_seen():
    kept = []

    def sums_once(x):
        y = 2 * step(x)
        if not kept:
            kept.append(y.sum())
        return y, kept[0]

    with pytest.raises(CheckFailed, match="agree on the arguments as given, but disagree in 1 of 1 values") as caught:
        speedup(sums_once, two_results, X, at_least=2)
    assert "worst at result 1, index []" in str(caught.value)


def test_a_result_less_is_told():
    with pytest.raises(CheckFailed, match="it returns 1 arrays, the baseline 2"):
        speedup(lambda x: (2 * step(x),), two_results, X, at_least=2)


@pytest.mark.parametrize("calls", [0, 3])
def test_nan_is_no_answer(calls):
    count = []

    def gives_up(x):
        count.append(1)
        return 2 * step(x) if len(count) <= calls else jnp.full_like(x, jnp.nan)

    with pytest.raises(CheckFailed, match="disagree in 50 of 50 values") as caught:
        speedup(gives_up, slow, X, at_least=2)
    assert ": nan, expected " in str(caught.value)


def test_a_result_that_comes_after_the_call_comes_too_late():
    pool, called_again, count = [], [], []

    def later(x):
        count.append(1)
        if len(count) == 1:
            return slow(x)
        if not pool:
            pool.append(ThreadPoolExecutor(1))
        if called_again:
            called_again.pop().set()
        out, again = np.array(x), threading.Event()
        called_again.append(again)

        def fill():
            again.wait()
            np.copyto(out, slow(x))

        pool[0].submit(fill)
        return out

    with pytest.raises(CheckFailed, match="agree on the arguments as given, but disagree") as caught:
        speedup(later, slow, X, at_least=2)
    assert "one that comes after the call has returned comes too late" in str(caught.value)


def test_a_result_that_computes_itself_when_it_is_looked_at_is_no_array():
    class Promise:
        dtype, shape = X.dtype, X.shape

        def __init__(self, x):
            self.x = x

        def __array__(self, dtype=None, copy=None):
            return np.asarray(slow(self.x))

    with pytest.raises(CheckFailed, match="it returns a Promise, which is neither an array nor a number"):
        speedup(lambda x: Promise(x), slow, X, at_least=2)


# --- memory that never finds anything ------------------------------------------------------------------------------


def table_of_likely_inputs():
    kept = {}

    def looks_it_up(x):
        if not kept:
            for k in range(9):
                likely = X * np.float32(1 - k / 256)
                kept[likely.tobytes()] = slow(likely)
        found = kept.get(np.asarray(x).tobytes())
        return slow(x) if found is None else found

    return looks_it_up


@pytest.mark.parametrize(
    "cheat",
    [
        keyed_on(lambda args: tuple(np.asarray(arg).tobytes() for arg in args)),
        keyed_on(lambda args: float(args[0][0])),
        keyed_on(lambda args: float(args[0].sum())),
        table_of_likely_inputs(),
    ],
    ids=["bytes", "first number", "sum", "table"],
)
def test_a_dictionary_finds_nothing_and_is_slow(cheat):
    answer = speedup(cheat, slow, X, at_least=3)
    assert (answer.verdict, answer.at_least(2)) == ("fail", "fail")


def test_nor_does_it_on_integers():
    row = np.eye(40, dtype=np.int32)[20]

    def sums(row):
        for _ in range(REPEATS):
            y = step(row)
        return jnp.round(y)

    kept = {}

    def remembers(row):
        if row.tobytes() not in kept:
            kept[row.tobytes()] = sums(row)
        return kept[row.tobytes()]

    assert speedup(remembers, sums, row, at_least=3).verdict == "fail"
    assert speedup(lambda row: jnp.round(step(row)), sums, row, at_least=3).verdict == "pass"


def test_where_nothing_can_be_new_code_is_not_timed():
    @functools.cache
    def fibonacci(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    def by_hand(n):
        a, b = 0, 1
        for _ in range(n):
            a, b = b, a + b
        return a

    with pytest.raises(CheckFailed, match="fibonacci cannot be timed on these arguments") as caught:
        speedup(fibonacci, by_hand, 30, at_least=2)
    assert "it is not jitted, and nothing in them can be new from call to call" in str(caught.value)
    assert speedup(jax.jit(lambda n: n + 1), lambda n: n + 1, 30).how["candidate"] == "compiled artefact"


# --- right answers -------------------------------------------------------------------------------------------------


class Smoother:
    """Has state: how often it was called, and a buffer that every call fills anew."""

    def __init__(self):
        self.calls, self.buffer = 0, np.empty_like(X)

    def __call__(self, x):
        self.calls += 1
        np.multiply(np.sin(x) + 1, 2, out=self.buffer)
        return self.buffer


@functools.lru_cache
def program_for(shape):
    return jax.jit(lambda x: 2 * (jnp.sin(x) + 1))


def by_shape(x):
    return program_for(x.shape)(x)


def in_a_loop(x):
    return np.array([2 * (np.sin(value) + 1) for value in x], np.float32)


def times(factor, x):
    return factor * step(x)


@pytest.mark.parametrize(
    "answer",
    [Smoother(), by_shape, in_a_loop, functools.partial(times, 2), lambda x: 2 * step(x)],
    ids=["a class with a buffer", "lru_cache on shapes", "loop", "partial", "lambda"],
)
def test_code_without_a_memory_passes(answer):
    result = speedup(answer, slow, X, at_least=2)
    assert result.verdict == "pass"
    assert result.how["candidate"] == "source, in a process of its own"


def test_a_function_that_may_return_the_same_for_different_arguments():
    signs = np.sign(X)
    assert speedup(lambda x: np.sign(x), lambda x: np.sign(slow(x) * 0 + x), X, at_least=2).verdict == "pass"
    assert set(signs) == {-1, 1}


def test_large_data_is_compared_in_every_pair():
    """A candidate that is right for the first pairs and wrong from then on."""
    x, count = np.ones(400_000, np.float32), []

    def tires(x):
        count.append(1)
        return x + 1 if len(count) < 25 else x + 1.001

    def plus_one(x):
        return ((x + 1) + (x + 1)) / 2

    with pytest.raises(CheckFailed, match="agree on the arguments as given, but disagree in 400000 of 400000 values"):
        speedup(tires, plus_one, x)
