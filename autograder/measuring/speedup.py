"""`speedup`: how many times faster is the candidate than the baseline, and is that enough?

The two functions are sent to the measuring process (`bench`) in a form in which they can travel (`request`); there
they are compared and timed, and what that process answers becomes a line, a picture and a verdict here.
"""

import html
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, TypeVar

import jax

from autograder.failure import fail
from autograder.measuring.wire.messages import (
    Contest,
    Forgotten,
    Loaded,
    NeedsReference,
    NothingNew,
    OtherStructure,
    OtherValues,
    Outcome,
    Reply,
    SideRaised,
    expect,
)
from autograder.not_begun import NotBegun
from autograder.wording import UNGRADED, is_number

from . import bench
from .picture import bar_svg, roofline_svg
from .request import Comparison
from .roofline import Roofline, roofline
from .verdict import LEAD, NEAR, SLOW, Verdict, interval, settle

# Official grading asks for this share of the bar, so that what passed at home passes at school.
OFFICIAL = 0.8
BUDGET = 1.5  # seconds of one contest; one in another process follows before "undecided" is said
COLD_BUDGET = 15.0  # seconds of a contest of first calls: three are enough for a verdict on a quiet machine
LIMIT = 25.0  # seconds after which a load or a contest is given up
COLD_LIMIT = 45.0  # the same for first calls
FORGET = 300.0  # seconds after which a core is no longer expected to be as fast as it was: it may be hot
T = TypeVar("T")
IMPOSSIBLE = 1.5  # results that arrive this many times faster than memory can move them are refused


@dataclass
class Speedup:
    """The answer of `speedup`: `ratio` is baseline time over candidate time, `low` to `high` its 95 % interval.

    `seconds` of one call and `compile_seconds` (the first call) are by side, "candidate" and "baseline". `limit` is the
    share of the machine's limit that the candidate reached, `binds` the limit that holds it. `others` is the share of
    the time in which other programs had the core; `put_aside` is how many pairs the rule did not see, because they were
    timed while the core itself ran slowly and are near the bar. `processes` is how many measuring processes gave the
    verdict, and all figures are of their pairs together: if one was outvoted, its pairs do not count; where the verdict
    is "undecided", the pairs of all count, because nobody knows which of them were right.
    """

    candidate: str
    baseline: str
    bar: float | None
    ratio: float
    low: float
    high: float
    pairs: int
    device: str
    results: list[str]
    how: dict[str, str]
    seconds: dict[str, float]
    compile_seconds: dict[str, float]
    others: float
    put_aside: int = 0
    moved: int = 0
    operations: int = 0
    limit: float | None = None
    binds: str = ""
    verdict: str = "undecided"
    processes: int = 1
    platform: str = ""
    cold: bool = False
    tiers: dict[float, float] = field(default_factory=dict)  # bar -> points, where a check gives some: for the picture
    _roof: Roofline | None = field(default=None, repr=False)
    _comparison: Comparison = field(repr=False, kw_only=True)
    _ratios: list[float] = field(default_factory=list, repr=False)
    _answers: dict[float, str] = field(default_factory=dict, repr=False)

    def at_least(self, threshold: float) -> str:
        """The verdict ("pass", "fail", "undecided") at another bar, by the same rule. Times anew where it must.

        Where the platform has no bar, no number is one, and the verdict stays "ungraded".
        """
        if self.verdict == UNGRADED:
            return UNGRADED
        known = self._answers
        if threshold not in known:
            if any(answer == "pass" and bar >= threshold for bar, answer in known.items()):
                known[threshold] = "pass"
            elif any(answer == "fail" and bar <= threshold for bar, answer in known.items()):
                known[threshold] = "fail"
            else:
                bar = threshold * _leniency()
                # What one process says near a bar is not enough, whichever bar it is. Cold calls are as many processes.
                far = 1 if self.cold else 3 / 2 if self.processes > 1 else NEAR
                decided = _clear(self._ratios, bar, far) or decide(self._comparison, bar).outcome.answer
                known[threshold] = decided or "undecided"
        return known[threshold]

    def __str__(self) -> str:
        word = f"{_number(self.ratio)}x faster than" if self.ratio >= 1 else f"{_number(1 / self.ratio)}x slower than"
        low, high = (self.low, self.high) if self.ratio >= 1 else (1 / self.high, 1 / self.low)
        what = " to the first answer" if self.cold else ""
        line = f"{self.candidate} is {word} {self.baseline}{what} ({_number(low)} to {_number(high)})"
        if self.bar is not None:
            official = f" (official grading: {self.bar * OFFICIAL:.3g}x)" if _leniency() < 1 else ""
            line += f", bar {self.bar:g}x{official}: {self.verdict}"
            if self.verdict == "undecided":
                line += f", because {self._disturbance(self.bar)}"
        elif self.verdict == UNGRADED:
            line += f", no bar for this platform ({self.platform}): shown, not graded"
        if self.limit is not None:
            share = min(100.0, 100 * self.limit)
            digits = ".0f" if share >= 10 else ".1f" if share >= 0.1 else ".1g"
            line += f"; {share:{digits}} % of this machine's {_LIMITS[self.binds]}"
        return line

    def _disturbance(self, bar: float) -> str:
        if self.pairs < LEAD:
            calls = f"{max(self.seconds.values(), default=0):.2g} s for a call of the slower one"
            return f"there was time for {self.pairs} pairs only ({calls}). Use smaller inputs"
        if self.others > 0.2:
            share = f"{100 * self.others:.0f} %"
            return f"other programs had the core for {share} of the time. Close them and run the cell again"
        if self.put_aside > self.pairs / 2:
            share = f"{100 * self.put_aside / self.pairs:.0f} %"
            return f"the core ran slowly in {share} of the pairs, which shifts a ratio. Run the cell again later"
        if self.low <= bar * _leniency() <= self.high:
            return "the ratio is too close to the bar to tell. Make it a little faster, or run the cell again"
        return "the times did not settle. Run the cell again"

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        colour = {"pass": "#2a8a4a", "fail": "#d1414a"}.get(self.verdict if self.bar else "", "#777")
        rounds = self._ratios if len(self._ratios) > 1 else []
        picture = bar_svg(self.ratio, self.low, self.high, self.bar, colour, rounds, self.tiers)
        more = ""
        if self._roof is not None and self.operations and self.moved:
            seconds, roof = self.seconds["candidate"], self._roof
            possible, _ = roof.limit(self.moved, self.operations)
            limits = roof.bandwidth.median, roof.arithmetic.median, possible
            drawn = roofline_svg(self.operations, self.moved, seconds, *limits)
            title = "Picture: how near this is to the fastest that this machine can do"
            more = f"<details><summary>{title}</summary>{drawn}</details>"
        return {"text/plain": str(self), "text/html": f"<div>{html.escape(str(self))}<br>{picture}{more}</div>"}


