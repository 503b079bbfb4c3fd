"""Every check from all its sides: the untouched exercise earns nothing, the solution and each right answer everything,
and each named wrong answer fails for its own reason.

One kernel serves a unit: it runs the exercise as it is released, then the solution, then the right answers and the
wrong ones, each in place of the one before, as a learner's kernel does.

A right answer goes through the checks of its own task alone. Checks of other tasks that use it are run once for the
first right answers to all tasks, in place together, once for the second ones, and so on.

A wrong answer marked `hidden=1` proves that the first hidden region of the checks that it fails is needed: it passes
all that is visible in its task, and fails in that region. Two lists hold what is still missing; they may only get
shorter.

A wrong answer marked `alone=true` costs the checks that it fails and no other of its unit. The others are graded too,
as far as they reach what it changes: the rest could not tell it from the solution.
"""

import contextlib
import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from _timed_text import timed_text
from _unit import VISIBLE, Unit, failed_in, is_answer, unit_as_built
from conftest import COURSE, UNITS, assert_only_listed, right_answers, wrong_answers
from nbformat import NotebookNode

from autograder.doors.graded_notebook import Score, is_graded, not_begun, read_notebook, score
from autograder.doors.kernel_runner import Runner

pytestmark = pytest.mark.notebooks

UNPROVEN = "unproven_regions.txt"
SHORT = "tasks_short_of_right_answers.txt"
STYLES = 3  # right answers that every task has, beside the solution

unit_as_built = cache(unit_as_built)


class Graded(NamedTuple):
    """What one check said to one answer."""

    answer: NotebookNode
    check: str
    score: Score
    region: int | None  # where it failed, see `failed_in`

    def __str__(self) -> str:
        where = f"hidden region {self.region}" if self.region else "the visible part"
        return (
            f"{self.answer.metadata['name']!r} in {self.check}: {self.score.earned:g} points, last in {where}\n"
            f"{self.score.message}"
        )


class Answered(NamedTuple):
    """What the checks of one unit said."""

    untouched: dict[str, NotebookNode]  # each graded cell as it was executed
    solved: dict[str, Score]
    right: list[Graded]
    wrong: list[Graded]  # to the checks that the answer is to fail
    beside: list[Graded]  # what the other checks of the task said to an answer that fails in a hidden region
    alone: list[Graded]  # what all other checks of the unit said that reach what an answer marked `alone` changes


def reached(unit: Unit, answer: NotebookNode) -> set[str]:
    """The checks whose text, with all that it reaches, is another one when `answer` stands in place of the solution.

    A check reaches what stands above it in the notebook.
    """
    task, found = unit.answers[answer.metadata["task"]].source, set()
    for name, check in unit.checks.items():
        solved = [cell.source for cell in unit.cells[: unit.cells.index(check)] if not is_graded(cell)]
        changed = [answer.source if source == task else source for source in solved]
        if timed_text(check.source, solved) != timed_text(check.source, changed):
            found.add(name)
    return found


def rounds(unit: str) -> Iterator[dict[str, NotebookNode]]:
    """Task -> a right answer to it: first the first one of every task, then the second ones, as far as they go."""
    answers: dict[str, list[NotebookNode]] = {}
    for answer in right_answers(unit):
        answers.setdefault(answer.metadata["task"], []).append(answer)
    for group in itertools.zip_longest(*answers.values()):
        yield {answer.metadata["task"]: answer for answer in group if answer}


def together(answers: dict[str, NotebookNode]) -> NotebookNode:
    """What a check of other tasks was handed, under one name."""
    return NotebookNode(metadata={"name": " and ".join(answer.metadata["name"] for answer in answers.values())})


KEEPS_PROGRAMS = """
import jax
from jax.experimental.compilation_cache import compilation_cache
jax.config.update("jax_compilation_cache_dir", {folder!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
compilation_cache.reset_cache()
"""
# LLVM leaves its optimisations out; the optimised HLO, which checks read, stays the same, and so do the speeds, which
# are measured in another process.
COMPILES_QUICKLY = "jax.config.update('jax_disable_most_optimizations', True)"
OF_LAST_DIGITS = "10_when_jit_changes"  # they are LLVM's
OF_THE_CACHE = "12_ahead_of_time"  # looks into the folder of a cache, also from a process that has JAX's defaults


