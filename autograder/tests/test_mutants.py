"""The mutants of the answers: that the operators make them, that the table is of today's text, and what it must say."""

import ast
from functools import cache

import mutants as tool
import pytest
from _grader import Verdict
from _mutants import mutants
from _syntax import changed, made, places
from _table import read
from _unit import UNITS, VISIBLE, Unit, failed_in, unit_from_text
from conftest import assert_only_listed, graded, locked, solution
from nbformat.v4 import new_code_cell, new_output

KILLED = 0.97  # of the mutants that are not equivalent, in every unit
MUTANTS_TO_DO = "mutants_to_do.txt"

once = pytest.mark.once


# --- the table


@cache
def stale_tasks(name):
    """The tasks whose mutants have not been graded since their text changed, or never."""
    unit, rows = unit_from_text(name), read(tool.table_of(name))
    texts = {task: unit.digest(task) for task in unit.answers}
    assert {row["task"] for row in rows} <= texts.keys(), f"benchmarks/mutants/{name}.csv has tasks that do not exist"
    return {task for task in texts if {row["text"] for row in rows if row["task"] == task} != {texts[task]}}


def survivors(rows):
    return [row for row in rows if row["verdict"] == "survived"]


@once
@pytest.mark.parametrize("name", UNITS)
def test_the_mutants_of_each_task_are_graded_and_nearly_all_are_killed(name):
    """A task for which that does not hold is in a list, which may only get shorter."""
    rows, stale, of_task = read(tool.table_of(name)), stale_tasks(name), {}
    for row in rows:
        of_task.setdefault(row["task"], []).append(row)
    low = {task for task, made in of_task.items() if len(survivors(made)) > (1 - KILLED) * len(made)}
    killed = sum(row["verdict"] == "killed" for row in rows)
    if killed >= KILLED * (killed + len(survivors(rows))):
        low = set()  # in every unit, not in every task
    how = f"python benchmarks/mutants.py --unit {name[:2]}: these are not graded as they stand today, or survive"
    assert_only_listed({f"{name} {task}" for task in stale | low}, MUTANTS_TO_DO, name, how)


@once
@pytest.mark.parametrize("name", UNITS)
def test_no_mutant_is_called_equivalent_that_is_none(name):
    rows, stale = read(tool.table_of(name)), stale_tasks(name)
    faults = [fault for fault in tool.faults(name, rows) if not any(f": {task}," in fault for task in stale)]
    assert faults == []


@once
def test_the_page_is_of_the_tables():
    assert tool.table().split("|", 1)[1] == tool.TABLES.with_suffix(".md").read_text().split("|", 1)[1]


# --- the operators

ANSWER = '''
@jax.jit
def f(x, n, steps=3):
    """Not a place for mutants: 1 + 1."""
    ### BEGIN SOLUTION
    {body}
    ### END SOLUTION
'''
SPEC = "def f_slow(x, n):\n    return x\n"
CHECK = "for n in (4, 8):\n    assert_equal(f(1.0, n), f_slow(1.0, n))"


def make_unit(body: str, check: str = CHECK, outside: str = "") -> Unit:
    def cell(source, entry):
        return new_code_cell(source, metadata={"nbgrader": entry})

    answer = ANSWER.format(body=body.replace("\n", "\n    ")) + outside
    return Unit(
        "00_made_up",
        [
            cell("import jax", locked("setup")),
            cell(SPEC, locked("f-spec")),
            cell(answer, solution("f")),
            cell(check, graded("f-check", 1)),
        ],
    )


def changes(body: str, **how) -> dict[str, set[str]]:
    """Operator -> what stands behind the arrow, of the mutants of this body."""
    found: dict[str, set[str]] = {}
    for mutant in mutants(make_unit(body, **how), "f"):
        found.setdefault(mutant.operator, set()).add(mutant.change.split(" -> ", 1)[1])
    return found


