"""`roofline`: the arithmetic of the limit, and that it answers once."""

import types

import pytest

from autograder import roofline
from autograder.measuring import bench
from autograder.measuring import roofline as roofline_module
from autograder.measuring.roofline import Rate, Roofline
from autograder.measuring.wire.messages import Limits


@pytest.fixture(scope="module", autouse=True)
def one_process():
    yield
    bench.stop()


def roof(**changes):
    values = dict(
        device="cpu",
        bytes=2**20,
        bandwidth=Rate(1e10, 9e9, 11e9),
        arithmetic=Rate(1e11, 9e10, 1.1e11),
        dispatch=Rate(2e5, 1e5, 3e5),
    )
    return Roofline(**values | changes)


@pytest.mark.parametrize(
    ("moved", "operations", "seconds", "binds"),
    [
        (1e9, 1e6, 0.1, "memory bandwidth"),
        (1e6, 1e10, 0.1, "arithmetic"),
        (100, 100, 5e-6, "dispatch"),
    ],
)
def test_the_longest_part_binds(moved, operations, seconds, binds):
    limit, name = roof().limit(moved, operations)
    assert name == binds
    assert limit == pytest.approx(seconds, rel=1e-2)


def test_it_says_its_figures_and_their_spread():
    line = str(roof())
    assert "10 (9 to 11) GB/s over 1.05 MB" in line
    assert "100 (90 to 110) GFLOP/s" in line
    assert "5 (3.33 to 10) µs to dispatch a call" in line


def test_it_measures_and_keeps_the_answer():
    first = roofline(100_000, seconds=0.05)
    assert first.bytes == 2**17
    for rate in (first.bandwidth, first.arithmetic, first.dispatch):
        assert 0 < rate.low <= rate.median <= rate.high
    assert roofline(2**17, seconds=0.05) is first


def test_an_accelerator_says_its_arithmetic_in_teraflops():
    assert "0.1 (0.09 to 0.11) TFLOP/s" in str(roof(device="H100"))


@pytest.fixture
def asked(monkeypatch):
    """What a measuring process that measures nothing is asked for: (bytes, seconds, how long one waits for it)."""
    asked = []

    def ask(request, *, limit):
        asked.append((request.size, request.seconds, limit))
        return Limits("cpu", *[Rate(1.0, 1.0, 1.0)] * 3)

    process = types.SimpleNamespace(number=-1, ask=ask)
    monkeypatch.setattr(bench, "current", lambda: process)
    yield asked
    roofline_module._cache.clear()


@pytest.mark.parametrize(("size", "taken"), [(1, 2**12), (5000, 2**12), (100_000, 2**17), (2**40, 2**27)])
def test_sizes_are_powers_of_two_and_have_a_least_and_a_most(asked, size, taken):
    assert roofline(size=size).bytes == taken
    assert [size for size, _, _ in asked] == [taken]


def test_it_measures_on_the_largest_data_for_a_second(asked):
    assert roofline().bytes == 2**27
    assert [seconds for _, seconds, _ in asked] == [1]


def test_who_measures_long_is_waited_for_longer(asked):
    for seconds in (1, 20):
        roofline(2**13 * seconds, seconds=seconds)
    (_, _, short), (_, _, long) = asked
    assert short > 10 and long - short > 20
