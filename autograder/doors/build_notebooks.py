"""Build every notebook from its text: lessons and solutions by jupytext, exercises by nbgrader.

`build-notebooks` run twice changes no byte; CI runs it and asks git whether anything changed.
"""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import jupytext
import nbformat

from .durations import write_durations
from .graded_notebook import nbgrader_metadata
from .ways_on import ways_on

_KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
_BEFORE_ANSWER = re.compile(r'(?<=""")\n(?=\n +### BEGIN SOLUTION\n)')  # ruff wants a blank line above a `def`


def notebook_from_text(text: Path) -> nbformat.NotebookNode:
    """The notebook of a py:percent file, with cell ids that depend on its content alone.

    jupytext gives each new cell a random id, so that two builds would differ.
    """
    notebook = jupytext.read(text)
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        name = nbgrader_metadata(cell).get("grade_id") or hashlib.sha256(cell.source.encode()).hexdigest()[:8]
        seen[name] = seen.get(name, 0) + 1
        cell.metadata.pop("lines_to_next_cell", None)  # a matter of the text alone
        cell.source = _BEFORE_ANSWER.sub("", cell.source)  # or an odd blank line is left in the stub
        cell.id = name if seen[name] == 1 else f"{name}-{seen[name]}"
    write_durations(notebook.cells)  # after the ids, which depend on the text alone
    if last := ways_on(text):
        notebook.cells.append(last)
    notebook.metadata = {"kernelspec": _KERNELSPEC, "language_info": {"name": "python"}}
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    nbformat.validate(notebook)
    return notebook


def build(course: Path) -> None:
    """Write every .ipynb of the course in this folder. Raises CalledProcessError if nbgrader refuses."""
    for text in sorted([*course.glob("lessons/*.py"), *course.glob("solutions/*/*.py")]):
        nbformat.write(notebook_from_text(text), text.with_suffix(".ipynb"))
    subprocess.run(
        [sys.executable, "-m", "nbgrader", "generate_assignment", "*", "--no-db", "--force"],
        cwd=course,
        check=True,
        capture_output=True,
        text=True,
    )


def main() -> int:
    """The command `build-notebooks`, run in the course's folder."""
    course = Path.cwd()
    if not (course / "nbgrader_config.py").exists():
        print("build-notebooks: run this in the course's folder, the one that holds nbgrader_config.py.")
        return 2
    try:
        build(course)
    except subprocess.CalledProcessError as error:
        print(error.stderr)
        print("build-notebooks: nbgrader could not make the exercises from the solutions; see above.")
        return 1
    return 0