@pytest.mark.parametrize(
    "body, operator, new",
    [
        ("return x + n", "arithmetic", "return x - n"),
        ("return x * n", "operand dropped", "return n"),
        ("return x - n", "operands swapped", "return n - x"),
        ("return x < n", "comparison", "return x <= n"),
        ("return x and n", "and/or", "return x or n"),
        ("return -x", "sign or not dropped", "return x"),
        ("return x if n else 0", "condition", "return x if not n else 0"),
        ("return [v for v in x if v]", "condition", "return [v for v in x if not v]"),
        ("return x + 5", "constant", "return x + 6"),
        ("return x + 5", "constant", "return x + 4"),
        ("return x, True", "constant", "return (x, False)"),
        ("return jnp.searchsorted(x, n, side='left')", "constant", "return jnp.searchsorted(x, n, side='right')"),
        ("return x * 0.5", "strong for weak", "return x * jnp.float32(0.5)"),
        ("return x, n", "elements swapped", "return (n, x)"),
        ("return jnp.zeros((n, 2))", "element dropped", "return jnp.zeros((n,))"),
        ("x = x + 1\nreturn x", "statement deleted", "pass"),
        ("return x", "returns None", "return None"),
        ("for v in x:\n    break\nreturn x", "break/continue", "continue"),
        ("return x[:n]", "slice bound", "return x[1:n]"),
        ("return x[:n]", "slice bound", "return x[:n - 1]"),
        ("return [x for _ in range(n)]", "loop bound", "return [x for _ in range(n - 1)]"),
        ("return jax.lax.scan(n, x, length=n)", "loop bound", "return jax.lax.scan(n, x, length=n + 1)"),
        ("for v in x:\n    n += v\nreturn n", "a part of the loop", "for v in list(x)[:1]:"),
        ("return jax.tree.leaves(x)", "first leaf only", "return jax.tree.leaves(x)[:1]"),
        ("return jnp.min(x)", "another function", "return jnp.max(x)"),
        ("return jnp.mean(x)", "another function", "return jnp.median(x)"),
        ("return x.astype(jnp.float32)", "another function", "return x.astype(jnp.float64)"),
        ("return sorted(x)", "call dropped", "return x"),
        ("return x.astype(n)", "call dropped", "return x"),
        ("return jax.vmap(g, in_axes=(0, None))(x)", "call dropped", "return g(x)"),
        ("return jax.vmap(g, in_axes=(0, None))(x)", "None for an axis", "return jax.vmap(g, in_axes=(None, None))(x)"),
        ("return jnp.sum(x, axis=0)", "keyword dropped", "return jnp.sum(x)"),
        ("return jax.jit(g, static_argnums=1)(x)", "keyword dropped", "return jax.jit(g)(x)"),
        ("return x.sum(0)", "argument dropped", "return x.sum()"),
        ("return g(x, n)", "arguments swapped", "return g(n, x)"),
        ("return np.pad(x, n)", "np for jnp", "return jnp.pad(x, n)"),
        ("return jax.lax.scan(g, x, n)", "reverse", "return jax.lax.scan(g, x, n, reverse=True)"),
        ("return x", "decorator dropped", "def f(x, n, steps=3):"),
        ("return x", "static or donated added", "@jax.jit(donate_argnums=0) def f(x, n, steps=3):"),
        ("return x", "static or donated added", "@jax.jit(static_argnames='n') def f(x, n, steps=3):"),
        ("g = lambda a, b: a - b\nreturn g(x, n)", "parameters swapped", "g = lambda b, a: a - b"),
        ("def g(v):\n    return jnp.sin(v)\n\nreturn g(x)", "jit added", "@jax.jit def g(v):"),
        ("return x", "the specification", "f_slow"),
        ("return x", "a callback to the specification", "f_slow"),
        ("return x", "a table of seen inputs", "f_slow"),
        ("return x", "a constant for an argument", "4"),
        ("return x", "a constant for an argument", "8"),
    ],
)
def test_an_operator_makes_its_mutant(body, operator, new):
    assert new in changes(body).get(operator, set())


