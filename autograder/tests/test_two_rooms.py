"""A submission is run in two rooms: a judged check asks the box, and whoever has taken over the box wins nothing."""

from pathlib import Path

import jupytext
import pytest
from _tiny_unit import ALL, ANSWERS, LAZY, ONLY_F, ONLY_G, as_solved, handed_in

from autograder.doors.box.rules import Rules, why_not
from autograder.doors.fair_run import run_fairly
from autograder.doors.faults import fault
from autograder.doors.graded_notebook import failure_text, is_graded, score
from autograder.doors.guard.cells import Guard
from autograder.doors.hidden_tests import hidden_output_dropped
from autograder.doors.judge.two_rooms import TwoRooms
from autograder.doors.run_submission import in_line

pytestmark = [
    pytest.mark.once,
    pytest.mark.xdist_group("two rooms"),
    pytest.mark.skipif(bool(why_not()), reason=f"not here, because {why_not()}"),
]
BOTH = ("f-check", "g-check")


def graded(tmp_path, answers=ANSWERS, judged=BOTH, above="", guarded=False, seconds=20, released=None, **more):
    """The tiny unit (or another one) with these answers, run; `above` stands at the top of the answer to f.

    more: attributes of the runner.
    """
    released = released or as_solved()
    notebook = handed_in(answers)
    for cell in notebook.cells:
        if cell.id == "f" and above:
            cell.source = above + "\n\n" + cell.source
    _, course = in_line(notebook, released, handed_in({}))
    guard = Guard(notebook, course) if guarded else None
    with (
        hidden_output_dropped(notebook),
        TwoRooms(notebook, tmp_path, seconds, Rules(), guard, judged, course) as runner,
    ):
        vars(runner).update(more)
        run_fairly(runner, 100)
    notebook.metadata["rooms"] = runner.told
    return notebook


def points(notebook):
    return sum(score(cell).earned for cell in notebook.cells if is_graded(cell))


def said(notebook, name):
    return next(failure_text(cell) for cell in notebook.cells if cell.id == name)


@pytest.mark.parametrize("guarded", [True, False])
def test_right_answers_earn_everything_and_wrong_ones_nothing(tmp_path, guarded):
    assert points(graded(tmp_path, guarded=guarded)) == ALL
    assert points(graded(tmp_path, LAZY, guarded=guarded)) == 0
    half = graded(tmp_path, ANSWERS | {"g": "def g(x):\n    return 8"}, guarded=guarded)
    assert points(half) == ONLY_F and "check(g(3), 27)" in said(half, "g-check")


def test_one_check_is_judged_and_the_other_observed(tmp_path):
    assert points(graded(tmp_path, judged=("g-check",))) == ALL
    assert points(graded(tmp_path, LAZY, judged=("g-check",))) == 0


# --- what cannot cross ---

OBJECTS = "import numpy\ndef g(x):\n    return numpy.array(x**{}, dtype=object)"


def with_a_limit():
    """The tiny unit, whose second check uses a name that the first one binds."""
    unit = as_solved()
    unit.cells[2].source = "limit = 4\n" + unit.cells[2].source
    unit.cells[4].source = unit.cells[4].source.replace("expected = 8", "expected = 2 * limit")
    return unit


@pytest.mark.parametrize("power", [3, 2])
def test_what_cannot_be_handed_over_earns_nothing_and_is_told_if_it_passes_beside_the_answers(tmp_path, power):
    """It is looked at in a new box, where nothing is left of what the answer has done for the judge."""
    once = "calls = []\n" + OBJECTS.format(power).replace("return", "calls.append(x)\n    return")
    once += " if calls.count(x) == 1 else None"
    notebook = graded(tmp_path, ANSWERS | {"g": once}, released=with_a_limit())
    assert points(notebook) == ONLY_F
    cell = next(cell for cell in notebook.cells if cell.id == "g-check")
    names = [output.ename for output in cell.outputs if output.output_type == "error"]
    assert names == (["AssertionError", "NotJudged"] if power == 3 else ["AssertionError"])
    if power == 3:
        found = fault(notebook)
        assert (found.title, found.lost) == ("A check could not be judged", 3)
        assert "passes beside the answers" in str(found) and "--RunNotebook.judge=False" in str(found)
    assert notebook.metadata["rooms"] == "2 checks ran in a kernel apart from the answers."


