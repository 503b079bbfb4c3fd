"""partial_credit: a plain finite Python float, or a refusal."""

import decimal
import fractions

import jax.numpy as jnp
import numpy as np
import pytest

from autograder import partial_credit
from autograder.failure import CheckFailed

TIERS = {2: 1, 5: 2, 10: 4}


class Measured:
    """Stands for a Speedup: the thresholds in `open_` could not be decided."""

    def __init__(self, ratio, open_=()):
        self.ratio, self.open_ = ratio, open_

    verdict = "fail"

    def at_least(self, threshold):
        return "undecided" if threshold in self.open_ else "pass" if self.ratio >= threshold else "fail"


def message(value, tiers=TIERS):
    with pytest.raises(CheckFailed) as caught:
        partial_credit(value, tiers)
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "points", "line"),
    [
        (Measured(4.8), 1.0, "✓ 4.8x earns 1 of 4 points; 5x would earn 2"),
        (Measured(5.0), 2.0, "✓ 5x earns 2 of 4 points; 10x would earn 4"),
        (Measured(123.4), 4.0, "✓ 123x earns 4 of 4 points"),
        (3, 1.0, "✓ 3 earns 1 of 4 points; 5 would earn 2"),
        (np.float32(6.5), 2.0, "✓ 6.5 earns 2 of 4 points; 10 would earn 4"),
        (fractions.Fraction(21, 2), 4.0, "✓ 10.5 earns 4 of 4 points"),
    ],
)
def test_the_highest_tier_counts(value, points, line, capfd):
    earned = partial_credit(value, TIERS)
    assert earned == points and type(earned) is float
    assert capfd.readouterr() == (f"{line}\n", "")


def test_an_undecided_tier_is_said_aloud(capfd):
    assert partial_credit(Measured(9.8, {10}), TIERS) == 2.0
    assert capfd.readouterr().out == (
        "✓ 9.8x earns 2 of 4 points; 10x is undecided, not missed: the machine is busy, run the cell again\n"
    )


def test_an_undecided_first_tier_is_no_verdict():
    assert message(Measured(2.1, {2})) == (
        "✗ 2.1x earns no points yet: 2x is undecided, not missed.\n"
        "  Why this usually happens: the machine was too busy to tell, and the measurements fall on both sides of "
        "the threshold.\n"
        "  Try: close what else is running, and run the cell again."
    )
    assert "2x and 5x are undecided" in message(Measured(4.9, {2, 5}))


def test_no_tier_reached_shows_the_tiers():
    assert message(Measured(1.3)) == (
        "✗ 1.3x is below 2x, the first tier: no points.\n"
        "  tiers: 2x earns 1, 5x earns 2, 10x earns 4\n"
        "  Why this usually happens: the work is still done step by step in Python, compiled anew in every call, or"
        " more than it need be.\n"
        "  Try: look before you time it again: trace_log counts traces and XLA modules, show_jaxpr operations."
    )
    assert message(0).startswith("✗ 0 is below 2, the first tier: no points.\n")


def test_an_object_with_a_ratio_and_a_verdict_is_enough():
    class Plain:
        ratio, verdict = 3.0, "undecided"

    assert partial_credit(Plain(), {2: 1}) == 1.0
    assert "4x is undecided" in message(Plain(), {4: 1})


@pytest.mark.parametrize(
    ("value", "called"),
    [
        (float("nan"), "float nan"),
        (float("inf"), "float inf"),
        (True, "bool True"),
        (-1, "int -1"),
        (1j, "complex 1j"),
        ("10", "str '10'"),
        (None, "NoneType None"),
        (np.ones(1), "ndarray array([1.])"),
        (jnp.float32(10), "ArrayImpl Array(10., dtype=float32)"),
        (decimal.Decimal(10), "Decimal Decimal('10')"),
        (Measured(float("nan")), "float nan"),
        (Measured(jnp.float32(10)), "ArrayImpl Array(10., dtype=float32)"),
        ([10], "list [10]"),
        ("9" * 38, f"str '{'9' * 38}'"),
        ("9" * 39, f"str '{'9' * 36}..."),
    ],
)
def test_what_nbgrader_would_give_full_points_is_refused(value, called):
    assert message(value) == (
        f"✗ No points for {called}: expected a speedup or a plain finite number from 0 up.\n"
        "  Why this usually happens: the value is an array, a string or no number at all, or the measurement "
        "divided by zero.\n"
        "  Try: pass what speedup(...) returned, or float(...) of one finite number."
    )