_LIMITS = {
    "memory bandwidth": "memory bandwidth (the bytes that it moves in a second)",
    "arithmetic": "arithmetic rate (the operations that it does in a second)",
    "dispatch": "dispatch rate (the calls that it begins in a second)",
}


def speedup(
    candidate: Callable,
    baseline: Callable,
    *args: Any,
    at_least: float | Mapping[str, float] | None = None,
    cold: bool = False,
) -> Speedup:
    """Compare the values, then the times, of two functions called with `args`.

    candidate  the function that should be fast, jitted or not. A jitted one is timed as it is compiled, without its
               Python, on eight sets of numbers that are drawn, in turn. Any other is code, and could remember: each of
               its calls, and each of the baseline's, gets numbers that no call had before. They are floating-point
               numbers up to 6 % smaller than those of `args`, or where there are none that can be scaled new random
               keys, or else integers and booleans drawn from those in `args`. Zeros, order, symmetry and Python
               numbers stay as they are.
    baseline   the function that it is compared with, and that says what is right, in every pair, for every result.
    args       the arguments of both: arrays of any shape and dtype, Python numbers, and pytrees of them.
    at_least   the bar: how many times faster the candidate must be, a ratio of times. A dictionary gives the bar for
               each platform, `{"cpu": 5, "gpu": 20}`, and "default" that for all others; a platform that has none is
               "ungraded". Without a bar only the ratio is estimated. When nbgrader grades, 0.8 of the bar is asked for,
               so that what passed at home passes at school.
    cold       time first calls, and not later ones: each call is made in a new process, in which JAX is imported and
               its backend started, and the function, as code, and its arguments are there. From the call to the ready
               result: tracing, lowering, compiling and running. Nothing is compiled beforehand, and no cache of
               compiled programs is set up, in memory or on disk; what a function writes to disk itself, its next calls
               find. Takes three seconds, up to fifteen on a busy machine, and longer for what compiles for long.

    Returns a `Speedup`: `ratio` (baseline time over candidate time) and its 95 % interval `low` to `high`; `verdict`,
    "pass", "fail", "undecided" or "ungraded", at the bar; `seconds` of a call and `compile_seconds` of the first one,
    each by side. A slow candidate raises nothing. A ratio between half and twice the bar needs the word of a second
    process, on another core where there is one, and where the two disagree that of a third.

    Values agree as in `assert_allclose`, or if the candidate is not much further off than the baseline itself, which is
    run again in double precision. NaN agrees with NaN alone.

    Raises `CheckFailed` when the values disagree, when a side raises, does not end or cannot be sent to the measuring
    process, when the candidate is faster than this machine can move its results, and when it is code and nothing in
    `args` can be new from call to call; `NotBegun` when a side is still the stub of an exercise. Raises TypeError for
    what is not a function, ValueError for a bar that is not a positive number.

    Source: the rule is Wald's sequential test (https://doi.org/10.1214/aoms/1177731118); `autograder.measuring.verdict`
    has its error rates, and `benchmarks/` what they were measured to be.
    """
    for role, fn in (("candidate", candidate), ("baseline", baseline)):
        if not callable(fn):
            raise TypeError(f"speedup: the {role} must be a function, got {type(fn).__name__}")
    bar = _bar(at_least)

    comparison = Comparison(candidate, baseline, args, cold=cold)
    outcome, loaded, processes = decide(comparison, bar and bar * _leniency())
    ratios = ratios_of(outcome)
    low, ratio, high = interval(ratios)
    times = {"candidate": outcome.candidate, "baseline": outcome.baseline}
    answer = Speedup(
        comparison.names["candidate"],
        comparison.names["baseline"],
        bar,
        ratio,
        low,
        high,
        len(ratios),
        loaded.device,
        loaded.results,
        comparison.how,
        seconds={side: statistics.median(taken) / 1e9 for side, taken in times.items()},
        compile_seconds=loaded.first_call,
        others=statistics.fmean(outcome.others),
        put_aside=outcome.put_aside,
        moved=loaded.taken + loaded.returned,
        operations=comparison.operations(),
        platform=loaded.platform,
        cold=cold,
        processes=processes,
        _ratios=ratios,
        _comparison=comparison,
    )
    if bar is not None:
        answer.verdict = answer._answers[bar] = outcome.answer or "undecided"
    elif at_least is not None:
        answer.verdict = UNGRADED
    _compare_with_limit(answer, loaded.returned)
    return answer


