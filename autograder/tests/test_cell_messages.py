"""What a notebook says beyond its checks: not begun, cells to run first, points."""

import json
import shutil

import nbformat
import pytest
from conftest import COURSE, graded, locked, solution
from nbformat.v4 import new_markdown_cell

from autograder.doors import cell_messages
from autograder.doors.graded_notebook import failure_text, is_graded, not_begun, read_notebook, score
from autograder.doors.kernel_runner import Runner
from autograder.not_begun import STUB, NotBegun, unwritten

pytestmark = pytest.mark.once  # the same on every version

SETUP = "import math\n\nfrom autograder import assert_equal, assert_max_traces, assert_primitives, speedup"
TWICE = f'def twice(x):\n    """Twice x."""\n    raise NotImplementedError("{STUB}")'
CHECK = '"""2 points. It doubles."""\nassert_equal(twice(given()), 4, name="twice")'


@pytest.fixture
def run(tmp_path, make_notebook):
    """Write a notebook of these cells, run those that `only` names (all without it), and return those that ran."""

    def run(*cells, only=None, heading=None):
        notebook = make_notebook(*cells)
        if heading:
            notebook.cells.insert(0, new_markdown_cell(heading, id="heading"))
        nbformat.write(notebook, tmp_path / "unit.ipynb")
        code = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
        with Runner(notebook, tmp_path) as runner:
            return [runner.run(code[place]) for place in (range(len(code)) if only is None else only)]

    return run


# --- not begun ------------------------------------------------------------------------------------------------------


def test_the_stub_of_the_exercises_is_the_one_that_is_known():
    for path in COURSE.glob("exercises/*/*.ipynb"):
        assert f'raise NotImplementedError(\\"{STUB}\\")' in path.read_text()


def test_a_stub_is_not_begun_whichever_check_meets_it(run):
    checks = [
        "twice(2)",
        "assert_primitives(twice, 2.0)",
        "with assert_max_traces(twice, 1):\n    twice(2)",
        "speedup(twice, lambda x: x + x, 2.0)",
        "speedup(lambda x: twice(x), lambda x: x + x, 2.0)",
        "speedup(lambda x: x + x, lambda x: twice(x), 2.0)",
        "import jax; jax.jit(jax.vmap(twice))(jax.numpy.ones(3))",
    ]
    cells = run(SETUP, (TWICE, solution("twice")), *((check, graded(check, 2)) for check in checks))
    for check, cell in zip(checks, cells[2:], strict=True):
        line = check.count("\n") + 1
        expected = f"twice is not begun: fill it in above, then run this cell again (line {line} of this cell)"
        assert failure_text(cell) == expected, check
        assert (score(cell).earned, not_begun(cell)) == (0, "twice")


def test_a_stub_that_is_no_function_is_filled_in_where_it_stands(run):
    _, cell = run(SETUP, f"raise NotImplementedError({STUB!r})")
    expected = "this cell is not begun: fill it in, then run it again (line 1 of this cell)"
    assert (failure_text(cell), not_begun(cell)) == (expected, "this cell")


def test_another_function_that_is_not_implemented_keeps_its_traceback(run):
    *_, cell = run(SETUP, "def later(x):\n    raise NotImplementedError('for two arguments')\n\n\nlater(2)")
    assert "NotImplementedError: for two arguments" in failure_text(cell)
    assert "----> 5 later(2)" in failure_text(cell)
    assert not not_begun(cell)


def test_a_stub_is_called_by_its_name():
    class Solver:
        def step(self):
            raise NotImplementedError(STUB)

    with pytest.raises(NotImplementedError) as caught:
        Solver().step()
    assert unwritten(caught.value) == "test_a_stub_is_called_by_its_name.Solver.step"
    assert unwritten(NotBegun("relax")) == "relax"
    assert unwritten(ValueError(STUB)) is unwritten(NotImplementedError()) is unwritten(None) is None


# --- cells to run first ---------------------------------------------------------------------------------------------

GIVEN = "# what the check calls it with\ndef given():\n    return math.sqrt(4)"
CELLS = [
    SETUP,
    "unrelated = 1 / 0",
    (GIVEN, locked("given")),
    ("def twice(x):\n    return 2 * x", solution("twice")),
    ('"""1 point. An earlier check."""\ngiven_too = given()', graded("earlier", 1)),
    (CHECK, graded("twice-check", 2)),
]


def test_after_a_restart_a_check_names_the_cells_that_it_needs(run):
    *_, cell = run(*CELLS, only=[0, 5], heading="# Exercise\n\n## Task 1 · Doubling (2 points)")
    assert failure_text(cell).splitlines() == [
        "twice is not defined yet, because cells above have not been run since the kernel started "
        "(line 2 of this cell).",
        "Run first, in this order:",
        "  Exercise: def given():",
        "  Exercise: def twice(x):",
    ]
    assert score(cell).earned == 0


