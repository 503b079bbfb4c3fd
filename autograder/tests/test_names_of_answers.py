"""A helper of an answer may have the name of something of the course's or of Python's: each keeps its own."""

import ast

import pytest
from conftest import COURSE as COURSE_FOLDER
from conftest import UNITS
from test_guard import CHECK, answered, judged

from autograder.doors.graded_notebook import failure_text, is_graded, nbgrader_metadata, read_notebook, score
from autograder.doors.guard.cells import Guard, course_in
from autograder.doors.guard.course import bound, parsed
from autograder.doors.guard.names_of_answers import OfAnswers, OfAnswersAsRead, own_names
from autograder.doors.kernel_runner import Runner

pytestmark = pytest.mark.once  # the same on every version

COURSE = course_in(answered("")[0], answered("")[1])

OWN = {
    "def check(x):\n    return x\ndef g(x):\n    return check(x)": {"check"},
    "def g(x):\n    return check(x)\ndef check(x):\n    return x": {"check"},  # called after the cell
    "def check(n):\n    return n and check(n - 1)": {"check"},
    "xs = [1, 2]\ndef g(x):\n    return xs[x]": {"xs"},
    "memo: dict = {}\ndef g(x):\n    return memo.setdefault(x, x)": {"memo"},
    "import numpy as jnp\nxs, memo = jnp.ones(2), {}\ndef g(x):\n    return xs": {"xs", "memo"},
    "def sum(values):\n    return 0\ndef g(x):\n    return sum([x])": {"sum"},
    "def check(x):\n    return x\ncheck = check": {"check"},  # the second one is its own already
    # what another statement binds or reads first, or a function writes
    "check(1, 1)\ndef check(x):\n    return x": set(),
    "xs = xs + 1\ndef g(x):\n    return xs": set(),
    "def check(x, xs=check):\n    return x": set(),
    "@check\ndef check(x):\n    return x": set(),
    "one = (lambda x=xs: x)\nxs = 1": set(),
    "class Mine:\n    one = xs\nxs = 1": set(),
    "if True:\n    def check(x):\n        return x": set(),
    "for xs in range(3):\n    pass\ndef g(x):\n    return xs": set(),
    "xs = 1\nxs += 1\ndef g(x):\n    return xs": set(),
    "xs = 1\ndel xs": set(),
    "memo = {}\ndef g(x):\n    global memo\n    memo = x": set(),
    "from math import tau as xs\ndef g(x):\n    return xs": {"xs"},
    "import math as xs\ndef g(x):\n    return xs.tau": {"xs"},
    "import numpy.linalg\nnumpy = 3": set(),
    "xs, = [1]": {"xs"},
    "class Box:\n    pass\ndef g(x):\n    return Box()": set(),  # may pass for the course's
    # one of Python's that no answer may use: what is called so is the cell's own, and Python's is not to be had
    "def eval(x):\n    return x\ndef g(x):\n    return eval(x)": {"eval"},
    "def compile(x):\n    return x\nvars = input = compile(3)": {"compile", "vars", "input"},
    "eval = print\ndef g(x):\n    return eval(x)": set(),
    "eval('1')\ndef eval(x):\n    return x": set(),
    "def getattr(x, name):\n    return x\ndef g(x):\n    return getattr(x, 'a')": set(),
    "def get_ipython():\n    return 3\ndef g(x):\n    return get_ipython()": set(),
    "__name__ = 1\ndef g(x):\n    return __name__": set(),
    "mine = 1": set(),
    # what is called before it is given
    "def f(x):\n    return sum(x)\ny = f([1])\nsum = y": set(),
    "f = lambda x: check(x)\nheld = [f]\nheld[0](1)\ndef check(x):\n    return x": set(),
    "held = {}\nheld[1] = lambda: check(1)\nheld[1]()\ndef check(x):\n    return x": set(),
    "def f(x):\n    return check(x)\n@jax.jit\ndef check(x):\n    return x\nf = jax.jit(f)": {"check"},
    "def f(x):\n    return check(x)\ndef check(x):\n    return x\nf(1)": {"check"},
    # in a class, which has the name for itself
    "xs = 1\nclass A:\n    a = xs\n    xs = 2": set(),
    "xs = 1\nclass A:\n    xs = 2\n    def f(self, k=xs):\n        return k": set(),
}


