"""Functions of a check that are run in the box: they see the process of the answer, and the judge has what they say."""

# ruff: noqa: F811 (a fixture is imported, and asked for by its name)

import ast
import re
import threading
import tomllib

import jax.numpy as jnp
import numpy as np
import pytest
from _tiny_unit import ALL, as_solved
from _unit import UNITS, is_answer, unit_as_built
from test_two_rooms import BOTH, graded, points, said
from test_two_rooms_link import hostile, notebook, of_the_box, rooms  # noqa: F401

from autograder.doors.box.rules import why_not
from autograder.doors.judge.beside import TABLE, Marked, beside, in_their_place, sent
from autograder.doors.judge.link import Link
from autograder.doors.judge.values import CannotCross
from autograder.failure import CheckFailed

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("two rooms")]
in_a_box = pytest.mark.skipif(bool(why_not()), reason=f"not here, because {why_not()}")


@notebook
def looked_at(answer, x):
    import threading

    return threading.get_ident(), answer(x), id(answer)


def test_it_sees_the_answer_itself_where_that_runs(rooms):
    def doubled(x):
        return 2 * x

    stand_in = of_the_box(rooms, doubled=notebook(doubled))
    where, result, number = rooms.ask_beside(looked_at, (stand_in, jnp.arange(3)), {})
    assert where != threading.get_ident() and number == id(doubled)
    np.testing.assert_array_equal(result, [0, 2, 4])
    assert rooms.counted == 1


def test_a_function_of_a_locked_cell_has_the_names_of_the_box(rooms):
    @notebook
    def names_there():
        return sorted(globals())

    rooms.box["made_there"] = 1
    assert "made_there" in rooms.ask_beside(names_there, (), {})


def test_its_names_mean_what_they_mean_now(rooms):
    names = {"rate": 2, "__builtins__": __builtins__}
    exec("def scaled(x):\n    return rate * x + shift", names)
    names["scaled"].__module__ = "__main__"
    rooms.box["shift"] = 1
    first = rooms.ask_beside(names["scaled"], (10,), {})
    names["rate"], rooms.box["shift"] = 3, 5
    assert (first, rooms.ask_beside(names["scaled"], (10,), {})) == (21, 35)


def test_what_it_changes_of_its_arguments_is_changed_here(rooms):
    @notebook
    def emptied(numbers, found):
        numbers[:] = 0
        found["done"] = True

    numbers, found = np.ones(3), {}
    assert rooms.ask_beside(emptied, (numbers,), {"found": found}) is None
    assert numbers.tolist() == [0, 0, 0] and found == {"done": True}


def test_one_that_keeps_something_in_the_check_cannot_go(rooms):
    kept = []

    @notebook
    def keeps(x):
        kept.append(x)

    with pytest.raises(CannotCross, match="keeps keeps something in the check"):
        rooms.ask_beside(keeps, (1,), {})
    assert kept == []


def test_one_calls_another_where_it_runs(rooms):
    @notebook
    def inner():
        import threading

        return threading.get_ident()

    inner_here = notebook(sent(inner, lambda *_: pytest.fail("the box asked the judge")))

    @notebook
    def outer():
        return inner_here()

    assert rooms.ask_beside(outer, (), {}) not in (None, threading.get_ident())


def test_a_failure_there_is_a_failure_here(rooms):
    @notebook
    def fails():
        from autograder.failure import fail

        fail("the cache grew", why="it keeps all", attempt="drop one")

    with pytest.raises(CheckFailed, match="the cache grew"):
        rooms.ask_beside(fails, (), {})


def test_the_box_can_have_nothing_run_in_the_judge(capfd):
    question = {
        "ask": "beside",
        "args": {"is": "tuple", "v": [{"is": "named", "module": "builtins", "name": "print"}, 1]},
        "keywords": {"is": "dict", "v": []},
    }
    judge = hostile([question, {"value": 5}])
    judge._things.borrow(9, None, judge._things.ask)
    assert judge.ask_thing(9, "call", (), {}) == 5
    answers = [Link(judge._other).receive()[0] for _ in range(2)]
    assert "error" in answers[1] and capfd.readouterr().out == ""