def test_what_a_reader_sees_only_is_left_alone():
    made_of = changes("if n > 3:\n    raise ValueError('more than 3')\nreturn zip(x, x, strict=True)")
    texts = " ".join(new for group in made_of.values() for new in group)
    assert "XX" not in texts and "2 + 1" not in texts and "return zip(x, x)" not in texts
    assert "if n > 4:" in texts


def test_what_stands_outside_the_answer_is_left_alone():
    outside = "\nstart = 41\n"
    assert not any("42" in new for group in changes("return x", outside=outside).values() for new in group)


def test_a_stopped_gradient_is_for_tasks_that_take_one():
    assert "gradient stopped" not in changes("return x")
    assert "gradient stopped" in changes("return x", check="jax.grad(f)(1.0)")


def test_no_mutant_is_the_answer_or_another_mutant_and_each_has_a_name_of_its_own():
    found = mutants(make_unit("return 0 + 1 + 1 + x[0] + x[0]"), "f")
    trees = [ast.dump(ast.parse(mutant.source)) for mutant in found]
    assert len(set(trees)) == len(trees) and len({mutant.key for mutant in found}) == len(found)
    assert ast.dump(ast.parse(make_unit("return 0 + 1 + 1 + x[0] + x[0]").answers["f"].source)) not in trees


def test_a_change_leaves_the_tree_as_it_was():
    tree = ast.parse("x = 1 + 2")
    place = next(p for p in places(tree) if isinstance(p.node, ast.BinOp))
    assert changed(place, made("_0", place.node.left), tree) == ("x = 1", "x = 1 + 2 -> x = 1")
    assert ast.unparse(tree) == "x = 1 + 2"


# --- a unit, and where a check failed


def test_a_check_is_fed_by_what_it_names_itself_or_by_helpers():
    unit = make_unit("return x")
    assert unit.fed_by("f") == ["f-check"]
    unit.cells.insert(2, new_code_cell("def helper(x):\n    return f(x, 1)", metadata={"nbgrader": locked("h-spec")}))
    unit.cells.append(new_code_cell("assert helper(1)", metadata={"nbgrader": graded("by-helper", 1)}))
    unit.cells.append(new_code_cell("assert other(1)", metadata={"nbgrader": graded("not-fed", 1)}))
    assert unit.fed_by("f") == ["f-check", "by-helper"]
    unit.cells.insert(-2, new_code_cell("def g(x): ...", metadata={"nbgrader": solution("g")}))
    assert unit.fed_by("f") == ["f-check"]


def test_a_digest_follows_code_and_the_place_of_a_hidden_region_and_no_comment():
    unit, region = make_unit("return x"), "\n### BEGIN HIDDEN TESTS\nassert f(1, 2)\n### END HIDDEN TESTS"
    before = unit.digest("f")
    assert make_unit("return x", check=f"# why\n{CHECK}").digest("f") == before
    assert make_unit("return x", check=CHECK.replace("8", "9")).digest("f") != before
    assert make_unit("return x + 1").digest("f") != before
    hidden, visible = CHECK + region, CHECK + "\n\nassert f(1, 2)\n"
    assert make_unit("return x", check=hidden).digest("f") != make_unit("return x", check=visible).digest("f")


GROWN = CHECK + "\n### BEGIN HIDDEN TESTS\nassert f(1, 2)\n### END HIDDEN TESTS\n"


