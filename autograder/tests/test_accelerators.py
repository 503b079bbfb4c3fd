"""What can be said of a GPU or TPU without one: programs are lowered for them, checks survive their rounding.

Lessons take too long to be run once more here: `python benchmarks/accelerator.py --lower` lowers theirs. The one
program of theirs that it refuses is in lesson 12, a file that was exported for the CPU alone, as the lesson says.
"""

import ast
import re

import _lowering
import _matrix_units
import jupytext
import pytest
from _notebooks import run_notebook
from conftest import COURSE, UNITS

pytestmark = [pytest.mark.once, pytest.mark.thorough, pytest.mark.notebooks]

PIN = 'jax.config.update("jax_platforms", "cpu")'
# Units whose checks compare matrix products, but for those with a speed task: rounding is slow when it is emulated.
PRODUCTS = ["03_ghost_effects", "08_composition", "11_memory", "12_ahead_of_time", "13_many_devices"]


GROUPS = [UNITS[::2], UNITS[1::2]]  # what one process lowers: JAX is imported once for all of them


def group_of(unit):
    return next(group for group in GROUPS if unit in group)


def grouped(unit):
    return pytest.param(unit, marks=pytest.mark.xdist_group(f"lower {group_of(unit)[0]} and others"))


@pytest.fixture(scope="module", params=map(grouped, UNITS))
def unit(request):
    return request.param


@pytest.fixture(scope="module")
def all_lowered():
    return {}


@pytest.fixture(scope="module")
def lowered(unit, all_lowered, request):
    if unit not in all_lowered:
        params = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
        asked = [u for u in group_of(unit) if any(p.get("unit") == u for p in params)]
        found = _lowering.lower_notebooks([COURSE / "solutions" / u / f"{u[3:]}.py" for u in asked])
        all_lowered |= zip(asked, found, strict=True)
    return all_lowered[unit]


def jitted_functions(unit):
    """The functions under `jax.jit` at the top of a solution's answers."""
    for cell in jupytext.read(COURSE / "solutions" / unit / f"{unit[3:]}.py").cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            for node in ast.parse(cell.source).body:
                if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in node.decorator_list):
                    yield node.name


def test_every_program_of_a_solution_is_lowered_for_cuda_and_tpu(lowered):
    assert lowered.programs >= 1
    assert lowered.refused == {}


def test_every_jitted_answer_is_among_them(unit, lowered):
    assert set(jitted_functions(unit)) <= set(lowered.inside)


def test_what_cannot_be_exported_calls_python_and_is_where_callbacks_are_taught(unit, lowered):
    assert not lowered.callbacks or unit[:2] in {"03", "07"}


def test_what_has_no_rule_on_another_platform_is_found(tmp_path):
    text = tmp_path / "notebook.py"
    text.write_text(
        "import jax\nimport jax.numpy as jnp\n\n\n"
        "@jax.jit\ndef fine(x):\n    return x + 1\n\n\n"
        "@jax.jit\ndef of_the_cpu(x):\n    return jax.lax.linalg.schur(x)[0]\n\n\n"
        "@jax.jit\ndef talks(x):\n    jax.debug.print('{}', x)\n    return x\n\n\n"
        "fine(1.0), of_the_cpu(jnp.eye(3)), talks(1.0)\n"
    )
    (found,) = _lowering.lower_notebooks([text])
    assert (found.programs, found.callbacks, found.failed) == (3, ["talks"], [])
    assert found.refused.keys() == {"of_the_cpu, cuda", "of_the_cpu, tpu"}
    assert found.inside == ["fine", "of_the_cpu", "talks"]


@pytest.mark.parametrize("with_products", PRODUCTS)
def test_a_solution_keeps_its_points_where_products_drop_digits(with_products):
    with _matrix_units.environment("bfloat16") as variables:  # the coarser of the two
        result = run_notebook(COURSE / "solutions" / with_products / f"{with_products[3:]}.ipynb", variables)
    assert (result.failure, result.points) == ("", result.possible)


@pytest.mark.parametrize("course_unit", UNITS)
def test_a_notebook_that_keeps_to_the_cpu_says_why(course_unit):
    solution = COURSE / "solutions" / course_unit / f"{course_unit[3:]}.py"
    for path in (COURSE / "lessons" / f"{course_unit}.py", solution):
        pinned = [line for line in path.read_text().split("\n") if PIN in line and not line.startswith("#")]
        assert all(re.search(r"  # \w+", line) for line in pinned), path.name
