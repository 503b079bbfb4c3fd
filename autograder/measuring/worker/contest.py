"""Timing two sides against each other: blocks of calls, in random order, until the rule has its answer."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from autograder.measuring.verdict import CLEAR, LEAD, Verdict
from autograder.measuring.wire.messages import Outcome

from .clock import elapsed, give_way
from .inputs import new_draw
from .refusal import on_behalf_of
from .sides import Timed

# A pair takes PAIR nanoseconds or less: it is the best of up to REPEATS rounds of one block each. On T*, with blocks
# of equal length, the best of several is not biased, and both less scattered and less moved by the load of the
# machine than a single round.
REPEATS, PAIR = 7, 5_000_000
AGAIN = 300_000_000  # a calibration of this many nanoseconds or less is repeated
# After a quick answer a few more pairs are timed, for the sake of the interval.
ESTIMATE_PAIRS, ESTIMATE_SECONDS = 7, 0.03
PATIENCE = 2.5


@dataclass
class Runner:
    """A side in a contest: how many calls make a block of it, and the time of one call in each pair."""

    side: Timed
    calls: int
    times: list[float] = field(default_factory=list)


def time_block(side: Timed, calls: int, draw: int) -> tuple[int, float]:
    """(nanoseconds of T* for `calls` calls, share of the wall time in which others had the core)."""
    side.prepare(calls, draw)
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
    lead: int = LEAD,
) -> Outcome:
    """Time pairs until the rule at `bar` has its answer or `budget` seconds (of wall clock) are over.

    Without a bar only the ratio is estimated. `check(got, want, draw)` sees the results of every pair, and of which
    draw its inputs were; what it raises ends the contest.
    """
    began, seconds = time.perf_counter(), 0.0
    rule = Verdict(bar, lead) if bar else None
    slow_calls, fast_calls = plan(bar or per_call[0] / per_call[1], baseline, candidate, per_call)
    slow, fast = Runner(baseline, slow_calls), Runner(candidate, fast_calls)
    others: list[float] = []
    repeats = int(min(REPEATS, PAIR / (slow_calls * per_call[0] + fast_calls * per_call[1])))
    if repeats:  # one round that does not count: caches and allocator as in what follows
        one_round(slow, fast, new_draw())
    while True:
        seconds = time.perf_counter() - began
        pairs = len(others)
        # Without a rule the ratio is all there will be, and three pairs are too few for it.
        enough = pairs >= ESTIMATE_PAIRS or (rule and pairs >= 3 and seconds > ESTIMATE_SECONDS)
        if enough and (rule is None or rule.answer):
            break
        # Long calls get the time for a clear start, but not for ever.
        if seconds > budget and (pairs >= CLEAR or (pairs and seconds > PATIENCE * budget)):
            break
        draw = new_draw()
        rounds = [one_round(slow, fast, draw)]
        for _ in range(1, repeats):
            draw = candidate.supply.again(draw)
            rounds.append(one_round(slow, fast, draw))
        check(candidate.result(), baseline.result(), draw)
        slow.times.append(min(taken for taken, _, _ in rounds))
        fast.times.append(min(taken for _, taken, _ in rounds))
        others.append(min(share for _, _, share in rounds))
        if rule:
            rule.add(slow.times[-1] / fast.times[-1])
    return Outcome(rule.answer if rule else None, slow.times, fast.times, others, seconds)


def one_round(slow: Runner, fast: Runner, draw: int) -> tuple[float, float, float]:
    """One block of each, on the same inputs, in random order: nanoseconds of a call of each, and the share of others.

    That share is the larger of the two.
    """
    taken, shares = {}, []
    for runner in random.sample([slow, fast], 2):
        with on_behalf_of(runner.side.role):
            nanoseconds, share = time_block(runner.side, runner.calls, draw)
        taken[runner.side.role] = nanoseconds / runner.calls
        shares.append(share)
    return taken["baseline"], taken["candidate"], max(shares)