def test_cells_that_need_other_cells_bring_them_along(run, tmp_path):
    """As when the kernel has run nothing: a check, run first, needs the setup cell too."""
    startup = "__import__('autograder.doors.cell_messages', fromlist=['_']).register_in_the_course()"
    *_, cell = run(startup, *CELLS, only=[0, 6], heading="# Exercise")
    assert [line.strip() for line in failure_text(cell).splitlines()[2:]] == [
        "Exercise: import math",
        "Exercise: def given():",
        "Exercise: def twice(x):",
    ]


def test_a_name_that_no_cell_defines_keeps_its_traceback(run):
    *_, cell = run(SETUP, "def use():\n    return assert_equl(1, 1)", "use()")
    assert "NameError: name 'assert_equl' is not defined" in failure_text(cell)
    assert "----> 2     return assert_equl(1, 1)" in failure_text(cell)


def test_a_cell_that_was_run_and_failed_is_not_called_unrun(run):
    *_, cell = run(SETUP, "ratio = 1 / 0", "ratio")
    assert failure_text(cell).startswith("NameError") and "not been run" not in failure_text(cell)


def test_a_notebook_that_cannot_be_read_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cell_messages.notebook_file() is None
    for text in ("{", "[]", json.dumps({"cells": [{}]})):
        (tmp_path / "one.ipynb").write_text(text)
        assert cell_messages.code_cells(cell_messages.notebook_file()) == []
    (tmp_path / "two.ipynb").touch()
    assert cell_messages.notebook_file() is None
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "two.ipynb"))
    assert cell_messages.notebook_file() == tmp_path / "two.ipynb"


