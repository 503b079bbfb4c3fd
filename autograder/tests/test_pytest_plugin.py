"""The pytest door, from outside: what it collects, what it says, what the table adds up to."""

import re

import nbformat
import pytest
from conftest import graded, solution

from autograder import not_begun
from autograder.versions import unsupported

pytestmark = pytest.mark.once  # the same on every version

CHECK = """from autograder.failure import fail, passed
if f(2) != 4:
    fail("f(2) is not 4", why="f must double", attempt="2 * x")
passed("f doubles")"""


STUB = f'def f(x):\n    raise NotImplementedError("{not_begun.STUB}")'


@pytest.fixture
def write(pytester, make_notebook):
    """Writes a notebook into a project that asks for its notebooks, as the course's own does."""
    pytester.makeini("[pytest]\nautograder_notebooks = .")

    def write(path, *cells):
        file = pytester.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(make_notebook(*cells), file)

    return write


def run(pytester, *args, how="inprocess"):
    """pytest in this process, where kernels are warm; with how="subprocess" in one that has imported nothing yet."""
    start = {"inprocess": pytester.runpytest_inprocess, "subprocess": pytester.runpytest_subprocess}[how]
    result = start("--continue-on-collection-errors", *args)
    return result, result.stdout.str()


def test_graded_cells_are_items_and_the_table_adds_up(pytester, write):
    answers = {"a": "def f(x): return 2 * x", "b": "def f(x): return x"}
    for student, answer in answers.items():
        write(
            f"submitted/{student}/unit/unit.ipynb",
            (answer, solution("f")),
            (CHECK, graded("f-check", 3)),
            ("1.5", graded("f-tiers", 2)),
        )
    result, out = run(pytester, "-v", "submitted")
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(
        [
            "submitted/a/unit/unit.ipynb::f-check PASSED*",
            "submitted/a/unit/unit.ipynb::f-tiers FAILED*",
            "✗ f(2) is not 4",
            "  Why this usually happens: f must double",
            "  Try: 2 [*] x",
            "unit *cells passed *points",
            "submitted/a/unit *1 of 2 *4.5 of 5",
            "submitted/b/unit *0 of 2 *1.5 of 5",
            "total *1 of 4 *6 of 10",
        ]
    )
    assert "1.5 of 2 points" in out
    assert "_pytest_plugin.py" not in out  # no frames of ours


def test_a_task_that_is_not_begun_is_one_line(pytester, write):
    for folder in ("untouched", "tried"):
        answer = STUB if folder == "untouched" else "def f(x): return x"
        check = "from autograder import assert_equal\nassert_equal(f(2), 4, name='f')"
        write(f"{folder}/unit.ipynb", (answer, solution("f")), *((check, graded(f"f-{i}", 2)) for i in range(2)))
    result, out = run(pytester, "untouched")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    *_, title, line, points, _, table, _ = result.stdout.lines
    assert "= not begun =" in title and line == "untouched: f is not begun (f)"
    assert "= points =" in points and table.split() == ["untouched", "0", "of", "2", "0", "of", "4"]
    assert len(result.stdout.lines) < 20 and "FAILURES" not in out
    result, out = run(pytester, "-v", "-ra", ".")
    result.stdout.fnmatch_lines(["untouched/unit.ipynb::f-0 NOT BEGUN*", "*2 failed*2 not begun*"])
    assert out.count("FAILED tried/unit.ipynb::f-") == 2, "what was tried and failed is told as ever"
    assert "FAILED untouched" not in out


@pytest.fixture
def neighbour(pytester, write):
    """Another project in the same environment: it has notebooks, and has never heard of this course."""
    write("docs/tutorial.ipynb", "1 / 0")
    write("docs/graded.ipynb", ("pass", graded("fine", 1)))
    pytester.makeini("[pytest]")
    pytester.makepyfile("def test_of_theirs(): pass")


def test_another_projects_notebooks_are_left_alone(pytester, neighbour):
    result, out = run(pytester)
    result.assert_outcomes(passed=1)
    assert "points" not in out
    assert run(pytester, "docs")[0].ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_graded_notebook_may_be_named_anywhere(pytester, neighbour):
    result, out = run(pytester, "docs/graded.ipynb", "docs/tutorial.ipynb")
    result.assert_outcomes(passed=1)
    assert "1 of 1" in out


def test_only_the_folders_that_a_project_names_are_collected(pytester, write):
    write("lessons/one.ipynb", "pass")
    write("drafts/two.ipynb", "1 / 0")
    pytester.makeini("[pytest]\nautograder_notebooks = lessons exercises")
    result, out = run(pytester, "-v")
    result.assert_outcomes(passed=1)
    assert "lessons/one.ipynb::runs PASSED" in out