def answer_every_way(name: str, *, all_answers: bool, compiled: Path) -> Answered:
    """Run the stubs and the solution of a unit through its checks, and, if asked, the answers that are kept here.

    They share most of their programs, so compiled programs are kept in the folder `compiled`. What a check counts stays
    the same: for JAX a program that is read from there has been compiled.
    """
    exercise = read_notebook(COURSE / "exercises" / name / f"{name[3:]}.ipynb")
    unit = unit_as_built(name)
    first = next(i for i, cell in enumerate(unit.cells) if is_answer(cell))
    with Runner(exercise, COURSE / "solutions" / name) as runner:

        def grade(answer: NotebookNode, check: str) -> Graded:
            cell = runner.run_new(unit.checks[check].source, unit.checks[check].metadata)
            return Graded(answer, check, score(cell), failed_in(cell))

        if name != OF_THE_CACHE:
            runner.run_new(KEEPS_PROGRAMS.format(folder=str(compiled)))
        runner.run_new(unit.names_apart)
        runner.run_all()
        untouched = {cell.metadata.nbgrader.grade_id: cell for cell in exercise.cells if is_graded(cell)}

        for cell in unit.cells[first:]:  # what stands above has been run: a setup is made once
            if not is_graded(cell):
                runner.run_new(cell.source)
        solved = {check: score(runner.run_new(cell.source, cell.metadata)) for check, cell in unit.checks.items()}

        right, wrong, beside, alone = [], [], [], []
        for answer in right_answers(name) if all_answers else []:
            task = answer.metadata["task"]
            runner.run_new(answer.source)
            right += [grade(answer, check) for check in unit.in_order(task) if check in unit.near(task)]
            runner.run_new(unit.answers[task].source)
        for answers in rounds(name) if all_answers else []:
            for task, solution in unit.answers.items():  # all of them: what is compiled of one may hold another
                runner.run_new(answers.get(task, solution).source)
            # A clock takes seconds, and is asked for the answers to its own task.
            fed = {check for task in answers for check in unit.fed_by(task) if check not in unit.near(task)}
            right += [grade(together(answers), check) for check in sorted(fed) if not unit.asks_the_clock(check)]
        for answer in unit.answers.values():
            runner.run_new(answer.source)
        if all_answers and name not in (OF_LAST_DIGITS, OF_THE_CACHE):
            runner.run_new(COMPILES_QUICKLY)
        for answer in wrong_answers(name) if all_answers else []:
            runner.run_new(answer.source)
            wrong += [grade(answer, check) for check in answer.metadata["fails"]]
            if "hidden" in answer.metadata:
                others = (c for c in unit.in_order(answer.metadata["task"]) if c not in answer.metadata["fails"])
                beside += [grade(answer, check) for check in others if not unit.asks_the_clock(check)]
            if "alone" in answer.metadata:
                others = reached(unit, answer).difference(answer.metadata["fails"])
                alone += [grade(answer, check) for check in sorted(others)]
            runner.run_new(unit.answers[answer.metadata["task"]].source)
    return Answered(untouched, solved, right, wrong, beside, alone)


MOST_KEPT = 2**31  # bytes


@pytest.fixture(scope="session")
def compiled(request, tmp_path_factory):
    """A folder for compiled programs, which a later run finds again: most of a unit's time is compiling."""
    cache = getattr(request.config, "cache", None)
    if cache is None:  # -p no:cacheprovider
        return tmp_path_factory.mktemp("compiled")
    folder = cache.mkdir("compiled")
    with contextlib.suppress(FileNotFoundError):  # another process is at it, too
        if sum(file.stat().st_size for file in folder.iterdir()) > MOST_KEPT:
            for file in folder.iterdir():
                file.unlink()
    return folder


@pytest.fixture(scope="module", params=[pytest.param(u, marks=pytest.mark.xdist_group(f"answers {u}")) for u in UNITS])
def answered(request, compiled):
    tests = {getattr(item, "originalname", "") for item in request.session.items}
    return answer_every_way(request.param, all_answers=not tests.isdisjoint(OF_ALL_ANSWERS), compiled=compiled)


OF_ALL_ANSWERS: set[str] = set()  # the tests that are about more than the stubs and the solution


def of_all_answers(test):
    OF_ALL_ANSWERS.add(test.__name__)
    return pytest.mark.once(pytest.mark.thorough(test))  # they take half the time of all tests


def test_the_untouched_exercise_earns_nothing(answered):
    scores = {name: score(cell) for name, cell in answered.untouched.items()}
    assert {name: result.earned for name, result in scores.items()} == dict.fromkeys(scores, 0.0)
    begun = {name: scores[name].message for name, cell in answered.untouched.items() if not not_begun(cell)}
    assert not begun, "each should fail because its stub is not yet written, and say so"
    lines = {name: result.message for name, result in scores.items() if "\n" in result.message}
    assert not lines, "that is one line"


