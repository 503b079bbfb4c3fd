"""Run one notebook under given conditions, in a process of its own: its points, its first failure, its seconds."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

LIMIT = 900  # seconds for a whole notebook
CELL_SECONDS = 120  # for each of its cells


class Result(NamedTuple):
    """What a notebook came to. `points` and `possible` are 0 for a lesson; `failure` is empty when all is well."""

    points: float
    possible: float
    failure: str  # "cell 12 (grade_id or first line): what it ended in", of the first cell that failed
    seconds: float


def run_notebook(path: Path, environment: dict[str, str]) -> Result:
    """Run every code cell of the notebook at `path`, its folder the working folder.

    `environment` is added to this process's; the kernel and the measuring process inherit it. A lesson fails as its
    test does: by an error, or by text on standard error. A solution fails by a graded cell that misses points, or
    by any cell that ends in an error. A failure never stops the run, and never raises.
    """
    began = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, __file__, str(path)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        printed, complaint = child.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        child.terminate()  # its kernel ends with it
        child.communicate()
        return Result(0.0, 0.0, f"did not end within {LIMIT} s", time.perf_counter() - began)
    seconds = time.perf_counter() - began
    try:
        return Result(*json.loads(printed.splitlines()[-1]), seconds)
    except (IndexError, json.JSONDecodeError):
        last = next((line for line in reversed(complaint.splitlines()) if line.strip()), "no word why")
        return Result(0.0, 0.0, f"the notebook was not run: {last}", seconds)


def _run(path: Path) -> tuple[float, float, str]:
    """Points, possible points and the first failure of the notebook at `path`, run in a kernel of this process."""
    from autograder.doors.graded_notebook import failure_text, is_graded, read_notebook, score
    from autograder.doors.kernel_runner import Runner

    notebook = read_notebook(path)
    is_lesson = not any(is_graded(cell) for cell in notebook.cells)
    earned = possible = 0.0
    failures = []
    with Runner(notebook, path.parent, CELL_SECONDS) as runner:
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type != "code":
                continue
            runner.run(index)
            message = failure_text(cell)
            if is_graded(cell):
                result = score(cell)
                earned, possible, message = earned + result.earned, possible + result.possible, result.message
            elif is_lesson and not message:
                noise = [o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stderr"]
                message = "wrote to standard error: " + " ".join(noise) if noise else ""
            if message:
                name = cell.metadata.get("nbgrader", {}).get("grade_id") or _first_line(cell.source)
                failures.append(f"cell {index} ({name}): {brief(message)}")
    return earned, possible, failures[0] if failures else ""


def _first_line(source: str) -> str:
    return next((line for line in source.splitlines() if line.strip()), "")[:60]


def brief(message: str) -> str:
    """The line of a message that says what happened: the last one of a traceback, else the first."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1 if "Traceback" in message else 0][:200]


if __name__ == "__main__":
    print(json.dumps(_run(Path(sys.argv[1]))))