@pytest.mark.parametrize("cell", OWN, ids=range(len(OWN)))
def test_a_name_is_a_cells_own_if_the_cell_gives_it_a_meaning_before_it_reads_it(cell):
    assert own_names(ast.parse(cell), COURSE) == OWN[cell]


def test_nothing_of_the_courses_stands_under_the_other_name():
    """What is read under it is what the cell has made; what is run binds the same names as what is read."""
    for cell, names in OWN.items():
        read = ast.unparse(OfAnswersAsRead(names).visit(ast.parse(cell)))
        run = ast.unparse(OfAnswers(names).visit(ast.parse(cell)))
        for name in names:
            assert f"{name}__of_the_answer" in read and f"{name}__of_the_answer" in run
        assert not {n.id for n in ast.walk(ast.parse(read)) if isinstance(n, ast.Name)} & names


HELPERS = """
xs = {1: 2, 2: 4}
def check(value):
    "A helper."
    return xs[value] * check.factor if hasattr(check, "factor") else sum(value)
def sum(value):
    return xs[value] * 2
def g(x):
    return check(x)
assert g(2) == 8 and check.__name__ == "check" == check.__qualname__
"""


def test_an_answer_has_helpers_with_the_names_of_the_courses_and_checks_have_the_courses(tmp_path):
    check = CHECK + "\nassert xs.sum() == 3 and sum([1, 2]) == 3 and len(memo) == 0"
    made, release = answered(HELPERS, check)
    with Runner(made, tmp_path, 60, guard=Guard(made, course_in(made, release))) as runner:
        runner.run_all()
    found = [(score(cell).earned, score(cell).possible, failure_text(cell)) for cell in made.cells if is_graded(cell)]
    assert found and all(earned == possible > 0 for earned, possible, _ in found), found
    assert made.cells[1].outputs == []


IN_CLASSES = """
import dataclasses
def check(x):
    return ("mine", x)
class A:
    check = property(lambda self: check(1))
class B:
    def check(self):
        return check(2)
@dataclasses.dataclass
class C:
    check: int = 3
    twice: tuple = dataclasses.field(default_factory=lambda: check(4))
class D:
    class E:
        found = check(5)
    @staticmethod
    def check(x):
        return [check(x) for _ in range(1)]
def g(x):
    return A().check, B().check(), C().check, C().twice, D.E.found, D.check(6)
"""


def test_in_a_class_a_name_means_what_it_does_in_python(tmp_path):
    wanted = "(('mine', 1), ('mine', 2), 3, ('mine', 4), ('mine', 5), [('mine', 6)])"
    made, release = answered(IN_CLASSES, f"assert g(0) == {wanted}, g(0)")
    guard = Guard(made, course_in(made, release))
    assert guard.judged(made.cells[1]).apart == {"check"}
    with Runner(made, tmp_path, 60, guard=guard) as runner:
        runner.run_all()
    assert [failure_text(cell) for cell in made.cells if is_graded(cell)] == [""]


def test_the_name_under_which_it_stands_can_be_neither_written_nor_read():
    for cell in (
        "sum__of_the_answer = 1",
        "def g(x):\n    return sum__of_the_answer",
        "import math as a__of_the_answer",
    ):
        assert "that name is the grader's" in judged(cell).why
    assert judged("x = 'sum__of_the_answer'").name == ""


PYTHONS = """
def compile(x, y):
    return x * y
def open(path, mode):
    return compile(path, mode)
def vars(*parts):
    return sum(parts)
def eval(x):
    return vars(x, x)
input = eval(1)
class A:
    def eval(self, x):
        return eval(x)
def g(x):
    return open(input, A().eval(1)) * vars(x, 0)
"""


