"""An answer's helpers may have any name: what a check calls by the same one stands elsewhere when it is graded."""

import ast
import dis

import pytest
from conftest import COURSE, UNITS, graded, locked, solution
from test_guard import SETUP, STUB, judged, notebook, unit

from autograder.doors.graded_notebook import failure_text, is_graded, read_notebook, score
from autograder.doors.guard.cells import Guard, course_in
from autograder.doors.guard.course import bound, parsed
from autograder.doors.guard.names_of_checks import OfChecks
from autograder.doors.kernel_runner import Runner
from autograder.doors.run_submission import Conditions, run_submission

pytestmark = pytest.mark.once  # the same on every version


def run(source, names, given=()):
    """The names that a notebook has after a cell whose own `names` stand elsewhere."""
    there = dict(given)
    exec(compile(OfChecks(names).visit(ast.parse(source)), "check", "exec"), there)
    return there


EVERYTHING = '''
import math as m
from math import tau
found = [0]
found[0] += 1
for one, *rest in [(1, 2, 3)]:
    found.append(one + rest[-1])
with open(__file__) as text:
    length = len(text.read())
try:
    1 / 0
except ZeroDivisionError as error:
    why = str(error)
match {"a": 1, "b": [2, 3]}:
    case {"a": number, "b": [_, last], **others}:
        pass
if (big := len(found)) > 1:
    def twice(found, /, *rest, one=m.pi, **others):
        """Of its own names, and of one that is the notebook's."""
        global total
        total = found
        inner = lambda big: big + found + (lambda: last)()
        return inner(1) + big + one
    class Box:
        found = 7
        here = found
        def number(self, why=here):
            return len(found) + why + Box.found
    def countdown(n):
        return n and countdown(n - 1) + 1
total = 0
result = twice(1)
squares = [found * number for found in found for number in (found, last)]
table = {big: {why for why in str(big)} for big in range(big) if big}
defined = (twice.__name__, Box.__qualname__)
answers = (total, len(found), m.pi == 3, defined, Box().number(), countdown(3), squares, result)
del rest
checked = (one, last, others, number, tau, why, sorted(table), f"{big}{found[1]!r}")
'''


def test_what_a_check_does_is_the_same_under_other_names():
    names = bound(ast.parse(EVERYTHING)) - {"answers", "defined", "checked", "_", "length", "text"}
    assert {"m", "tau", "found", "why", "others", "twice", "Box", "big", "squares", "rest"} <= names
    here = {"__file__": __file__, "__name__": "x"}
    mine = {name: f"my {name}" for name in names}
    there = run(EVERYTHING, names, here | mine)
    plain = run(EVERYTHING, (), here)
    assert (there["answers"], there["checked"]) == (plain["answers"], plain["checked"])
    assert there["defined"] == ("twice", "Box")  # they still have the names that they are defined by
    assert {name: there[name] for name in names} == mine
    changed = OfChecks(names).visit(ast.parse(EVERYTHING))
    assert ast.dump(OfChecks(names).visit(changed)) == ast.dump(changed)
    assert "found" not in run("found = 1\ndef found(): pass\nasync def found(): pass", ["found"])


CHECK = """
def one_of(found):
    return found
found = one_of(g(3)) + twice
assert found == 10, f"{found}"
"""
MINE = """
twice = 4
def found(x):
    return x + twice
def one_of(x):
    return found(x)
def g(x):
    return one_of(x)
"""


def test_an_answer_keeps_helpers_that_have_the_names_of_a_check(tmp_path):
    """Checks know each other's names, and none of the answer's that are not asked for."""
    checks = [("twice = 3\nassert g(1) == 5", graded("a", 1)), (CHECK, graded("b", 2)), (CHECK, graded("c", 4))]
    after = ("print(twice, found(1), one_of(2), g(3))", solution("after"))
    made = notebook((SETUP, locked("setup")), (MINE, solution("g")), *checks, after)
    release = notebook((SETUP, locked("setup")), (STUB, solution("g")), *checks, ("", solution("after")))
    with Runner(made, tmp_path, 60, guard=Guard(made, course_in(made, release))) as runner:
        runner.run_all()
    assert [score(cell).earned for cell in made.cells if is_graded(cell)] == [1, 2, 4], [
        failure_text(cell) for cell in made.cells if is_graded(cell)
    ]
    assert made.cells[-1].outputs[0].text == "4 5 6 7\n"


