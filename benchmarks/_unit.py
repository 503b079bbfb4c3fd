"""One unit as a grader sees it: answer cells (tasks), graded cells (checks), what feeds what, hidden regions."""

import ast
import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jupytext
from _timed_text import bound_names, code_of, statements, timed_text
from nbformat import NotebookNode

from autograder.doors.build_notebooks import notebook_from_text
from autograder.doors.graded_notebook import asks_the_clock, is_graded, nbgrader_metadata, read_notebook
from autograder.doors.guard.course import course_of
from autograder.doors.hidden_tests import failing_line

COURSE = Path(__file__).parents[1]
UNITS = sorted(folder.name for folder in (COURSE / "solutions").iterdir() if folder.is_dir())
VISIBLE = 0  # the number of the text around the hidden regions, which are counted from 1


# A check begins with its points.
NAMES_APART = """
class _Apart(__import__("autograder.doors.guard.names_of_checks", fromlist=["_"]).OfChecks):
    def visit_Module(self, tree):
        ast = __import__("ast")
        points = __import__("re").match("[0-9]+ points?[.]", ast.get_docstring(tree) or "")
        return super().visit_Module(tree) if points else tree
get_ipython().ast_transformers.append(_Apart({names}))
"""


class Unit(NamedTuple):
    """The code cells of a solution, in order."""

    name: str
    cells: list[NotebookNode]

    @property
    def answers(self) -> dict[str, NotebookNode]:
        """Task (the name of its answer cell) -> that cell."""
        return {c.metadata.nbgrader.grade_id: c for c in self.cells if is_answer(c)}

    @property
    def checks(self) -> dict[str, NotebookNode]:
        return {c.metadata.nbgrader.grade_id: c for c in self.cells if is_graded(c)}

    @property
    def names_apart(self) -> str:
        """What lets a kernel keep the names of checks apart from an answer's, as grading does and the notebook."""
        locked = [c.source for c in self.ungraded if nbgrader_metadata(c).get("locked")]
        names = course_of(locked, [c.source for c in self.checks.values()]).of_checks
        return NAMES_APART.format(names=sorted(names))

    @property
    def ungraded(self) -> list[NotebookNode]:
        return [c for c in self.cells if not is_graded(c)]

    def regions(self) -> list[tuple[str, int]]:
        """Each hidden region: its check, and its number there."""
        return [(check, n) for check, cell in self.checks.items() for n in range(1, len(regions(cell.source)) + 1)]

    def fed_by(self, task: str) -> list[str]:
        """The checks that depend on the answer to `task`, in order.

        Of the checks before the next answer, those that reach a name which this one defines, themselves or by helpers
        of the notebook; of the later ones, those that name it themselves.
        """
        own = {name for node, _ in statements(self.answers[task].source) for name in bound_names(node)}
        helpers = [s for c in self.ungraded if not is_answer(c) for s in statements(c.source)]
        reach = set(own)
        while new := {n for node, _ in helpers if _named(node) & reach for n in bound_names(node)} - reach:
            reach |= new
        below = self.cells[self.cells.index(self.answers[task]) + 1 :]
        near = self.near(task)
        fed = []
        for cell in filter(is_graded, below):
            check = cell.metadata.nbgrader.grade_id
            if _named(ast.parse(cell.source)) & (reach if check in near else own):
                fed.append(check)
        return fed

    def near(self, task: str) -> set[str]:
        """The checks between the answer to `task` and the next answer."""
        below = self.cells[self.cells.index(self.answers[task]) + 1 :]
        own = itertools.takewhile(lambda cell: not is_answer(cell), below)
        return {cell.metadata.nbgrader.grade_id for cell in own if is_graded(cell)}

    def asks_the_clock(self, check: str) -> bool:
        return asks_the_clock(self.checks[check])

    def in_order(self, task: str) -> list[str]:
        """The checks that `task` feeds, in the order in which to grade them: those that ask the clock come last."""
        return sorted(self.fed_by(task), key=self.asks_the_clock)

    def specification(self, task: str) -> list[str]:
        """The sources of the locked cells between the answer before `task` and `task`."""
        found: list[str] = []
        for cell in self.cells:
            if is_answer(cell):
                if nbgrader_metadata(cell)["grade_id"] == task:
                    return found
                found = []
            elif not is_graded(cell):
                found.append(cell.source)
        raise KeyError(task)

    def is_prediction(self, task: str) -> bool:
        """Whether the task asks for a table of predictions, which cannot be written in several styles.

        Its checks call nothing but `assert_prediction`, or each of its answers is one dict that is returned.
        """
        called = {name for c in self.fed_by(task) for name in re.findall(CHECK_CALLS, self.checks[c].source)}
        return called == {"assert_prediction"} or all(map(_is_table, solution_parts(self.answers[task].source)))

    def digest(self, task: str) -> str:
        """Twelve digits that change when the answer to `task` changes, its checks, or what they reach; prose apart."""
        texts = [code_of(self.answers[task].source)]
        for check in self.fed_by(task):
            source = self.checks[check].source
            texts += [timed_text(source, [c.source for c in self.ungraded]), repr(regions(source))]
        return _twelve_digits(texts)

    def rests_on(self, task: str, by: str, region: int, lines: int | None = None) -> str:
        """What the verdict on a wrong answer to `task` rests on: while it is the same, so is the verdict.

        That is the solution's text, the check `by` (its own cell if "") without its hidden regions, and of `region`, in
        which it failed, the first `lines` lines of code (all without): a region that grows at its end, or another one,
        stops no less. Twelve digits, and behind a slash how many lines.
        """
        check = self.checks[by].source if by else ""
        visible = "\n".join(line for _, line in _apart(check)[1])
        texts = [code_of(self.answers[task].source), timed_text(visible, [c.source for c in self.ungraded])]
        if region != VISIBLE:
            begin, end = dict(enumerate(regions(check), 1)).get(region, (0, 1))  # nothing of one that is gone
            code = code_of("\n".join(check.split("\n")[begin : end - 1])).split("\n")
            lines = len(code) if lines is None else lines
            texts += code[:lines]
        return _twelve_digits(texts) + ("" if region == VISIBLE else f"/{lines}")