class Decision(NamedTuple):
    """What processes said together: `outcome` has the answer, and the pairs of those `processes` that gave it."""

    outcome: Outcome
    loaded: Loaded
    processes: int


def decide(comparison: Comparison, bar: float | None, *, calibrate: bool = False) -> Decision:
    """Run the rule at `bar`, in one process or, where `verdict.settle` asks for it, in up to three.

    A process whose answer did not stand is ended, and if there is no answer, all but the last one are: whoever asks
    again meets other processes then. One that dies is started afresh, once.
    """
    asked: list[tuple[bench.Bench, Outcome, Loaded]] = []
    answer, died = None, False
    while answer is None:
        try:
            process = bench.current(len(asked))
            confirms = [outcome.answer is not None for _, outcome, _ in asked] == [True]
            asked.append((process, *_contest(comparison, bar, process, calibrate, confirms)))
        except bench.BenchTimeout:
            candidate, baseline = comparison.names["candidate"], comparison.names["baseline"]
            fail(
                f"{candidate} and {baseline} did not finish within {_limit(comparison):.0f} seconds",
                why="a loop that never ends, a compilation of an unrolled loop, or inputs that are too large",
                attempt="call each of the two once, on smaller inputs, and look at the time",
            )
        except bench.BenchDied:
            if died:
                fail(
                    "the measuring process ended twice without an answer",
                    why="it ran out of memory, or one of the two functions ended it",
                    attempt="use smaller inputs; restart the kernel if other cells fail too",
                )
            died = True
            continue
        outcome = asked[-1][1]
        if bar is None:
            break
        if comparison.cold:  # each of its calls had a process of its own
            answer = outcome.answer or "undecided"
        elif outcome.answer is None and len(outcome.others) < LEAD:  # no process would be quicker
            answer = "undecided"
        else:
            answer = settle([(one.answer, interval(ratios_of(one))[1]) for _, one, _ in asked], bar)

    agree = [found for found in asked if found[1].answer == answer]
    kept = agree or asked[-1:]
    for found in asked:
        if found not in kept:
            bench.dismiss(found[0])
    outcomes = [outcome for _, outcome, _ in agree or asked]
    return Decision(_pooled(outcomes), kept[0][2], len(outcomes))


