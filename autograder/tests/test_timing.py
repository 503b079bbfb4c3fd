"""benchmark: what it measures and how it says so. No test depends on how fast the machine is."""

import gc

import jax
import jax.numpy as jnp
import pytest

from autograder import benchmark
from autograder.instruments.benchmark import Timing, seconds


def test_the_first_call_is_apart_and_says_whether_it_compiled(capfd):
    f = jax.jit(lambda x: jnp.sin(x) * 2)
    x = jnp.ones(100)
    cold, warm = benchmark(f, x, rounds=5), benchmark(f, x, rounds=5)
    assert cold.compiles == 1 and warm.compiles == 0
    assert cold.first > 0 and len(cold.rounds) == 5 and min(cold.rounds) > 0
    assert cold.low <= cold.median <= cold.high
    assert "(nothing was compiled), then " in str(warm)
    assert "compiled" not in str(cold)
    assert capfd.readouterr() == ("", "")


def test_the_line_reads_well():
    timing = Timing(0.0312, [0.00020, 0.00021, 0.00021, 0.00022, 0.00025], calls=5, compiles=1)
    assert str(timing) == "first 31.2 ms, then 0.21 ms a call (0.21 to 0.22, 5 rounds)"
    assert str(Timing(2.5, [1.25], calls=1, compiles=1)) == "first 2.5 s, then 1.25 s a call (1.25 to 1.25, 1 round)"
    assert [seconds(s) for s in (3.2e-05, 0.00015, 0.25, 2.0)] == ["32 µs", "0.15 ms", "250 ms", "2 s"]


class Awaited:
    """A result that counts how often it is waited for."""

    waits = 0

    def block_until_ready(self):
        Awaited.waits += 1
        return self


def test_every_leaf_of_every_call_is_awaited():
    calls = 0

    def fake(x):
        nonlocal calls
        calls += 1
        return {"a": Awaited(), "b": [Awaited(), 3]}

    Awaited.waits = 0
    benchmark(fake, 1.0, rounds=2)
    assert Awaited.waits == 2 * calls > 0


def test_the_arguments_are_awaited_before_the_clock_starts():
    waited_before = []

    def fake(x, tree):
        waited_before.append(Awaited.waits)

    Awaited.waits = 0
    benchmark(fake, Awaited(), {"a": [Awaited()]}, rounds=1)
    assert waited_before[0] == Awaited.waits == 2


def test_a_short_call_is_repeated_within_a_round():
    assert benchmark(lambda: None, rounds=1).calls > 1


def test_there_are_fifteen_rounds_unless_another_number_is_asked_for():
    assert len(benchmark(lambda: None).rounds) == 15


def test_the_collector_is_left_as_it_was():
    benchmark(lambda: None, rounds=1)
    assert gc.isenabled()
    gc.disable()
    try:
        benchmark(lambda: None, rounds=1)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_no_rounds_are_refused():
    with pytest.raises(ValueError, match="at least one round, got 0"):
        benchmark(lambda: None, rounds=0)