# --- where a check calls it ---


def test_the_functions_of_a_cell_are_decorated_and_its_lines_stay():
    cell = "import os\n\n@first\ndef looks(x):\n    return 1 / x\n\ndef other(x):\n    def looks(): ...\n"
    tree = Marked(["looks"], "a.b('c')").visit(ast.parse(cell))
    found = [
        ast.unparse(d) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for d in node.decorator_list
    ]
    assert found == ["first", "a.b('c')"]
    names = {"first": lambda fn: fn, "a": type("a", (), {"b": staticmethod(lambda c: lambda fn: fn)})}
    exec(compile(tree, "cell", "exec"), names)
    with pytest.raises(ZeroDivisionError) as caught:
        names["looks"](0)
    assert caught.traceback[-1].lineno + 1 == 5


def test_functions_are_themselves_again_when_the_check_is_done():
    def looks(x):
        return x

    def another(x):
        return x

    def ask(fn, args, keywords):
        return fn, args, keywords

    names = {"looks": looks, "a": 1}
    with in_their_place(["looks", "a", "not_there", "another"], names, ask):
        assert names["looks"](1, y=2) == (looks, (1,), {"y": 2}) and names["a"] == 1
        names["another"] = sent(another, ask)  # by the cell
    assert names == {"looks": looks, "a": 1, "another": another}


def with_looks(judged):
    """The tiny unit, whose first check looks at the answer with a function of its own and one of a locked cell."""
    unit = as_solved()
    unit.cells[0].source += "\n\n\ndef code_of(fn):\n    fn(1)\n    return fn.__code__.co_name"
    unit.cells[2].source = (
        "def looks(fn):\n    return fn(2), code_of(fn)\n\n\n"
        f"check([looks(f), code_of(f)], [(4, 'f'), 'f'])\ncheck(f.__code__.co_name == 'f', {not judged})"
    )
    return unit


@in_a_box
@pytest.mark.parametrize("judged", [True, False])
def test_a_check_that_looks_at_the_process_is_judged(tmp_path, monkeypatch, judged):
    monkeypatch.setattr("autograder.doors.judge.two_rooms.beside", {"f-check": ["looks", "code_of"]}.get)
    notebook = graded(tmp_path, judged=BOTH if judged else (), released=with_looks(judged))
    assert points(notebook) == ALL, said(notebook, "f-check")


# --- the table ---

COMPARES = r"assert_\w+|\w+_slow|(spec|right|wanted|expected|honest)_\w+|wanted|expected|right|check"
BRINGS_TO_A_STATE = {("trained_slowly", "epoch_slow")}  # which is no reference there: the answer's own epoch follows it


@pytest.mark.parametrize("name", UNITS)
def test_what_runs_beside_an_answer_is_there_and_compares_nothing_with_what_is_right(name):
    unit = unit_as_built(name)
    above = [cell.source for cell in unit.ungraded if not is_answer(cell)]
    for check, cell in unit.checks.items():
        defined = {
            node.name: node
            for source in (*above, cell.source)
            for node in ast.parse(source).body
            if isinstance(node, ast.FunctionDef)
        }
        for function in beside(check):
            if function not in defined and sum(check in unit_as_built(other).checks for other in UNITS) > 1:
                continue  # it is that of another unit's check of the same name
            assert function in defined, f"{check}: {function} is no function of its cell or of a locked one"
            used = {(function, node.id) for node in ast.walk(defined[function]) if isinstance(node, ast.Name)}
            found = [one for _, one in used - BRINGS_TO_A_STATE if re.fullmatch(COMPARES, one)]
            assert found == [], f"{check}: {function}"


def test_every_line_of_the_table_is_of_a_check():
    assert set(tomllib.loads(TABLE.read_text())) <= {check for name in UNITS for check in unit_as_built(name).checks}