def ratios_of(outcome: Outcome) -> list[float]:
    """The ratio of the times in each pair."""
    return [slow / fast for slow, fast in zip(outcome.baseline, outcome.candidate, strict=True)]


def _pooled(outcomes: list[Outcome]) -> Outcome:
    """Outcomes as one: the answer that all have, or none, and all their pairs."""
    answers = {outcome.answer for outcome in outcomes}
    return Outcome(
        answer=answers.pop() if len(answers) == 1 else None,
        baseline=[time for outcome in outcomes for time in outcome.baseline],
        candidate=[time for outcome in outcomes for time in outcome.candidate],
        others=[share for outcome in outcomes for share in outcome.others],
        seconds=sum(outcome.seconds for outcome in outcomes),
        put_aside=sum(outcome.put_aside for outcome in outcomes),
    )


def _limit(comparison: Comparison) -> float:
    return COLD_LIMIT if comparison.cold else LIMIT


def _contest(
    comparison: Comparison, bar: float | None, process: bench.Bench, calibrate: bool, confirms: bool
) -> tuple[Outcome, Loaded]:
    loaded = comparison.loaded.get(process) or deliver(comparison, process)
    budget, known = COLD_BUDGET if comparison.cold else BUDGET, _full_speed(process.core)
    request = Contest(comparison.load.job, bar, budget, calibrate, confirms, known)
    reply = process.ask(request, limit=_limit(comparison))
    if isinstance(reply, Forgotten | NeedsReference):
        if isinstance(reply, NeedsReference):
            comparison.add_reference()
        loaded = deliver(comparison, process)
        reply = process.ask(request, limit=_limit(comparison))
    outcome = _accept(comparison, reply, Outcome)
    _note_speed(process.core, outcome.full_speed)
    return outcome, loaded


# core -> nanoseconds of the yardstick at its best, and when it was last so
_speeds: dict[int, tuple[float, float]] = {}


def _full_speed(core: int) -> float:
    """What the yardstick takes on this core when nothing slows it down; 0 where nobody knows.

    A new process knows no better than what it finds, which may be a spell of many seconds. So it is told.
    """
    best, when = _speeds.get(core, (0.0, 0.0))
    return best if time.monotonic() - when < FORGET else 0.0


def _note_speed(core: int, taken: float) -> None:
    best = _full_speed(core) or taken
    if taken and taken <= SLOW * best:
        _speeds[core] = min(best, taken), time.monotonic()


def deliver(comparison: Comparison, process: bench.Bench) -> Loaded:
    """Have both functions loaded and their results compared. Raises `CheckFailed` if the two do not agree."""
    reply = process.ask(comparison.load, limit=_limit(comparison))
    if isinstance(reply, NeedsReference):
        comparison.add_reference()
        reply = process.ask(comparison.load, limit=_limit(comparison))
    loaded = _accept(comparison, reply, Loaded)
    comparison.loaded[process] = loaded
    return loaded


