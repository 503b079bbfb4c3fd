"""`roofline`: the arithmetic of the limit, and that it answers once."""

import pytest

from autograder import roofline
from autograder.measuring import bench
from autograder.measuring import roofline as roofline_module
from autograder.measuring.roofline import Rate, Roofline


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


def test_sizes_have_a_least_and_a_most():
    assert roofline(1, seconds=0.05).bytes == roofline_module._SMALLEST