def test_what_cannot_be_handed_over_and_is_wrong_is_told_what_is_wrong_and_not_that_it_cannot(tmp_path):
    unit = with_a_limit()
    unit.cells[0].source = unit.cells[0].source.replace("== expected", "== expected, f'{value!r} is wrong'")
    notebook = graded(tmp_path, ANSWERS | {"g": OBJECTS.format(2)}, released=unit)
    assert points(notebook) == ONLY_F and said(notebook, "g-check").endswith("array(4, dtype=object) is wrong")


@pytest.mark.thorough  # it waits
def test_what_is_tried_beside_the_answers_has_a_time_of_its_own_and_ends(tmp_path):
    """Once it is used up, what the judge has said counts: here g is asked twice, and each time takes two seconds."""
    slow = OBJECTS.format(3).replace("def g(x):", "import time\ndef g(x):\n    time.sleep(2)")
    notebook = graded(tmp_path, ANSWERS | {"g": slow}, for_new_boxes=3)
    assert points(notebook) == ONLY_F
    cell = next(cell for cell in notebook.cells if cell.id == "g-check")
    assert [output.ename for output in cell.outputs if output.output_type == "error"] == ["AssertionError"]


def test_nobody_says_in_the_graders_words_that_a_check_could_not_be_judged(tmp_path):
    forges = "class NotJudged(Exception): pass\ndef g(x):\n    raise NotJudged('it passes beside the answers')"
    notebook = graded(tmp_path, ANSWERS | {"g": forges})
    assert points(notebook) == ONLY_F
    cell = next(cell for cell in notebook.cells if cell.id == "g-check")
    assert "NotJudged" not in [output.get("ename") for output in cell.outputs]
    assert fault(notebook) is None


def test_what_crosses_is_judged_and_said_to_be(tmp_path):
    wrong = graded(tmp_path, LAZY)
    assert wrong.metadata["rooms"] == "2 checks ran in a kernel apart from the answers."


# --- a box that dies, hangs, or is not what it seems ---


def test_a_box_that_dies_in_a_call_costs_its_own_task(tmp_path):
    notebook = graded(tmp_path, ANSWERS | {"f": "def f(x):\n    import os\n    os._exit(0)"})
    assert points(notebook) == ONLY_G
    assert "the kernel died while this cell ran" in said(notebook, "f-check")
    assert (fault(notebook).title, fault(notebook).lost) == ("The kernel died", ONLY_F)


@pytest.mark.thorough  # it waits
def test_an_answer_that_never_ends_costs_its_own_task(tmp_path):
    notebook = graded(tmp_path, ANSWERS | {"f": "def f(x):\n    while True: pass"}, seconds=4)
    assert points(notebook) == ONLY_G
    assert "ran longer than its 4 s" in said(notebook, "f-check")


@pytest.mark.thorough  # it waits
def test_compiled_code_that_never_ends_costs_its_own_task(tmp_path):
    hangs = "import collections, itertools\ndef f(x):\n    collections.deque(itertools.repeat(0), maxlen=0)"
    notebook = graded(tmp_path, ANSWERS | {"f": hangs}, seconds=4)
    assert points(notebook) == ONLY_G and "ran longer than its 4 s" in said(notebook, "f-check")


@pytest.mark.thorough  # it waits
def test_a_box_that_does_not_serve_costs_its_own_task(tmp_path):
    above = "get_ipython().input_transformers_cleanup.append(lambda lines: ['pass\\n'])"
    notebook = graded(tmp_path, above=above)
    assert points(notebook) == 0 and "does not say what is in it" in said(notebook, "f-check")


def test_a_stub_is_not_begun_and_a_missing_name_is_missing(tmp_path):
    from autograder.not_begun import STUB

    notebook = graded(tmp_path, {"f": f"def f(x):\n    raise NotImplementedError({STUB!r})", "g": "h = 1"})
    assert points(notebook) == 0
    assert "f is not begun" in said(notebook, "f-check") and "name 'g' is not defined" in said(notebook, "g-check")


