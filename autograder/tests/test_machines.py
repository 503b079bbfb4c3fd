"""Unit 10 on processors that this one is not: what it says of rounding is probed, so it holds on each of them.

`benchmarks/machines.py` has the other units and conditions; its table is held to have no red field.
"""

import os
import platform
import subprocess
import sys

import machines
import pytest
from _table import read
from conftest import COURSE

from autograder.doors.graded_notebook import failure_text, is_graded, read_notebook, score
from autograder.doors.kernel_runner import Runner

pytestmark = pytest.mark.notebooks
x86_64 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="the instruction sets are those of x86-64"
)
UNIT = "10_when_jit_changes"
FMA = "| a product and a sum in one step (sections 3 to 5) | {} |"
NOWHERE, HERE = "**not here**", "yes"


def run(condition, kind, monkeypatch, until=None):
    """Unit 10, lesson or solution, run under a condition of `benchmarks/machines.py` (until a cell says `until`)."""
    with machines.CONDITIONS[condition].enter() as (root, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        path = machines.path_of(root, UNIT, kind)
        notebook = read_notebook(path)
        with Runner(notebook, path.parent) as runner:
            for index, cell in enumerate(notebook.cells):
                if cell.cell_type == "code":
                    runner.run(index)
                if until and until in outputs(notebook):
                    break
    return notebook


def outputs(notebook):
    """What its cells printed and displayed, as one text."""
    found = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(output.get("text") or output.get("data", {}).get("text/markdown", "") for output in found)


@pytest.mark.parametrize(
    "condition, fma, chain",
    [
        pytest.param("SSE4_2", NOWHERE, "| `float16` | **not here**", marks=[x86_64, pytest.mark.thorough]),
        pytest.param("AVX2", HERE, "| `float16` | **none changes.**", marks=[x86_64, pytest.mark.thorough]),
        # 439 is what a processor with float16 arithmetic was seen to change as well.
        pytest.param(
            "float16", None, "| `float16` | **439 of 4096 change.**", marks=[pytest.mark.once, pytest.mark.thorough]
        ),
    ],
)
def test_lesson_10_holds_and_says_what_this_processor_does(condition, fma, chain, monkeypatch):
    # Nothing below section 7 calculates in float16.
    lesson = run(condition, "lesson", monkeypatch, until=chain if condition == "float16" else None)
    assert not "".join(failure_text(cell) for cell in lesson.cells if cell.cell_type == "code")
    said = outputs(lesson)
    assert chain in said
    assert fma is None or FMA.format(fma) in said
    streams = [output for cell in lesson.cells for output in cell.get("outputs", []) if output.get("name") == "stderr"]
    assert not streams


@x86_64
@pytest.mark.thorough
@pytest.mark.parametrize("condition, fma", [("SSE4_2", False), ("AVX2", True)])
def test_solution_10_earns_every_point(condition, fma, monkeypatch):
    solution = run(condition, "solution", monkeypatch)
    assert f"FMA {fma}, EXCESS True" in outputs(solution)
    missed = [result.message for cell in filter(is_graded, solution.cells) if (result := score(cell)).message]
    assert not missed


@pytest.mark.once
def test_a_system_without_schedstat_is_played_to_the_kernel_and_to_the_measuring_process():
    program = (
        "from autograder.measuring.bench import cores; from autograder.measuring.worker.clock import Clock, workers\n"
    )
    program += "print(Clock().scheduled, cores(), workers(1))"
    with machines.CONDITIONS["no schedstat"].enter() as (root, environment):
        command = [sys.executable, "-c", program]
        played = subprocess.run(
            command, cwd=root, env={**os.environ, **environment}, capture_output=True, text=True, check=True
        )
    assert played.stdout.strip() == "False [-1] {}"


@pytest.mark.once
def test_the_committed_table_has_every_condition_on_both_versions_and_no_red_field():
    rows = read(COURSE / "benchmarks/machines.csv")
    assert not [row for row in rows if not machines.is_green(row)]
    for version in {row["jax"] for row in rows}:
        assert {row["condition"] for row in rows if row["jax"] == version} == set(machines.CONDITIONS)
    assert len({row["jax"].rsplit(".", 1)[0] for row in rows}) >= 2