def test_the_solution_earns_every_point(answered):
    missed = [f"{name}: {result.message}" for name, result in answered.solved.items() if result.message]
    assert not missed, "\n\n".join(missed)
    assert answered.solved.keys() == answered.untouched.keys()


@of_all_answers
def test_each_right_answer_earns_every_point(answered):
    missed = [str(graded) for graded in answered.right if graded.score.earned < graded.score.possible]
    assert not missed, "\n\n".join(missed)


@of_all_answers
def test_each_named_wrong_answer_fails_with_the_message_meant_for_it(answered):
    unmeant = [
        str(graded)
        for graded in answered.wrong
        if graded.score.earned or graded.answer.metadata["message"] not in graded.score.message
    ]
    assert answered.wrong and not unmeant, "\n\n".join(unmeant)


@of_all_answers
def test_an_answer_that_proves_a_hidden_region_passes_all_that_is_visible(answered):
    """The first line that fails ends a check: one that fails in its hidden region has passed what stands above it."""
    proofs = [graded for graded in answered.wrong if "hidden" in graded.answer.metadata]
    elsewhere = [str(graded) for graded in proofs if graded.region != graded.answer.metadata["hidden"]]
    assert not elsewhere, "not in the region that it is there for:\n\n" + "\n\n".join(elsewhere)
    lost = [graded for graded in answered.beside if graded.score.earned < graded.score.possible]
    seen = [str(graded) for graded in lost if graded.region in (VISIBLE, None)]
    assert not seen, "the learner sees these fail:\n\n" + "\n\n".join(seen)


@of_all_answers
def test_an_answer_marked_alone_costs_the_checks_that_it_fails_and_no_other(answered):
    lost = [str(graded) for graded in answered.alone if graded.score.earned < graded.score.possible]
    assert not lost, "\n\n".join(lost)


def test_the_capstone_is_tried_with_each_of_its_crimes_alone():
    crimes = [answer for answer in wrong_answers("16_slow_lab") if "alone" in answer.metadata]
    assert sorted(crime.metadata["name"][:2] for crime in crimes) == [f"{unit:02}" for unit in range(1, 14)]
    reach = {crime.metadata["name"][:2]: reached(unit_as_built("16_slow_lab"), crime) for crime in crimes}
    assert all({*crime.metadata["fails"]} <= reach[crime.metadata["name"][:2]] for crime in crimes)
    assert reach["06"] >= {"dish-unrolling", "day-modules", "day-speed"}  # a day is made of it


@pytest.mark.parametrize("unit", UNITS)
def test_each_task_has_a_wrong_answer(unit):
    assert {answer.metadata["task"] for answer in wrong_answers(unit)} == unit_as_built(unit).answers.keys()


@pytest.mark.parametrize("unit", UNITS)
def test_each_hidden_region_is_proven_to_be_needed(unit):
    marked = [answer.metadata for answer in wrong_answers(unit) if "hidden" in answer.metadata]
    proven = {(check, answer["hidden"]) for answer in marked for check in answer["fails"]}
    there = set(unit_as_built(unit).regions())
    assert proven <= there, "hidden regions that do not exist"
    missing = {f"{unit} {check} {number}" for check, number in there - proven}
    assert_only_listed(missing, UNPROVEN, unit, "no wrong answer passes all that is visible and fails in these regions")


@pytest.mark.parametrize("unit", UNITS)
def test_each_task_has_right_answers_in_several_styles(unit):
    solution, given = unit_as_built(unit), [answer.metadata for answer in right_answers(unit)]
    styles = {task: {answer["name"] for answer in given if answer["task"] == task} for task in solution.answers}
    assert sum(map(len, styles.values())) == len(given), (
        "an answer to a task that does not exist, or a name that is used twice"
    )
    missing = {
        f"{unit} {task}" for task, names in styles.items() if len(names) < STYLES and not solution.is_prediction(task)
    }
    assert_only_listed(missing, SHORT, unit, f"fewer than {STYLES} right answers in other styles")


def test_the_lists_of_what_is_missing_name_units_that_exist():
    for file in (UNPROVEN, SHORT):
        lines = (Path(__file__).parent / file).read_text().splitlines()
        assert {line.split()[0] for line in lines if line.strip() and line[0] != "#"} <= set(UNITS), file