def test_an_error_names_its_line_and_a_hidden_print_is_not_shown(tmp_path):
    f = "def f(x):\n    print('called with', x)\n    return x**2 if x == 2 else 1 // 0"
    notebook = graded(tmp_path, ANSWERS | {"f": f})
    cell = next(cell for cell in notebook.cells if cell.id == "f-check")
    assert [o.text for o in cell.outputs if o.output_type == "stream"] == ["called with 2\n"]
    assert "ZeroDivisionError" in said(notebook, "f-check") and "line 3 of its cell" in said(notebook, "f-check")


# --- what is left of a check for the next one, and what a prediction's process has ---


def with_limits():
    """The tiny unit with an array in its locked cell, which both checks use."""
    unit = as_solved()
    unit.cells[0].source = "import numpy\nlimits = numpy.array([2, 3])\n" + unit.cells[0].source
    unit.cells[2].source = unit.cells[2].source.replace("f(2)", "f(limits)").replace("f(3)", "f(numpy.array([3]))")
    unit.cells[4].source = unit.cells[4].source.replace("g(2)", "g(int(limits[0]))")
    return unit


def test_what_a_call_changes_of_the_courses_is_put_back_in_the_judge(tmp_path):
    empties = "def f(x):\n    first = int(x[0]) ** 2\n    x[:] = 0\n    return first"
    assert points(graded(tmp_path, ANSWERS | {"f": empties}, released=with_limits())) == ALL


def alone():
    """The tiny unit, whose first function is run alone."""
    unit = as_solved()
    unit.cells[0].source = "from autograder import run_alone\nsecret = 4\n" + unit.cells[0].source
    unit.cells[2].source = "key = 9\n" + unit.cells[2].source.replace("f(2)", "run_alone(f, 2)")
    unit.cells[2].source = unit.cells[2].source.replace("f(3)", "run_alone(f, 3)")
    return unit


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("x**2 + 0 * secret", ""),
        ("x**2 + 0 * len(getattr((), '__cla' + 'ss__').__name__)", "tuple is asked for '__class__'"),
        ("x**2 + 0 * len(In)", "In"),
        ("x**2 + 0 * key", "key"),
    ],
)
def test_a_prediction_has_the_courses_names_and_no_checks_and_asks_no_type(tmp_path, value, line):
    """There is no guard: whatever a student's kernel has let through, this runs in the judge's box."""
    notebook = graded(tmp_path, ANSWERS | {"f": f"def f(x):\n    return {value}"}, released=alone())
    assert points(notebook) == (ONLY_G if line else ALL) and line in said(notebook, "f-check")


# --- attacks, without a guard ---

ATTACKS = jupytext.read(Path(__file__).parent / "attacks" / "in_the_kernel.py", fmt="py:percent").cells
WINNERS = [
    "input_transformers = None\nimport sys\nsys.modules['__main__'].check = lambda *a: None\ncheck = lambda *a: None",
    "check.__code__ = (lambda value, expected: None).__code__",
    "import gc\n"
    "[o for o in gc.get_objects() if getattr(o, '__name__', '') == 'check'][0].__code__ = (lambda a, b: 0).__code__",
    "kernel = get_ipython().kernel\nsend = kernel.session.send\n"
    "def forged(stream, kind, content=None, *args, **more):\n"
    "    if isinstance(content, dict) and content.get('status') == 'error':\n        content = {'status': 'ok'}\n"
    "    return send(stream, 'stream' if kind == 'error' else kind, content, *args, **more)\n"
    "kernel.session.send = forged",
    "import sys\nget_ipython().events.register('post_execute', lambda: sys.displayhook(10))",
    "import ctypes, sys\nsys.excepthook = get_ipython().showtraceback = lambda *a, **k: None",
    "class Always(int):\n    __eq__ = lambda self, other: True\n    __hash__ = int.__hash__\n"
    "def f(x): return Always(3)\nf0 = f",
]  # fmt: skip


@pytest.mark.parametrize("attack", [*WINNERS, *(pytest.param(c.source, marks=pytest.mark.thorough) for c in ATTACKS)])
def test_who_owns_the_box_wins_nothing(tmp_path, attack):
    """The answer to f is wrong for the hidden input, or altogether."""
    wrong = ANSWERS | {"f": "def f(x):\n    return 4", "g": "def g(x):\n    return 4"}
    assert points(graded(tmp_path, wrong, above=attack, seconds=5)) == 0