def test_a_copy_that_a_reset_has_kept_is_not_the_notebook(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    for name in (
        "one.ipynb",
        "one.before-reset-2026-01-31-180000.ipynb",
        "one.from-the-course-2026-01-31-180000.ipynb",
    ):
        (tmp_path / name).touch()
    assert cell_messages.notebook_file() == tmp_path / "one.ipynb"


def test_every_check_of_an_exercise_can_name_what_it_needs():
    """The setup cell, and whatever else of its notebook; read, not run."""

    class Shell:
        user_ns = {}
        transform_cell = staticmethod(str)

    checks = 0
    for path in COURSE.glob("exercises/*/*.ipynb"):
        cells = cell_messages.code_cells(path)
        for check in filter(is_graded, read_notebook(path).cells):
            needed = cell_messages.cells_to_run(Shell, cells, check.source, _first_used(cells, check.source))
            assert needed[0] == cells[0] and len(needed) >= 2, (path, check.metadata.nbgrader["grade_id"])
            checks += 1
    assert checks > 100


def _first_used(cells, source):
    class Shell:
        transform_cell = staticmethod(str)

    bound = set().union(*(cell_messages._names(Shell, cell.source)[0] for cell in cells if not cell.graded))
    return min(cell_messages._names(Shell, source)[1] & bound)


# --- the start of a kernel ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cell", "said"), [(CHECK, True), ('"""2 points. It doubles."""\ntwice', False)])
def test_a_fresh_kernel_speaks_in_the_course_alone(tmp_path, monkeypatch, make_notebook, cell, said):
    profile = tmp_path / "ipython" / "profile_default" / "startup"
    profile.mkdir(parents=True)
    file = COURSE / "autograder/doors/ipython_startup.py"
    shutil.copy(file, profile)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = make_notebook(SETUP if said else "import math", "def twice(x): return 2 * x", (cell, graded("check", 2)))
    nbformat.write(notebook, tmp_path / "unit.ipynb")
    with Runner(notebook, tmp_path) as runner:
        last = runner.run(2)
        names = runner.run_new("sorted(name for name in globals() if not name.startswith('_'))")
    assert ("Run first, in this order:" in failure_text(last)) == said
    assert "NameError" in failure_text(last) or said
    assert eval(names.outputs[0].data["text/plain"]) == ["In", "Out", "exit", "get_ipython", "open", "quit"]


# --- points ---------------------------------------------------------------------------------------------------------


def printed(cell):
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def test_a_check_that_passes_says_its_points_and_earns_them(run):
    checks = {
        '"""2 points. Right."""\nassert_equal({"a": 4}, {"a": 4}, name="four")': ("2 of 2 points", 2),
        '"""2 points. Wrong."""\nassert_equal({"a": 4}, {"a": 5}, name="four")': ("", 0),
        '"""2 points. Tiers: partial_credit says them."""\n1.5': ("", 1.5),
        'assert_equal({"a": 4}, {"a": 4}, name="four")': ("", 2),
    }
    cells = run(SETUP, *((check, graded(check, 2)) for check in checks))
    for (check, (said, earned)), cell in zip(checks.items(), cells[1:], strict=True):
        lines = [line for line in printed(cell).splitlines() if "points" in line]
        assert (lines, score(cell).earned) == ([said] if said else [], earned), check


# --- left out when it is graded -------------------------------------------------------------------------------------


def test_an_answer_that_grading_would_leave_out_says_so_before(run):
    honest, tricky = TWICE.replace(f'raise NotImplementedError("{STUB}")', "return 2 * x"), "eval('1')\n"
    cells = [("from autograder import assert_equal", locked("setup")), (tricky + honest, solution("twice"))]
    _, answer, own, right = run(*cells, tricky, honest)
    said = "When this is graded, a part of the cell is left out:\nline 1 uses eval; "
    assert answer.outputs[0].text.startswith(said)
    refused = honest.replace("2 * x", "eval('2 * x')")
    _, answer = run(cells[0], (refused, solution("twice")))
    assert answer.outputs[0].text.startswith("When this is graded, the cell is left out: line ")
    assert "".join(o.get("text", "") for o in own.outputs + right.outputs) == ""


def test_so_does_a_cell_that_an_answer_needs(run):
    answer = TWICE.replace(f'raise NotImplementedError("{STUB}")', "return double(x)")
    helpers = ["def double(x):\n    return times(x)", "def times(x):\n    return eval('2 * x')"]
    cells = [("from autograder import assert_equal", locked("setup")), (answer, solution("twice"))]
    *_, fine, needed, other = run(*cells, *helpers, "def show(x):\n    return eval('x')")
    assert printed(fine) == printed(other) == ""
    assert printed(needed).startswith("When this is graded, the cell is left out: line 2 uses eval; ")


def test_a_helper_with_a_name_of_the_courses_is_the_answers_alone(run):
    helper = "def given():\n    return 3\n\n\ndef twice(x):\n    return x * given()"
    cells = [(f"{SETUP}\ndef given():\n    return 2", locked("setup")), (helper, solution("twice"))]
    _, answer, own = run(*cells, "print(twice(2), given())")
    said = "given is a name of the course's or of Python's, too: in this cell yours is meant, in all others not.\n"
    assert (printed(answer), printed(own)) == (said, "6 2\n")


def test_an_import_that_another_cell_uses_is_told_and_one_that_nobody_uses_is_not(run):
    answer = TWICE.replace(f'raise NotImplementedError("{STUB}")', "return 2 * x")
    cells = [("from autograder import assert_equal", locked("setup")), ("import xmlrpc\n" + answer, solution("twice"))]
    assert [output.get("text", "") for output in run(*cells)[1].outputs] == []
    _, told, *_ = run(*cells, "xmlrpc.client(twice(1))")
    said = "When this is graded, a part of the cell is left out:\nline 1 imports xmlrpc; "
    assert told.outputs[0].text.startswith(said)


def test_a_helper_and_a_check_may_have_the_same_name(run):
    body = TWICE.replace(f'raise NotImplementedError("{STUB}")', "return double(x)")
    answer = "def double(x):\n    return 2 * x\n" + body
    cells = [("from autograder import assert_equal", locked("setup")), (answer, solution("twice"))]
    check = (
        "double, seen = 3, []\nfor one in (1, 2):\n    seen.append(twice(one))\nassert seen == [2, 4] and double == 3"
    )
    second = "def double():\n    pass\nassert twice(3) == 6"
    look = "print(double(2), seen, one)"
    *_, first, shown, then, last = run(
        *cells, (check, graded("a", 1)), look, (second, graded("b", 2)), "print(double(2))"
    )
    assert (score(first).earned, score(then).earned) == (1, 2), failure_text(first) + failure_text(then)
    assert printed(shown) == "4 [2, 4] 2\n"  # what the check made can be looked at
    assert printed(last) == "4\n"


# --- errors of the reader's own --------------------------------------------------------------------------------------


def test_a_recursion_through_jax_is_a_page_and_no_book(run):
    """JAX's `lax.py` is so long that IPython does not fold what repeats."""
    deep = """def deep(n):
    if n:
        return deep(n - 1)
    try:
        lax.add("x", 1)
    except TypeError as error:
        raise RecursionError("enough").with_traceback(error.__traceback__)


deep(800)"""
    frames = "import sys, traceback\nprint(len(list(traceback.walk_tb(sys.last_value.__traceback__))))"
    *_, cell, kept = run(SETUP + "\nfrom jax import lax", deep, frames)
    assert int(printed(kept)) < 100  # IPython writes out what it keeps, too
    text = failure_text(cell)
    assert "enough" in text and 6 <= text.count("in deep(n)") <= 12
    assert len(text.splitlines()) < 300
