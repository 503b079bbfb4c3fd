"""Every task that is graded by the clock has its margin measured, and the margin is wide."""

from functools import cache

import pytest
import speed_tasks
from _table import read
from _timed_text import timed_text
from _unit import unit_as_built, without_hidden_tests

from autograder.measuring.speedup import COLD_LIMIT

pytestmark = pytest.mark.once  # the same on every version

WIDE, NARROW = 1.6, 0.6
ROWS = {tuple(row[field] for field in speed_tasks.IDENTITY): row for row in read(speed_tasks.TABLE)}
TIERS = speed_tasks.tiers(list(ROWS.values()))
KNOWN = sorted({(row["unit"], row["check"], row["answer"]) for row in ROWS.values()})


@cache
def answers() -> dict[tuple[str, str, str], speed_tasks.Answer]:
    """Every answer to a speed task, by its unit, check and name. To read them takes seconds: no module needs that."""
    return {answer[:3]: answer for answer in speed_tasks.answers()}


def measured(answer: speed_tasks.Answer) -> list[dict]:
    """The rows of an answer as its text is today: each load, on the oldest and the newest JAX."""
    found = []
    for load in speed_tasks.MEASURED_UNDER:
        for version in ("0.10", "0.12"):
            rows = [
                row
                for row in ROWS.values()
                if (row["unit"], row["check"], row["answer"], row["load"]) == (*answer[:3], load)
                and row["jax"].startswith(version)
                and row["text"] == answer.text
            ]
            assert rows, (
                f"{answer.check} ({answer.name}) has not been measured as it is today: {load}, JAX {version}. "
                f"Run python benchmarks/speed_tasks.py {answer.unit[:2]}, on both versions, and commit the table."
            )
            found += rows
    return found


def test_the_table_has_every_answer_and_no_other():
    assert sorted(answers()) == KNOWN


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: f"{known[1]}, {known[2]}")
def test_a_solution_is_far_above_its_bar_and_a_wrong_answer_far_below(known):
    answer = answers()[known]
    for row in measured(answer):
        if answer.name == "solution":
            assert float(row["low"]) >= WIDE * max(TIERS[answer.unit, answer.check]), row
        else:
            assert row["refused"] or float(row["high"]) <= NARROW * min(TIERS[answer.unit, answer.check]), row


@cache
def checks_of_first_calls() -> set[str]:
    units = {row["unit"] for row in ROWS.values()}
    checks = (item for unit in units for item in unit_as_built(unit).checks.items())
    return {name for name, cell in checks if "cold=True" in cell.source}


def of_first_calls(row: dict) -> bool:
    return row["check"] in checks_of_first_calls()


def test_a_check_cell_answered_within_a_second_once_it_was_warm():
    limit = {"quiet": 1, "two hogs": 1.5}  # hogs take half of a core away
    warm = [row for row in ROWS.values() if not of_first_calls(row)]
    solved = [row for row in warm if row["answer"] == "solution"]
    assert [row for row in solved if not float(row["again_s"]) < limit[row["load"]]] == []
    # A wrong answer that compiles in each call takes as long as a few compilations.
    assert [row for row in warm if not float(row["again_s"]) < 4] == []


def test_a_check_cell_about_first_calls_is_over_before_its_contest_would_be_given_up():
    cold = [row for row in ROWS.values() if of_first_calls(row)]
    solved = [row for row in cold if row["answer"] == "solution"]
    assert solved and [row for row in solved if not float(row["again_s"]) < COLD_LIMIT] == []


def test_every_speed_task_has_a_wrong_answer():
    by_check: dict[str, set] = {}
    for answer in answers().values():
        by_check.setdefault(answer.check, set()).add(answer.name)
    assert by_check
    assert [check for check, names in by_check.items() if len(names) < 2] == []


CELLS = [
    "import jax\nimport jax.numpy as jnp\n\njax.config.update('jax_enable_x64', True)",
    "N = 100\n\ndef slow(x):\n    return [x + 1 for _ in range(N)]",
    "@jax.jit\ndef fast(x):\n    return x + 1",
    "def other_task(x):\n    return 2 * x\n\nprint(other_task(1))",
]
CHECK = "speedup(fast, slow, 1.0, at_least=5)"
PROSE = [
    [*CELLS[:1], CELLS[1].replace("N = 100", "N = 100  # steps, '#' is no comment here"), *CELLS[2:]],
    [*CELLS[:2], '@jax.jit\ndef fast(x):\n    """One step.\n\n    x: a number.\n    """\n\n    return x + 1', CELLS[3]],
    [*CELLS[:3], "def other_task(x):\n    return 3 * x\n\nprint(other_task(2))"],
    ["import numpy as np\n" + CELLS[0], *CELLS[1:]],
]
CODE = [
    [*CELLS[:1], CELLS[1].replace("100", "200"), *CELLS[2:]],
    [*CELLS[:2], CELLS[2].replace("@jax.jit\n", ""), CELLS[3]],
    [CELLS[0].replace("True", "False"), *CELLS[1:]],
    [CELLS[0].replace("import jax\n", "import other as jax\n"), *CELLS[1:]],
    [*CELLS, "def fast(x):\n    return x"],
]


@pytest.mark.parametrize("cells", PROSE)
def test_prose_and_other_tasks_ask_for_no_new_measurement(cells):
    assert timed_text(CHECK, cells) == timed_text(CHECK, CELLS)


def test_hidden_tests_ask_for_no_new_measurement_unless_the_timing_uses_their_names():
    visible, hidden, timed = (
        "assert fast(1) == 1\n",
        "x = 2\nassert fast(x) == 2\n",
        "speedup(fast, slow, 3, at_least=5)",
    )
    check = f"{visible}### BEGIN HIDDEN TESTS\n{hidden}### END HIDDEN TESTS\n{timed}"
    assert without_hidden_tests(check) == visible + timed
    used = check.replace("slow, 3", "slow, x")
    assert without_hidden_tests(used) == used


@pytest.mark.parametrize("cells", CODE)
def test_what_is_timed_asks_for_a_new_measurement(cells):
    assert timed_text(CHECK, cells) != timed_text(CHECK, CELLS)
    assert timed_text(CHECK.replace("5", "6"), CELLS) != timed_text(CHECK, CELLS)
