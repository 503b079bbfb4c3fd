"""Points for a measured value: the last expression of a graded cell with several tiers."""

import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from autograder.failure import fail, passed
from autograder.wording import UNGRADED, is_number

Tiers = Mapping[float, float]


def partial_credit(value: Any, tiers: Tiers | Mapping[str, Tiers]) -> float:
    """The points of the highest tier that `value` reaches: the last expression of a graded cell.

    value  what `speedup` returned, or a finite real number from 0 up. A speedup is shown first: line and picture.
    tiers  a dict of threshold and points, `{2: 1, 5: 2, 10: 4}`: all positive, both rising. The thresholds are in the
           unit of `value`; for a speedup that is the ratio of the times. A dict of such dicts has the tiers of each
           platform, `{"cpu": {2: 1, 5: 2}, "gpu": {10: 1, 20: 2}}`, and "default" those of all others.

    Where a speedup's platform has no bar or no tiers, its ratio is shown and earns all points. The values were right,
    and what the text asks of the program's structure is asserted before; nbgrader's maximum is the same on every
    machine, so less would be a price for having another one than the author.

    Returns the points as a finite Python float and as nothing else: nbgrader gives *full* points, without a word, for
    NaN, a negative number, a NumPy float64 or an array. A tier that the measurement could not decide is named in the
    line that is printed, so that noise never costs points in silence.

    Raises `CheckFailed` when no tier is reached, and for a `value` that is no such number (NaN, an array, True). Raises
    ValueError for tiers that make no sense, and for those of platforms that do not end at the same points.

    Source: what nbgrader makes of a cell's output is in its `nbgrader.utils.determine_grade`.
    """
    rising, graded = _tiers_here(tiers, getattr(value, "platform", ""))
    total = rising[-1][1]
    graded = graded and getattr(value, "verdict", "") != UNGRADED
    _show(value, dict(rising) if graded else {})
    value, unit, verdict_at = _read(value)
    if not graded:
        passed(
            f"{value}{unit} is shown, not graded, as there is no bar for this platform: {total:g} of {total:g} points"
        )
        return total

    verdicts = [verdict_at(threshold) for threshold, _ in rising]
    reached = max((i for i, verdict in enumerate(verdicts) if verdict == "pass"), default=None)
    above = 0 if reached is None else reached + 1
    undecided = [rising[i][0] for i in range(above, len(rising)) if verdicts[i] == "undecided"]
    if reached is None:
        _no_tier(value, unit, rising, undecided)

    points = rising[reached][1]
    line = f"{value}{unit} earns {points:g} of {total:g} points"
    if undecided:
        line += f"; {_listed(undecided, unit)} undecided, not missed: the machine is busy, run the cell again"
    elif above < len(rising):
        line += f"; {rising[above][0]:g}{unit} would earn {rising[above][1]:g}"
    passed(line)
    return float(points)


def _show(value: Any, tiers: dict[float, float]) -> None:
    """A speedup's own line and picture, where nbgrader does not look: it reads results, errors and standard error."""
    if not hasattr(value, "_repr_mimebundle_"):
        return
    if hasattr(value, "tiers"):
        value.tiers = tiers
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython():
        sys.modules["IPython"].display.display(value)
    else:
        print(value)


def _tiers_here(tiers: Any, platform: str) -> tuple[list[tuple[float, float]], bool]:
    """The tiers of this platform, and True; those of another one, whose points are the same, and False."""
    if not isinstance(tiers, Mapping) or not any(isinstance(inner, Mapping) for inner in tiers.values()):
        return _checked_tiers(tiers), True
    by_platform = {name: _checked_tiers(inner) for name, inner in tiers.items()}
    if len({rising[-1][1] for rising in by_platform.values()}) > 1:
        raise ValueError("partial_credit: the tiers of all platforms must end at the same points")
    here = by_platform.get(platform, by_platform.get("default"))
    return here or next(iter(by_platform.values())), here is not None


def _checked_tiers(tiers: Any) -> list[tuple[float, float]]:
    """The tiers as pairs, lowest first. A mistake here is the author's, hence plain ValueErrors."""
    if not isinstance(tiers, Mapping) or not tiers:
        raise ValueError("partial_credit: tiers must be a dict of threshold and points, e.g. {2: 1, 5: 2}")
    pairs = list(tiers.items())
    for number in (n for pair in pairs for n in pair):
        if not is_number(number) or number <= 0:
            raise ValueError(f"partial_credit: {number!r} is no positive number, as thresholds and points are")
    for (low, few), (high, many) in zip(pairs, pairs[1:], strict=False):
        if high <= low or many <= few:
            raise ValueError(f"partial_credit: thresholds and points must rise, got {dict(tiers)}")
    return [(float(threshold), float(points)) for threshold, points in pairs]


def _read(value: Any) -> tuple[str, str, Callable[[float], str]]:
    """The value as text, its unit, and a function from a threshold to "pass", "fail" or "undecided"."""
    ratio = getattr(value, "ratio", value)
    if not is_number(ratio) or ratio < 0:
        fail(
            f"No points for {_described(ratio)}: expected a speedup or a plain finite number from 0 up.",
            why="the value is an array, a string or no number at all, or the measurement divided by zero.",
            attempt="pass what speedup(...) returned, or float(...) of one finite number.",
        )
    if ratio is value:
        return f"{float(value):.4g}", "", lambda threshold: "pass" if value >= threshold else "fail"
    at_least = getattr(value, "at_least", None)
    if not callable(at_least):

        def at_least(threshold: float) -> str:
            return "pass" if ratio >= threshold else getattr(value, "verdict", "fail")

    return f"{float(ratio):.3g}", "x", at_least


def _no_tier(value: str, unit: str, tiers: list[tuple[float, float]], undecided: list[float]) -> NoReturn:
    if undecided:
        fail(
            f"{value}{unit} earns no points yet: {_listed(undecided, unit)} undecided, not missed.",
            why="the machine was too busy to tell, and the measurements fall on both sides of the threshold.",
            attempt="close what else is running, and run the cell again.",
        )
    if unit:
        why = "the work is still done step by step in Python, compiled anew in every call, or more than it need be."
        attempt = "look before you time it again: trace_log counts traces and XLA modules, show_jaxpr operations."
    else:
        why = "the value reaches no tier yet."
        attempt = "open the next hint of this task."
    fail(
        f"{value}{unit} is below {tiers[0][0]:g}{unit}, the first tier: no points.",
        evidence="tiers: " + ", ".join(f"{threshold:g}{unit} earns {points:g}" for threshold, points in tiers),
        why=why,
        attempt=attempt,
    )


def _described(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"


def _listed(thresholds: list[float], unit: str) -> str:
    """ "5x is", "5x and 10x are"."""
    texts = [f"{threshold:g}{unit}" for threshold in thresholds]
    return f"{' and '.join(texts)} {'is' if len(texts) == 1 else 'are'}"
