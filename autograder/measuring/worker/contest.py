"""Timing two sides against each other: blocks of calls, pair after pair, until the rule has its answer."""

import random
import time
from collections.abc import Callable
from typing import NamedTuple

from autograder.measuring.verdict import CLEAR, LEAD, Verdict
from autograder.measuring.wire.messages import Outcome

from .clock import elapsed, give_way
from .inputs import new_draw
from .refusal import on_behalf_of
from .sides import Timed

# A pair takes PAIR nanoseconds or less: up to REPEATS blocks of one side, then as many of the other, the best of each.
# On T*, with blocks of equal length, the best of several is not biased, and both less scattered and less moved by the
# load of the machine than a single one. One side after the other, because its first block fills the caches again, which
# the other side, and whoever else had the core, has emptied: in turns, every block would be such a first one.
REPEATS, PAIR = 7, 5_500_000
CLOSE = 1.5  # within this factor of the bar, a pair does not count that was timed while the core was slow
AGAIN = 300_000_000  # a calibration of this many nanoseconds or less is repeated
# After a quick answer a few more pairs are timed, for the sake of the interval.
ESTIMATE_PAIRS, ESTIMATE_SECONDS = 7, 0.03
PATIENCE = 2.5


class Runner(NamedTuple):
    """A side in a contest, and how many calls make a block of it."""

    side: Timed
    calls: int


class Pair(NamedTuple):
    """Nanoseconds of one call of each side, and the share of the time in which others had the core."""

    baseline: float
    candidate: float
    others: float


def time_block(side: Timed, calls: int, draw: int, fresh_slice: bool = True) -> tuple[int, float]:
    """(nanoseconds of T* for `calls` calls, share of the wall time in which others had the core)."""
    side.prepare(calls, draw)
    if fresh_slice:
        give_way()
    start = side.clock.read()
    side.run()
    stop = side.clock.read()
    taken = elapsed(start, stop)
    return max(1, taken - side.overhead), 1 - taken / max(1, stop.wall - start.wall)


def calibrate(side: Timed) -> float:
    """Nanoseconds of one call, roughly: more calls until a block is long enough to believe."""
    calls, draw = 1, new_draw()

    def block() -> int:
        nonlocal draw
        draw = side.supply.again(draw)
        return time_block(side, calls, draw)[0]

    while True:
        taken = block()
        # One interruption must not pass for the length of a call: the contest would be planned for it, with too few
        # calls in a block and one round in a pair. A virtual machine that is stopped for 50 ms leaves no run delay.
        for _ in range(2):
            if taken < AGAIN:
                taken = min(taken, block())
        more = side.supply.most_calls(min(100 * calls, 1 + int(calls * side.clock.block / 2 / taken)))
        if taken >= side.clock.block / 4 or more <= calls:
            break
        calls = more
    side.watch(calls, side.supply.again(draw))
    return taken / calls


def plan(bar: float, baseline: Timed, candidate: Timed, per_call: list[float]) -> tuple[int, int]:
    """How many calls make a block of each side, so that at a true ratio of `bar` both take equally long."""
    slow, fast = per_call
    block = max(baseline.clock.block, candidate.clock.block)
    calls = baseline.supply.most_calls(max(1, round(block / slow)))
    length = max(block, calls * slow)
    # Equal length matters near the bar only. Far from it, neither a block of the candidate that takes more
    # than twice as long nor one too short for the clock is of use.
    wanted = max(min(bar * calls, 2 * length / fast), block / 4 / fast, 1)
    return calls, candidate.supply.most_calls(round(wanted))


def contest(
    baseline: Timed,
    candidate: Timed,
    bar: float | None,
    per_call: list[float],
    budget: float,
    check: Callable[[list, list, int], None],
    core_is_slow: Callable[[], bool] = lambda: False,
    lead: int = LEAD,
) -> Outcome:
    """Time pairs until the rule at `bar` has its answer or `budget` seconds (of wall clock) are over.

    Without a bar only the ratio is estimated. `check(got, want, draw)` sees the results of every pair, and of which
    draw its inputs were; what it raises ends the contest. `core_is_slow` is asked before each pair: near the bar, the
    rule does not see what was timed meanwhile, and the outcome has it only where there is no answer.
    """
    began, seconds = time.perf_counter(), 0.0
    rule = Verdict(bar, lead) if bar else None
    slow_calls, fast_calls = plan(bar or per_call[0] / per_call[1], baseline, candidate, per_call)
    slow, fast = Runner(baseline, slow_calls), Runner(candidate, fast_calls)
    counted: list[Pair] = []
    put_aside: list[Pair] = []
    repeats = int(min(REPEATS, PAIR / (slow_calls * per_call[0] + fast_calls * per_call[1])))
    if repeats:  # one that does not count: caches and allocator as in what follows
        time_pair(slow, fast, [new_draw()])
    while True:
        seconds = time.perf_counter() - began
        pairs = len(counted)
        # Without a rule the ratio is all there will be, and three pairs are too few for it.
        enough = pairs >= ESTIMATE_PAIRS or (rule and pairs >= 3 and seconds > ESTIMATE_SECONDS)
        if enough and (rule is None or rule.answer):
            break
        pairs += len(put_aside)
        # Long calls get the time for a clear start, but not for ever.
        if seconds > budget and (pairs >= CLEAR or (pairs and seconds > PATIENCE * budget)):
            break
        core_was_slow = core_is_slow()
        draws = [new_draw()]
        while len(draws) < repeats:
            draws.append(candidate.supply.again(draws[-1]))
        pair = time_pair(slow, fast, draws)
        check(candidate.result(), baseline.result(), draws[-1])
        ratio = pair.baseline / pair.candidate
        if rule and core_was_slow and rule.bar / CLOSE < ratio < rule.bar * CLOSE:
            put_aside.append(pair)
            continue
        counted.append(pair)
        if rule:
            rule.add(ratio)
    answer = rule.answer if rule else None
    pairs_told = counted if answer or not rule else counted + put_aside
    return Outcome(
        answer,
        [pair.baseline for pair in pairs_told],
        [pair.candidate for pair in pairs_told],
        [pair.others for pair in pairs_told],
        seconds,
        put_aside=len(put_aside),
    )


def time_pair(slow: Runner, fast: Runner, draws: list[int]) -> Pair:
    """The best of some blocks of each side, on the same inputs, in random order; of the shares the larger best one."""
    taken, shares = {}, []
    for runner in random.sample([slow, fast], 2):
        with on_behalf_of(runner.side.role):
            blocks = [time_block(runner.side, runner.calls, draw, fresh_slice=not i) for i, draw in enumerate(draws)]
        taken[runner.side.role] = min(nanoseconds for nanoseconds, _ in blocks) / runner.calls
        shares.append(min(share for _, share in blocks))
    return Pair(taken["baseline"], taken["candidate"], max(shares))