def _accept(comparison: Comparison, reply: Reply, kind: type[T]) -> T:
    """The reply, of the kind that was hoped for. Raises `CheckFailed` if a side raised, or if the results disagree."""
    candidate, baseline = comparison.names["candidate"], comparison.names["baseline"]
    match reply:
        case SideRaised(kind=NotBegun.__name__):
            raise NotBegun(reply.text)
        case SideRaised():
            fail(
                f"{comparison.names[reply.side]} raised {reply.kind} when it was measured",
                evidence=reply.text,
                why="it is called many times, each time with new values of the same shapes",
                attempt="call it twice in a row with different values",
            )
        case OtherStructure():
            fail(
                f"{candidate} returns something else than {baseline}: {reply.what}",
                why="the fast version must return the same structure, shapes and kinds of numbers",
                attempt=f"compare the two: assert_allclose({candidate}(...), {baseline}(...))",
            )
        case OtherValues():
            _other_values(candidate, baseline, reply)
        case NothingNew():
            fail(
                f"{candidate} cannot be timed on these arguments",
                evidence="it is not jitted, and nothing in them can be new from call to call",
                why="code could answer a call that it knows from memory, so each timed call gets new numbers; "
                "plain Python numbers, zeros, and integers that are in order stay as they are",
                attempt=f"jit {candidate}: what is compiled has no memory",
            )
    return expect(reply, kind)


def _other_values(candidate: str, baseline: str, found: OtherValues) -> NoReturn:
    where = f"result {found.result}, " if found.result else ""
    worst = f"worst at {where}index {found.index}: {found.got}, expected {found.want} ± {found.allowed}"
    count = f"in {found.wrong} of {found.of} values"
    if found.on == "given":
        fail(
            f"{candidate} and {baseline} disagree {count}, so their speed was not compared",
            evidence=worst,
            why="the fast version computes something else; rounding was allowed for, ten times the baseline's own",
            attempt=f"compare the two on small inputs: assert_allclose({candidate}(...), {baseline}(...))",
        )
    if found.repeats:
        fail(
            f"{candidate} returns the same for different arguments, and {baseline} does not,"
            " so their speed was not compared",
            evidence=f"they agree on the arguments as given, and disagree {count} on new ones\n{worst}",
            why="a result was kept from an earlier call, or is a constant; each timed call gets new numbers",
            attempt="compute the results from the arguments in each call",
        )
    fail(
        f"{candidate} and {baseline} agree on the arguments as given, but disagree {count} on others,"
        " so their speed was not compared",
        evidence=worst,
        why="each timed call gets new numbers of the same kind: an answer that was kept or built in does not fit them,"
        " and one that comes after the call has returned comes too late",
        attempt=f"compare the two on other numbers: assert_allclose({candidate}(...), {baseline}(...))",
    )


def _compare_with_limit(answer: Speedup, returned: int) -> None:
    roof = roofline(answer.moved, seconds=0.08)
    seconds = answer.seconds["candidate"]
    answer._roof = roof
    least, answer.binds = roof.limit(answer.moved, answer.operations)
    answer.limit = least / seconds
    moving = returned / roof.bandwidth.high
    if answer.how["candidate"] != "compiled artefact" and seconds * IMPOSSIBLE < moving:
        fail(
            f"{answer.candidate} is faster than this machine can write its results",
            evidence=f"{seconds * 1e6:.3g} µs for a call that returns {returned} bytes; "
            f"{moving * 1e6:.3g} µs is the limit at {roof.bandwidth.high / 1e9:.3g} GB/s",
            why="the results are not written in the call: they were ready before it, are views, or come later",
            attempt="compute the results from the arguments in each call, and return arrays of their own",
        )


def _clear(ratios: list[float], bar: float, far: float) -> str | None:
    """The rule's answer on pairs already timed, if every one of them is off the bar by a factor of `far` or more."""
    rule = Verdict(bar)
    for ratio in ratios:
        if 1 / far < ratio / bar < far:
            return None
        rule.add(ratio)
    return rule.answer


def _bar(at_least: float | Mapping[str, float] | None) -> float | None:
    """The bar on this platform; None where there is none."""
    bars = at_least if isinstance(at_least, Mapping) else {"default": at_least}
    for bar in bars.values():
        if bar is not None and not (is_number(bar) and bar > 0):
            raise ValueError(f"speedup: at_least must be a positive number, got {bar!r}")
    bar = bars.get(jax.default_backend(), bars.get("default"))
    return None if bar is None else float(bar)


def _leniency() -> float:
    return OFFICIAL if os.environ.get("NBGRADER_EXECUTION") == "autograde" else 1.0


def _number(ratio: float) -> str:
    return f"{ratio:.3g}" if ratio < 1000 else f"{ratio:.0f}"


bench.warm_up_after_cell()