def test_a_copy_that_a_reset_has_kept_is_collected_where_it_is_named(pytester, write):
    kept = "unit/unit.before-reset-2026-01-31-180000.ipynb"
    for path in ("unit/unit.ipynb", kept):
        write(path, ("def f(x): return 2 * x", solution("f")), (CHECK, graded("f-check", 3)))
    result, out = run(pytester, "unit")
    result.assert_outcomes(passed=1)
    assert "3 of 3" in out
    run(pytester, kept)[0].assert_outcomes(passed=1)


def test_an_unsupported_jax_stops_those_alone_who_ask_for_notebooks(pytester, neighbour, monkeypatch):
    old = pytester.mkdir("old")
    (old / "jax-0.9.1.dist-info").mkdir()
    (old / "jax-0.9.1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: jax\nVersion: 0.9.1\n")
    monkeypatch.setenv("PYTHONPATH", str(old))
    run(pytester, how="subprocess")[0].assert_outcomes(passed=1)
    result, out = run(pytester, "docs/graded.ipynb", how="subprocess")
    result.assert_outcomes(errors=1)
    assert unsupported(jax="0.9.1") in out


@pytest.mark.thorough
def test_each_notebook_is_run_by_one_process_and_all_are_told_of(pytester, write):
    pytest.importorskip("xdist")
    for name in ("one", "two"):
        write(f"{name}/unit.ipynb", *[(f"{i}", graded(f"check-{i}", 1)) for i in range(6)])
    write("stub/stub.ipynb", (STUB, solution("f")), ("from autograder import speedup\nf(2)", graded("f-check", 2)))
    _, out = run(pytester, "-v", "-n", "2", "--dist", "loadgroup", ".")
    assert "\nstub: f is not begun (f)\n" in out
    workers = {name: set(re.findall(rf"\[(gw\d)\].* {name}/unit.ipynb::check-\d", out)) for name in ("one", "two")}
    assert [len(found) for found in workers.values()] == [1, 1], "xdist does not know the groups of these items"


def test_one_cell_can_be_asked_for(pytester, write):
    write(
        "unit/unit.ipynb",
        ("def f(x): return 2 * x", solution("f")),
        ("import os; os._exit(1)", graded("kills", 1)),
        (CHECK, graded("f-check", 3)),
    )
    result, _ = run(pytester, "unit/unit.ipynb::f-check")
    result.assert_outcomes(passed=1)


def test_a_dead_kernel_and_a_broken_file_do_not_stop_the_next_notebook(pytester, write):
    write("a/a.ipynb", ("import os; os._exit(1)", graded("dies", 1)), ("1", graded("after", 1)))
    (pytester.path / "b").mkdir()
    (pytester.path / "b/b.ipynb").write_text("{no json")
    write("c/c.ipynb", ("pass", graded("fine", 1)))
    result, out = run(pytester)
    result.assert_outcomes(passed=1, failed=2, errors=1)
    assert "KernelDied: the kernel died while this cell ran" in out
    assert "KernelDied: not run, because the kernel had died in an earlier cell (dies)" in out
    assert "b.ipynb: this is no notebook, because it is no JSON" in out
    assert "Traceback" not in out


def test_a_lesson_runs_and_writes_nothing_to_standard_error(pytester, write):
    write("good.ipynb", "print('fine')")
    write("noisy.ipynb", "import warnings; warnings.warn('old')")
    write("broken.ipynb", "1 / 0")
    result, out = run(pytester)
    result.assert_outcomes(passed=1, failed=2)
    assert "cell 0 wrote to standard error:" in out
    assert "ZeroDivisionError: division by zero" in out
    assert "cells passed" not in out


def test_the_time_limit_is_an_option(pytester, write):
    write("slow/slow.ipynb", ("while True: pass", graded("endless", 1)))
    _, out = run(pytester, "--cell-seconds=2")
    assert "TimeLimit: this cell ran longer than its 2 s and was stopped; does a loop never end?" in out


def test_a_students_copy_is_brought_back_in_line_with_the_release(pytester, write):
    wrong = ("def f(x): return x", solution("f"))
    write("exercises/unit/unit.ipynb", ("def f(x): ...", solution("f")), (CHECK, graded("f-check", 3)))
    write("submitted/edited/unit/unit.ipynb", wrong, ("pass", graded("f-check", 3)))
    write("submitted/deleted/unit/unit.ipynb", wrong)
    result, out = run(pytester, "submitted")
    result.assert_outcomes(failed=2)
    assert "0 of 6" in out


def test_a_wrong_unit_name_gets_one_line(pytester, write):
    write("exercises/unit/unit.ipynb", ("pass", graded("fine", 1)))
    result = pytester.runpytest_subprocess("exercises/05_cache")
    assert result.stderr.lines == ["ERROR: file or directory not found: exercises/05_cache", ""]
