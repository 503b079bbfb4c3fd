"""A whole submission is run: what one task does to the kernel costs no other task, and the page says what it cost."""

import pytest
from conftest import graded, locked, solution

from autograder.doors import fair_run, kernel_runner
from autograder.doors.fair_run import run_fairly
from autograder.doors.faults import fault
from autograder.doors.graded_notebook import failure_text, is_graded, score
from autograder.doors.kernel_runner import Runner

pytestmark = [pytest.mark.once, pytest.mark.thorough]  # they try the grader

DIES = "import os; os._exit(1)"
HANGS = "import collections, itertools; collections.deque(itertools.repeat(0), maxlen=0)"
COUNTS = "print('counted', end=' ')"


def tasks(make_notebook, **sources):
    """Three tasks, each with its answer and two checks, below a setup; `sources` puts other text into a cell."""
    cells = [("setup", "base = 1\n" + COUNTS, locked("setup"))]
    for name in "abc":
        cells.append((name, f"def {name}():\n    return base", solution(name)))
        cells += [(f"{name}{n}", f"assert {name}() == 1", graded(f"{name}{n}", n)) for n in (1, 2)]
    return make_notebook(*((sources.get(name, text), entry) for name, text, entry in cells))


def points(notebook, folder, seconds=20.0, budget=100.0):
    with Runner(notebook, folder, seconds) as runner:
        run_fairly(runner, budget)
    return [score(cell).earned for cell in notebook.cells if is_graded(cell)]


def said(notebook, name):
    return next(failure_text(cell) for cell in notebook.cells if cell.metadata.nbgrader.grade_id == name)


@pytest.fixture(autouse=True)
def no_kernel_is_forked(monkeypatch):
    monkeypatch.setattr(kernel_runner, "COLD", 10**9)


def test_an_honest_notebook_earns_everything_and_has_no_fault(make_notebook, tmp_path):
    notebook = tasks(make_notebook)
    assert points(notebook, tmp_path) == [1, 2, 1, 2, 1, 2]
    assert fault(notebook) is None


@pytest.mark.parametrize("dies", [f"def b():\n    {DIES}", f"def b():\n    return 1\n{DIES}"], ids=["check", "answer"])
def test_a_dead_kernel_costs_its_own_task(make_notebook, tmp_path, dies):
    notebook = tasks(make_notebook, b=dies)
    assert points(notebook, tmp_path) == [1, 2, 0, 0, 1, 2]
    assert "not run, because b" in said(notebook, "b2") and "of the same task" in said(notebook, "b2")
    assert notebook.cells[0].outputs[0].text == "counted "  # run again, and shown once
    found = fault(notebook)
    assert (found.title, found.lost, found.points) == ("The kernel died", 3, 9)
    assert str(found).endswith("killed, crashed, or left by os._exit. It cost 3 of 9 points.")


def test_a_cell_of_the_students_own_costs_no_check(make_notebook, tmp_path):
    notebook = tasks(make_notebook)
    notebook.cells.insert(5, make_notebook(DIES).cells[0])
    assert points(notebook, tmp_path) == [1, 2, 1, 2, 1, 2]
    assert (fault(notebook).title, fault(notebook).lost) == ("The kernel died", 0)


def test_two_tasks_that_kill_and_a_polite_one_leave_the_third(make_notebook, tmp_path):
    notebook = tasks(make_notebook, a=f"def a():\n    {DIES}", b="quit()")
    assert points(notebook, tmp_path) == [0, 0, 0, 0, 1, 2]
    assert "with quit() or exit()" in said(notebook, "b")
    assert "One more cell ended like that" in str(fault(notebook))


@pytest.mark.thorough
def test_compiled_code_that_never_ends_costs_its_own_task(make_notebook, tmp_path):
    notebook = tasks(make_notebook, b=f"def b():\n    {HANGS}")
    assert points(notebook, tmp_path, seconds=3) == [1, 2, 0, 0, 1, 2]
    assert "ran longer than its 3 s" in said(notebook, "b1")


@pytest.mark.thorough
def test_what_a_stopped_cell_had_bound_is_there_in_a_new_kernel(make_notebook, tmp_path):
    """A helper above a loop that never ends, in a cell of the student's own; then another task ends the kernel."""
    notebook = tasks(make_notebook, b=f"def b():\n    {DIES}", c="def c():\n    return helper()")
    notebook.cells.insert(1, make_notebook("def helper():\n    return base\nwhile True: pass").cells[0])
    assert points(notebook, tmp_path, seconds=3) == [1, 2, 0, 0, 1, 2]
    found = fault(notebook)
    assert (found.title, found.lost) == ("The kernel died", 3)


@pytest.mark.thorough
def test_an_endless_answer_is_not_run_again_for_another_task(make_notebook, tmp_path):
    notebook = tasks(make_notebook, a="while True: pass", b=f"def b():\n    {DIES}")
    assert points(notebook, tmp_path, seconds=3, budget=30) == [0, 0, 0, 0, 1, 2]
    found = fault(notebook)
    assert (found.title, found.cell, found.lost) == ("The time was over", "a", 6)


def test_who_died_through_an_earlier_cell_is_run_once_more(make_notebook, tmp_path):
    marked = tmp_path / "marked"
    once = f"""def a():
    import os, pathlib, threading
    if not pathlib.Path({str(marked)!r}).exists():
        pathlib.Path({str(marked)!r}).touch()
        threading.Timer(0.5, os._exit, [1]).start()
    return 1"""
    slow = "import time; time.sleep(1.5)\nassert b() == 1"
    notebook = tasks(make_notebook, a=once, b1=slow)
    assert points(notebook, tmp_path) == [1, 2, 1, 2, 1, 2]
    assert fault(notebook) is None


def test_the_whole_notebook_has_a_limit_of_its_own(make_notebook, tmp_path):
    notebook = tasks(make_notebook, b="import time; time.sleep(60)\ndef b(): return 1")
    assert points(notebook, tmp_path, budget=8) == [1, 2, 0, 0, 0, 0]
    assert said(notebook, "c2") == "TimeLimit: not run, because the 8 s for the whole notebook were over"
    assert fault(notebook).lost == 6


@pytest.mark.thorough
def test_slow_cells_of_the_students_own_leave_time_for_the_answers(make_notebook, tmp_path, monkeypatch):
    monkeypatch.setattr(fair_run, "_ONCE_MORE", 0.5)
    notebook = tasks(make_notebook)
    notebook.cells[1:1] = make_notebook(*["import time; time.sleep(60)"] * 4).cells
    assert points(notebook, tmp_path, budget=20) == [1, 2, 1, 2, 1, 2]
    found = fault(notebook)
    assert (found.title, found.others, found.lost) == ("The time was over", 3, 0)


def test_a_cell_that_prints_without_measure_is_cut_while_it_runs(make_notebook, tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_runner, "KEPT_OF_CELL", 10_000)
    loud = "for i in range(100): print('x' * 1000, flush=True)\nassert a() == 1\n0.5"
    notebook = tasks(make_notebook, a1=loud, b1="print('x' * 100_000)\nassert b() == 2")
    assert points(notebook, tmp_path) == [0.5, 2, 0, 2, 1, 2]
    for cell in notebook.cells:
        assert sum(len(o.get("text", "")) for o in cell.outputs) < 11_000
    assert "characters of output left out" in notebook.cells[2].outputs[-1].text
