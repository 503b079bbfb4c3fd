"""Calibration, on a clock that the tests turn by hand."""

import pytest

from autograder.measuring.worker.clock import Reading
from autograder.measuring.worker.contest import calibrate

CALL = 50_000  # nanoseconds


class Scripted:
    """A side whose calls take `call` nanoseconds, and whose n-th block is stopped for pauses[n] more."""

    overhead = 0

    def __init__(self, call, pauses=()):
        self.call, self.pauses, self.now, self.blocks, self.calls = call, dict(pauses), 0, 0, 0
        self.clock = self
        self.block = 300_000

    def read(self):
        return Reading(self.now, 0)

    def prepare(self, calls, scale):
        self.calls = calls

    def run(self):
        self.now += self.calls * self.call + self.pauses.get(self.blocks, 0)
        self.blocks += 1

    def scales(self):
        return [1.0]

    def watch(self, calls, scale):
        pass

    def most_calls(self, calls):
        return calls


def test_more_calls_until_a_block_is_long_enough():
    assert calibrate(Scripted(CALL)) == CALL


@pytest.mark.parametrize("pause", [1_000_000, 50_000_000, 250_000_000])
@pytest.mark.parametrize("block", range(6))
def test_a_pause_is_not_the_length_of_a_call(block, pause):
    """The machine stands still for a while: neither work nor a wait for the core, so T* counts it."""
    assert calibrate(Scripted(CALL, {block: pause})) == CALL


def test_a_call_of_half_a_second_is_made_once():
    side = Scripted(500_000_000)
    assert calibrate(side) == 500_000_000
    assert side.blocks == 1