def _twelve_digits(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


CHECK_CALLS = r"\b(assert_\w+|speedup)\("


def unit_from_text(name: str) -> Unit:
    """The unit as its .py text stands now, whether the notebooks have been built or not."""
    return Unit(name, _code_cells(notebook_from_text(COURSE / "solutions" / name / f"{name[3:]}.py")))


def unit_as_built(name: str) -> Unit:
    """The unit as its notebook stands."""
    return Unit(name, _code_cells(read_notebook(COURSE / "solutions" / name / f"{name[3:]}.ipynb")))


def answers_kept(folder: str, unit: str) -> list[NotebookNode]:
    """The cells of autograder/tests/<folder>/<unit>.py: `wrong_answers` or `right_answers`; none if it is not there."""
    text = COURSE / "autograder/tests" / folder / f"{unit}.py"
    return [c for c in _code_cells(text_at(text)) if "task" in c.metadata] if text.exists() else []


@cache
def text_at(path: Path) -> NotebookNode:
    """A notebook's text. A process reads it once: look at it, and change nothing."""
    return jupytext.read(path)


def _code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def is_answer(cell: NotebookNode) -> bool:
    return bool(nbgrader_metadata(cell).get("solution"))


def regions(source: str, what: str = "HIDDEN TESTS") -> list[tuple[int, int]]:
    """The lines, counted from 1, of the comments around each region of a cell."""
    lines = source.split("\n")
    begins = [i for i, line in enumerate(lines, 1) if f"### BEGIN {what}" in line]
    ends = [i for i, line in enumerate(lines, 1) if f"### END {what}" in line]
    return list(zip(begins, ends, strict=True))


def without_hidden_tests(check: str) -> str:
    """A check without its hidden regions, on which no timing depends; all of it where they name what is used after."""
    inside, outside = _apart(check)
    rest, hidden = ("\n".join(line for _, line in rows) for rows in (outside, inside))
    after = "\n".join(line for row, line in outside if inside and row > inside[0][0])
    named = {name for node, _ in statements(hidden) for name in bound_names(node)}
    return check if named & _named(ast.parse(after)) else rest


def _apart(check: str) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """The lines of a check within its hidden regions, and those outside of them, each with its number."""
    within = {row for begin, end in regions(check) for row in range(begin, end + 1)}
    rows = list(enumerate(check.split("\n"), 1))
    return [row for row in rows if row[0] in within], [row for row in rows if row[0] not in within]


def solution_parts(source: str) -> list[list[ast.stmt]]:
    """The statements of an answer cell that stand between BEGIN SOLUTION and END SOLUTION, part by part."""
    tree = ast.parse(source)
    everything = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    return [[s for s in everything if begin < s.lineno < end] for begin, end in regions(source, "SOLUTION")]


def _is_table(part: list[ast.stmt]) -> bool:
    return len(part) == 1 and isinstance(part[0], ast.Return) and isinstance(part[0].value, ast.Dict)


def failed_in(cell: NotebookNode) -> int | None:
    """In which hidden region of its text an executed check failed: `VISIBLE` for none of them, None if nobody knows."""
    for output in cell.outputs:
        if output.output_type == "error":
            line = failing_line(output)
            if line is None:
                return None
            inside = (n for n, (begin, end) in enumerate(regions(cell.source), 1) if begin < line < end)
            return next(inside, VISIBLE)
    return VISIBLE  # points were lost without an error: a bar was missed


def defined_functions(sources: Iterable[str]) -> Iterator[ast.FunctionDef]:
    """The functions at the top level of some cells."""
    for source in sources:
        yield from (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))


@cache
def _named(tree: ast.AST) -> set[str]:
    """The names that a text reads, and its strings: a name may be looked up by its text."""
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return names | {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
