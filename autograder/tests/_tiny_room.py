"""A course of two lessons and one exercise without JAX, and a learner's room in it."""

import json
from pathlib import Path

import nbformat
from conftest import graded, locked, solution
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.not_begun import STUB

UNIT, NAME = "01_powers", "powers"
SETUP = """
from autograder.doors.cell_messages import register

register()  # what importing a check does, which imports JAX as well


def check(value, expected):
    assert value == expected, f"{value} is not {expected}"
"""
LESSONS = {"00_before": "# 00 · Before you start", "01_powers": "# 01 · Powers: two and three"}


def hints(*texts: str) -> str:
    """Hints as an exercise writes them."""
    marked = (f"<details><summary>Hint {i}</summary>\n{text}\n</details>" for i, text in enumerate(texts, start=1))
    return "\n".join(marked)


def stub(name: str, said: str = STUB) -> str:
    """A function that nobody has filled in."""
    return f'def {name}(x):\n    raise NotImplementedError("{said}")'


def _code(source: str, entry: dict | None = None):
    metadata = {"nbgrader": entry} if entry else {}
    return new_code_cell(source, id=entry["grade_id"] if entry else "own", metadata=metadata)


FENCED = "\n```python\ndef f():\n\n    ...\n```"
CELLS = [
    new_markdown_cell("# Exercise 01 · Powers", id="title"),
    _code(SETUP, locked("setup")),
    new_markdown_cell(
        "## Task 1 · The square (2 points)\n\n" + hints("one\n&lt; two", "two", FENCED),
        id="task-1",
    ),
    _code(stub("square"), solution("square")),
    _code('"""2 points. It squares."""\ncheck(square(3), 9)', graded("square-check", 2)),
    new_markdown_cell("## The material", id="material"),
    _code("limit = 3"),
    new_markdown_cell("## 2 · The others (3 points)\n\n" + hints("a", "b", "c"), id="task-2"),
    _code(stub("cube"), solution("cube")),
    _code('"""2 points. It cubes."""\ncheck(cube(3), 27)', graded("cube-check", 2)),
    new_markdown_cell("Now the last.\n\n" + hints("d", "<code>x</code>:\n<pre>a\n  b</pre>"), id="last"),
    _code(stub("root"), solution("root")),
    _code('"""1 point. With tiers."""\ncheck(root(9), 3)\n0.5', graded("root-check", 1)),
]
ANSWERS = {
    "square": "def square(x):\n    return x * x",
    "cube": "def cube(x):\n    return x * x * x",
    "root": "def root(x):\n    return x**0.5",
}


def make_course(folder: Path) -> Path:
    """Write the course; returns its folder."""
    for name, title in LESSONS.items():
        cells = [new_markdown_cell(title, id="title"), new_code_cell("guess = None", id="guess")]
        write(folder / "lessons" / f"{name}.ipynb", cells)
    write(folder / "exercises" / UNIT / f"{NAME}.ipynb", CELLS)
    (folder / "nbgrader_config.py").touch()
    return folder


def write(path: Path, cells: list) -> None:
    """Write a notebook of these cells."""
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=cells), path)


def edit(notebook: Path, **sources: str) -> None:
    """Give cells of a notebook, by their ids, another source."""
    content = json.loads(notebook.read_text())
    for cell in content["cells"]:
        cell["source"] = sources.get(cell["id"].replace("-", "_"), cell["source"])
    notebook.write_text(json.dumps(content))


def sources(notebook: Path) -> dict[str, str]:
    """id -> source of each cell of a notebook."""
    return {cell["id"]: "".join(cell["source"]) for cell in json.loads(notebook.read_text())["cells"]}
