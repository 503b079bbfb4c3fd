"""minijit grows over five units, and each of them starts from the version that the ones before have made."""

import ast

import pytest
from conftest import COURSE, UNITS

from autograder.doors.graded_notebook import read_notebook

CHANGED = {
    "03": {"Tape", "Tracer", "record"},  # a tape notes its tracers; a tracer refuses what has no value yet
    "05": {"Tracer"},  # the learner's `no_value` of unit 03 is one of its methods now
}


class WithoutProse(ast.NodeTransformer):
    """Drops docstrings: a task's says what to write, the given version's what was written."""

    def _drop(self, node):
        self.generic_visit(node)
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return node

    visit_FunctionDef = visit_ClassDef = _drop


def definitions(unit):
    """(names of the given version, all names of the unit's minijit): name -> code without prose."""
    given, everything = {}, {}
    built = COURSE / "solutions" / unit / f"{unit[3:]}.ipynb"
    for cell in read_notebook(built).cells if '"minijit' in built.read_text() else []:
        entry = cell.metadata.get("nbgrader", {})
        if not entry.get("grade_id", "").startswith("minijit") or entry["grade"]:
            continue
        for node in ast.parse(cell.source).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                code = {node.name: ast.unparse(WithoutProse().visit(node))}
                everything |= code
                given |= code if entry["grade_id"] == f"minijit-{unit[:2]}-spec" else {}
    return given, everything


MADE = {unit[:2]: definitions(unit) for unit in UNITS}
STEPS = [unit for unit, (given, _) in MADE.items() if given]


def test_the_spine_has_five_steps():
    assert STEPS == ["02", "03", "05", "07", "08"]


@pytest.mark.parametrize(("before", "unit"), list(zip(STEPS, STEPS[1:], strict=False)))
def test_a_unit_gives_what_the_units_before_it_have_made(before, unit):
    made = {}
    for step in STEPS[: STEPS.index(before) + 1]:
        made |= MADE[step][1]
    given = MADE[unit][0]
    assert len(given) > 10
    different = {name for name in given if name in made and given[name] != made[name]}
    assert different == CHANGED.get(unit, set())