@pytest.mark.parametrize(
    "tiers", [{}, None, [2, 5], {0: 1}, {2: -1}, {2: 0}, {2: True}, {5: 2, 2: 1}, {2: 2, 5: 1}, {2: float("nan")}]
)
def test_tiers_that_make_no_sense_are_the_authors_mistake(tiers):
    with pytest.raises(ValueError, match="^partial_credit: "):
        partial_credit(3, tiers)


# --- by platform ------------------------------------------------------------------------------------------------------

BY_PLATFORM = {"cpu": {2: 1, 5: 2}, "gpu": {10: 1, 20: 2}}


class OnPlatform(Measured):
    def __init__(self, platform, ratio, verdict="fail"):
        super().__init__(ratio)
        self.platform, self.verdict = platform, verdict


@pytest.mark.parametrize(
    ("value", "tiers", "points"),
    [
        (OnPlatform("cpu", 12.0), BY_PLATFORM, 2.0),
        (OnPlatform("gpu", 12.0), BY_PLATFORM, 1.0),
        (OnPlatform("metal", 12.0), {**BY_PLATFORM, "default": {12.5: 2}, "tpu": {1: 2}}, None),
        (OnPlatform("metal", 12.0), {**BY_PLATFORM, "default": {11: 1, 13: 2}}, 1.0),
    ],
)
def test_tiers_may_depend_on_the_platform(value, tiers, points):
    if points is None:
        assert "12x is below 12.5x" in message(value, tiers)
    else:
        assert partial_credit(value, tiers) == points


@pytest.mark.parametrize(
    ("value", "tiers"),
    [(OnPlatform("metal", 0.1), BY_PLATFORM), (OnPlatform("cpu", 0.1, "ungraded"), {2: 1, 5: 2})],
)
def test_without_a_bar_for_the_platform_a_time_costs_no_points(value, tiers, capfd):
    earned = partial_credit(value, tiers)
    assert (earned, type(earned)) == (2.0, float)
    line = "✓ 0.1x is shown, not graded, as there is no bar for this platform: 2 of 2 points\n"
    assert capfd.readouterr() == (line, "")


def test_what_is_no_number_earns_nothing_there_either():
    assert "No points for float nan" in message(OnPlatform("metal", float("nan")), BY_PLATFORM)


@pytest.mark.parametrize(
    "tiers", [{"cpu": {2: 1}, "gpu": {2: 2}}, {"cpu": {2: 1}, "gpu": 3}, {"cpu": {}, "gpu": {2: 1}}]
)
def test_tiers_by_platform_that_make_no_sense_are_the_authors_mistake(tiers):
    with pytest.raises(ValueError, match="^partial_credit: "):
        partial_credit(OnPlatform("cpu", 3.0), tiers)


class Shown:
    """As much of a speedup as partial_credit asks for."""

    ratio = 5.0

    def at_least(self, threshold):
        return "pass" if self.ratio >= threshold else "fail"

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": str(self)}

    def __str__(self):
        return "fast is 5x faster than slow (4.9 to 5.1)"


def test_a_speedup_is_shown_before_its_points(capsys):
    assert partial_credit(Shown(), {2: 1, 5: 3}) == 3.0
    assert capsys.readouterr().out == "fast is 5x faster than slow (4.9 to 5.1)\n✓ 5x earns 3 of 3 points\n"


def test_a_speedup_knows_its_tiers_when_it_is_shown(capsys):
    class Drawn(Shown):
        tiers: dict = {}  # noqa: RUF012  (as a dataclass has it before it is told)

        def __str__(self):
            return f"tiers {self.tiers}"

    partial_credit(Drawn(), {2: 1, 5: 3})
    assert capsys.readouterr().out.startswith("tiers {2.0: 1.0, 5.0: 3.0}\n")
    plain = Shown()
    partial_credit(plain, {2: 1, 5: 3})
    assert not hasattr(plain, "tiers"), "what cannot show them is not given any"