@pytest.mark.parametrize(
    "by, region, check, stays",
    [
        ("f-check", VISIBLE, GROWN, True),  # a hidden test more: what died before it still dies
        ("f-check", VISIBLE, f"# why\n{CHECK}", True),
        ("f-check", VISIBLE, CHECK.replace("8", "9"), False),
        ("f-check", 1, GROWN.replace("2)\n", "2)\nassert f(3, 4)\n"), True),  # the region grew at its end
        ("f-check", 1, GROWN.replace("1, 2", "1, 3"), False),
        ("f-check", 1, CHECK, False),  # the region is gone
        ("f-check", None, GROWN, False),  # it ran too long: nobody knows where
        ("", VISIBLE, CHECK.replace("8", "9"), True),  # its own cell did not run
        ("other-check", VISIBLE, GROWN, False),
    ],
)
def test_a_kill_stands_while_what_killed_asks_what_it_asked(by, region, check, stays):
    before = make_unit("return x + n", check=GROWN)
    before.cells.append(new_code_cell("assert f(0, 1)", metadata={"nbgrader": graded("other-check", 1)}))
    mutant = mutants(before, "f")[0]
    row = tool.row_of(before, mutant, Verdict(True, by, region, (), "no"), "")
    assert tool.still_dies(make_unit("return x + n", check=check), row) == stays
    assert not tool.still_dies(make_unit("return x - n", check=check), row)  # another solution has other mutants


def test_a_mutant_that_survived_is_graded_again():
    unit = make_unit("return x + n")
    row = tool.row_of(unit, mutants(unit, "f")[0], Verdict(False, "", None, (), ""), "")
    assert not tool.still_dies(unit, row)


@pytest.mark.parametrize(
    "traceback, region",
    [
        (["Cell In[7], line 2\n   f(1)", "Cell In[3], line 9, in f"], VISIBLE),
        (["\x1b[32mCell In[7], line 4\x1b[0m\n   f(1)", "Cell In[3], line 2, in f"], 1),
        (["✗ wrong", "  (line 4 of this cell)"], 1),
        (["✗ wrong", "  (line 6 of this cell)"], VISIBLE),
        (["TimeLimit: this cell ran longer"], None),
    ],
)
def test_the_first_line_of_the_cell_in_a_traceback_says_where_a_check_failed(traceback, region):
    source = "a = 1\nf(1)\n### BEGIN HIDDEN TESTS\nf(2)\n### END HIDDEN TESTS\nf(3)"
    error = new_output("error", ename="E", evalue="", traceback=traceback)
    assert failed_in(new_code_cell(source, outputs=[error])) == region


def test_points_that_are_lost_without_an_error_are_lost_where_everybody_sees_it():
    assert failed_in(new_code_cell("### BEGIN HIDDEN TESTS\n1\n### END HIDDEN TESTS")) == VISIBLE


# --- what the tool says


@pytest.mark.parametrize(
    "message, said",
    [
        ("✗ f is not jitted. Call it.\n  Why this usually happens: the line is missing.", "f is not jitted"),
        ("✗ f returned 7.\n  Why this usually happens: a sign. Or two.\n  Try: it.", "a sign"),
        ("Traceback (most recent call last)\n  ...\nTypeError: f() takes 1", "TypeError: f() takes 1"),
    ],
)
def test_the_message_for_a_wrong_answer_holds_no_number_that_may_be_random(message, said):
    assert tool.sentence(message) == said


def test_an_equivalent_that_does_not_exist_or_is_killed_is_a_fault(tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "TABLES", tmp_path)
    unit = make_unit("return x + n")
    verdicts = {True: Verdict(True, "f-check", 1, ("f-check 1",), "no"), False: Verdict(False, "", None, (), "")}
    some = mutants(unit, "f")[:2]
    entry = '[[equivalent]]\ntask = "f"\noperator = "{}"\nchange = "{}"\nreason = "it is"\n'
    (tmp_path / "00_made_up.toml").write_text("".join(entry.format(m.operator, m.change) for m in some))
    rows = [tool.row_of(unit, m, verdicts[False], "") for m in some]
    assert tool.faults("00_made_up", rows) == []
    assert "does not exist" in tool.faults("00_made_up", rows[1:])[0]
    rows[0] = tool.row_of(unit, some[0], verdicts[True], "")
    assert "f-check kills" in tool.faults("00_made_up", rows)[0]
    (tmp_path / "00_made_up.toml").write_text(2 * entry.format(some[0].operator, some[0].change))
    with pytest.raises(SystemExit, match="twice"):
        tool.equivalents("00_made_up")