HIDDEN = """
seen = 3
### BEGIN HIDDEN TESTS
fresh = 7
assert g(fresh) == 14
### END HIDDEN TESTS
"""
READS = """
fresh, seen = 0, []
def g(x):
    seen.append(fresh)
    return 2 * x
"""


def test_so_does_a_check_with_hidden_tests_when_a_submission_is_run(tmp_path):
    """Its text is another one then: it prints where its hidden tests begin."""
    after = ("print(fresh, seen)", solution("after"))
    made = notebook((SETUP, locked("setup")), (READS, solution("g")), (HIDDEN, graded("a", 1)), after)
    release = notebook(
        (SETUP, locked("setup")), (STUB, solution("g")), (HIDDEN, graded("a", 1)), ("", solution("after"))
    )
    run_submission(made, tmp_path, Conditions(60, 600, box=None), course_in(made, release))
    assert score(made.cells[2]).earned == 1, failure_text(made.cells[2])
    assert made.cells[-1].outputs[0].text == "0 [0]\n"


def test_a_check_of_another_text_than_the_guard_knows_earns_nothing(tmp_path):
    made = notebook(("def g(x): return 2 * x", solution("g")), ("assert g(1) == 2", graded("a", 1)))
    guard = Guard(made)
    made.cells[1].source += "  # changed since"
    with Runner(made, tmp_path, 60, guard=guard) as runner:
        runner.run_all()
    assert score(made.cells[1]).earned == 0


REFUSED = {
    "def g(x):\n    return expected": "reads expected",
    "def g(x):\n    return expected__of_the_checks": "reads expected__of_the_checks",
    "def g(x):\n    global expected__of_the_checks\n    expected__of_the_checks = x": "writes expected__of_the_checks",
    "expected__of_the_checks = 1": "writes expected__of_the_checks",
}


@pytest.mark.parametrize("answer", REFUSED, ids=range(len(REFUSED)))
def test_what_a_check_keeps_is_out_of_reach(answer):
    assert REFUSED[answer] in judged(answer).why


@pytest.mark.notebooks
@pytest.mark.thorough
@pytest.mark.parametrize("name", UNITS)
def test_no_unit_has_a_name_that_an_answer_may_not_have(name, tmp_path):
    """A solution in which every name that checks alone bind is a helper of the answer's, too."""
    course, solved = unit(name)
    names = sorted(course.of_checks)
    mine = "\n".join(f"def {name}():\n    return '{name}'" for name in names)
    same = f"assert [{', '.join(f'{name}()' for name in names)}] == {names}"
    first = next(n for n, cell in enumerate(solved.cells) if (guard := Guard(solved, course)).is_theirs(cell))
    made = read_notebook(COURSE / "solutions" / name / f"{name[3:]}.ipynb")
    assert not bound(parsed(made.cells[first].source)) & course.of_checks and guard
    made.cells[first].source += "\n" + mine
    made.cells.append(notebook((same, solution("same"))).cells[0])
    made.cells[-1].id = "the-last"
    with Runner(made, tmp_path, 120, guard=Guard(made, course)) as runner:
        runner.run_all()
    failures = [
        failure_text(cell) for cell in made.cells if is_graded(cell) and score(cell).earned < score(cell).possible
    ]
    assert not failures, failures
    assert not made.cells[-1].outputs


PUT_BACK = {"FMA", "EXCESS"}  # a check of 10 plays two machines, and ends as this one


@pytest.mark.parametrize("name", UNITS)
def test_no_check_gives_another_meaning_to_a_name_that_a_function_reads(name):
    """Where checks are run again, as learners do, that of another task would meet the new meaning."""
    notebook = read_notebook(COURSE / "solutions" / name / f"{name[3:]}.ipynb")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    sources = [cell.source for cell in code if not is_graded(cell)]
    bound_there = {name for source in sources for name in bound(parsed(source))}
    read = {name for source in sources for name in read_in_functions(compile(source, "cell", "exec"))}
    assert bound_there & read
    for cell in filter(is_graded, code):
        again = bound(parsed(cell.source)) & bound_there & read - PUT_BACK
        assert not again, f"{cell.metadata.nbgrader.grade_id} binds {sorted(again)}"


def read_in_functions(code, inside=False):
    """The names of its notebook that the functions of a cell look up."""
    steps = dis.get_instructions(code) if inside else ()
    found = {step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return found.union(*(read_in_functions(part, True) for part in code.co_consts if hasattr(part, "co_consts")))