def test_a_helper_with_the_name_of_a_builtin_that_is_refused_is_the_cells_own(tmp_path):
    made, release = answered(PYTHONS, CHECK + "\nassert eval('1 + 1') == 2 and compile('1', '', 'eval')")
    guard = Guard(made, course_in(made, release))
    assert guard.judged(made.cells[1]).apart == {"compile", "open", "vars", "eval", "input"}
    with Runner(made, tmp_path, 60, guard=guard) as runner:
        runner.run_all()
    assert [failure_text(cell) for cell in made.cells if is_graded(cell)] == [""]
    assert made.cells[1].outputs == []


REFUSED = {
    "def check(*_):\n    return eval\ndef g(x):\n    return check(x)": "line 2 uses eval",
    "def check(*_):\n    DATA['a'] = 1\ndef g(x):\n    return check(x)": "line 2 writes a part of DATA",
    "xs = DATA\ndef g(x):\n    xs['a'].append(3)": "calls .append of xs",
    "xs = DATA\nmemo = xs\ndef g(x):\n    memo['a'] = 3": "means its own memo",  # as it was handed in
    "xs = np\ndef g(x):\n    xs.ones = 3": "writes .ones of xs",
    "def check(xs=DATA):\n    xs['a'] = 3\ndef g(x):\n    return check()": "writes a part of xs",
}


@pytest.mark.parametrize("cell", REFUSED, ids=range(len(REFUSED)))
def test_a_cell_with_names_of_its_own_is_read_like_any_other(cell):
    assert REFUSED[cell] in judged(cell).why.replace("__of_the_answer", "")


LATER = {  # what a check calls changes something that the cell calls as the course calls its data
    "DATA = {}\nlater = (DATA.clear() for _ in range(1))\ndef g(x):\n    return list(later)",
    "DATA = {1: 2}\nlater = lambda: DATA.clear()\ndef g(x):\n    later()",
    "DATA = 2\ndef g(x):\n    return x**DATA",
    "def g(x):\n    return [DATA.pop(0) for x in range(2) if DATA] and DATA\nDATA = [1, 2, 3]",
    "class A:\n    def run(self):\n        DATA.clear()\nDATA = {2}\ndef g(x):\n    return A().run()",
}


def test_what_an_answer_does_later_it_does_with_its_own(tmp_path):
    for cell in LATER:
        assert judged(cell).apart == {"DATA"}, cell
        made, release = answered(cell, "g(2)\nassert DATA == {'a': [1, 2]}")
        with Runner(made, tmp_path, 60, guard=Guard(made, course_in(made, release))) as runner:
            runner.run_all()
        assert [failure_text(cell) for cell in made.cells if is_graded(cell)] == [""], cell


def test_what_is_the_courses_stays_so_for_the_checks(tmp_path):
    """A cell cannot make a check easier by a helper that has the check's name."""
    cell = "def check(value, expected):\n    return check and None\ndef g(x):\n    return check(x, x)"
    assert judged(cell).apart == {"check"}
    made, release = answered(cell)
    with Runner(made, tmp_path, 60, guard=Guard(made, course_in(made, release))) as runner:
        runner.run_all()
    assert [score(cell).earned for cell in made.cells if is_graded(cell)] == [0]
    assert "AssertionError" in failure_text(made.cells[-1])


@pytest.mark.parametrize("name", UNITS)
def test_no_open_cell_of_a_release_binds_a_name_of_a_locked_one(name):
    """So a notebook that does not know its release knows which names are the course's."""
    release = read_notebook(COURSE_FOLDER / "exercises" / name / f"{name[3:]}.ipynb")
    cells = [cell for cell in release.cells if cell.cell_type == "code" and not is_graded(cell)]
    names = {True: set(), False: set()}
    for cell in cells:
        names[bool(nbgrader_metadata(cell).get("locked"))] |= bound(parsed(cell.source))
    assert names[True] and names[False] and not names[True] & names[False]


def test_nothing_changes_for_a_cell_that_means_the_courses_or_reads_its_own_at_the_top_alone():
    assert judged("def g(x):\n    return check(x, x)").apart == frozenset()
    assert judged("xs = 3\nprint(xs)\ndef g(x):\n    return x").apart == frozenset()
