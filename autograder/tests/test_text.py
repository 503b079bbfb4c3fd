"""What the prose says of points, tiers and caps is what the checks ask for."""

import ast
import html
import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from conftest import COURSE, UNITS

from autograder.doors.graded_notebook import is_graded, nbgrader_metadata, read_notebook

pytestmark = pytest.mark.once

WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
FRACTIONS = {0.5: "half", 0.2: "fifth", 0.25: "quarter", 0.1: "tenth", 0.01: "hundredth"}
# Sizes of a check's own inputs, which its task gives as a letter.
IN_LETTERS = {
    ("newton-hvp", "max_intermediate"): "your largest value may have $n$",
    ("newton-speed", "max_intermediate"): "your largest value may have $n$",
    ("newton-check", "max_intermediate"): "your largest value may have $n$",
}
NUMBER = r"\d+(?:\.\d+)?"
TIER = re.compile(rf"({NUMBER})x?(?: (?:strokes saved|as fast))? earns? (\d+)")
TIMES = re.compile(rf"({NUMBER})(?:x\b| times (?:faster|as fast))")


WIDEST = 90  # characters of a line that keeps its columns; JupyterLab wraps more in a window of 1280 pixels


class Check(NamedTuple):
    """A graded cell."""

    name: str
    points: int
    docstring: str
    tree: ast.Module

    @property
    def tiers(self) -> dict[float, int]:
        """Threshold -> points of its `partial_credit`; empty if it has none."""
        for call in calls(self.tree, "partial_credit"):
            return ast.literal_eval(call.args[1])
        return {}


class Task(NamedTuple):
    """A section of an exercise: `text` is its prose without the hints, and the docstrings of its stubs."""

    unit: str
    heading: str
    text: str
    checks: list[Check]

    @property
    def said(self) -> str:
        """All that a learner reads before the check runs."""
        return " ".join([self.text, *(check.docstring for check in self.checks)])


def docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield ast.get_docstring(node) or ""


def calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == name:
            yield node


def sections(unit: str) -> list[Task]:
    """The opening of an exercise, then its sections: tasks are those with checks."""
    found = [Task(unit, "", "", [])]
    for cell in read_notebook(COURSE / "solutions" / unit / f"{unit[3:]}.ipynb").cells:
        text = ""
        if cell.cell_type == "markdown":
            text = re.sub(r"<details>.*?</details>", "", cell.source, flags=re.DOTALL)
            if heading := re.search(r"^## (.+)$", text, re.MULTILINE):
                found.append(Task(unit, heading[1], "", []))
        elif is_graded(cell):
            tree = ast.parse(cell.source)
            entry = nbgrader_metadata(cell)
            found[-1].checks.append(Check(entry["grade_id"], entry["points"], ast.get_docstring(tree) or "", tree))
        elif nbgrader_metadata(cell).get("solution"):
            text = "\n".join(docstrings(cell.source))
        found[-1] = found[-1]._replace(text=f"{found[-1].text}\n{text}")
    return found


def lines_of(text: str) -> list[str]:
    """The sentences of a text, and the rows of its tables."""
    rows = re.findall(r"^\|.+\|$", text, re.MULTILINE)
    prose = re.sub(r"\s+", " ", re.sub(r"^\|.+\|$", ".", text, flags=re.MULTILINE))
    return rows + re.split(r"(?<=[.;:?])\s|\s- ", prose)


SECTIONS = {unit: sections(unit) for unit in UNITS}
OPENINGS = {unit: its[0] for unit, its in SECTIONS.items()}
TASKS = [task for its in SECTIONS.values() for task in its if task.checks]
TOTAL = {unit: sum(c.points for task in TASKS if task.unit == unit for c in task.checks) for unit in UNITS}
each_unit = pytest.mark.parametrize("unit", UNITS)
each_task = pytest.mark.parametrize("task", TASKS, ids=[f"{task.unit[:2]}: {task.heading}" for task in TASKS])


def points_said(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\b(\d+) points?\b", text)]


def in_columns(text: str) -> Iterator[str]:
    """The lines of a Markdown cell that stand as they were typed: indented, fenced or in <pre>."""
    kept = False
    for line in text.split("\n"):
        opens, closes = line.startswith("```") or "<pre>" in line, line.startswith("```") or "</pre>" in line
        if kept or opens or line.startswith("    "):
            yield html.unescape(re.sub("</?pre>", "", line if kept or opens else line[4:]))
        kept = (opens and not kept) if line.startswith("```") else (kept or opens) and not closes


def texts_of(unit: str) -> list[str]:
    """The Markdown cells of a unit's lesson and exercise."""
    files = COURSE / "lessons" / f"{unit}.ipynb", COURSE / "solutions" / unit / f"{unit[3:]}.ipynb"
    return [cell.source for file in files for cell in read_notebook(file).cells if cell.cell_type == "markdown"]


@each_unit
def test_what_is_typed_in_columns_is_not_wrapped(unit):
    assert not [line for text in texts_of(unit) for line in in_columns(text) if len(line) > WIDEST]


@each_unit
def test_markdown_takes_no_code_for_text(unit):
    """A power outside of code begins bold type, a blank line in <pre> a paragraph; <code> keeps its line breaks."""
    texts = texts_of(unit)
    assert not [pre for text in texts for pre in re.findall("<pre>.*?</pre>", text, re.DOTALL) if "\n\n" in pre]
    assert not [code for text in texts for code in re.findall("<code>.*?</code>", text, re.DOTALL) if "\n" in code]
    prose = [re.sub(r"```.*?```|<pre>.*?</pre>|<code>.*?</code>|`[^`]*`", "", t, flags=re.DOTALL) for t in texts]
    assert not [found for text in prose for found in re.findall(r"\w\*\*\w", text)]


@each_unit
def test_an_exercise_opens_with_the_number_of_its_tasks_and_points(unit):
    tasks = [task for task in TASKS if task.unit == unit]
    assert f"{WORDS[len(tasks)].capitalize()} tasks, {TOTAL[unit]} points" in OPENINGS[unit].text


@each_unit
def test_a_table_of_tasks_gives_the_points_of_each(unit):
    rows = [row.strip("| ").split(" | ") for row in lines_of(OPENINGS[unit].text) if row.startswith("|")]
    points = [int(row[-1]) for row in rows if row[-1].isdigit()]
    assert points in ([], [sum(c.points for c in task.checks) for task in TASKS if task.unit == unit])


@each_unit
def test_the_lesson_ends_with_the_points_of_its_exercise(unit):
    last = read_notebook(COURSE / "lessons" / f"{unit}.ipynb").cells[-2].source  # above the ways on
    assert points_said(last) == [TOTAL[unit]]
    tiers = {tier for task in TASKS if task.unit == unit for check in task.checks for tier in check.tiers}
    assert {float(times) for times in TIMES.findall(last)} <= tiers


@each_unit
def test_the_lesson_announces_the_piece_of_minijit_that_its_exercise_asks_for(unit):
    last = read_notebook(COURSE / "lessons" / f"{unit}.ipynb").cells[-2].source  # above the ways on
    assert ("`minijit`" in last) == any("minijit" in task.heading for task in TASKS if task.unit == unit)


@each_unit
def test_the_readme_gives_the_points_of_each_unit(unit):
    row = next(line for line in (COURSE / "README.md").read_text().splitlines() if f"(exercises/{unit}/" in line)
    assert row.endswith(f"| {TOTAL[unit]} |")


@each_task
def test_a_task_gives_the_points_of_its_checks(task):
    total = sum(check.points for check in task.checks)
    assert points_said(task.heading) == [total]
    for check in task.checks:
        assert check.docstring.startswith(f"{check.points} point{'s' * (check.points != 1)}."), check.name
    # What the prose gives for a part of the task is given for some of its checks, or for a tier of one.
    single = [check.points for check in task.checks]
    parts = {sum(some) for n in range(1, len(single) + 1) for some in itertools.combinations(single, n)}
    parts |= {points for check in task.checks for points in check.tiers.values()}
    assert set(points_said(task.said)) <= parts


@each_task
def test_a_task_says_its_tiers(task):
    tiers = [check.tiers for check in task.checks if check.tiers]
    asked = {(float(bar), points) for some in tiers for bar, points in some.items()}
    for check in task.checks:
        assert pairs(check.docstring) == {(float(bar), points) for bar, points in check.tiers.items()}, check.name
        bars = [
            ast.literal_eval(keyword.value)
            for call in calls(check.tree, "speedup")
            for keyword in call.keywords
            if keyword.arg == "at_least"
        ]
        # A hidden race at another size asks for less than any tier: whoever earns one must win it with ease.
        assert [bar for bar in bars if bar >= min(check.tiers, default=0)] == ([max(check.tiers)] if bars else []), (
            "the verdict shown is about the highest tier"
        )
    assert pairs(task.text) == asked, "the prose says what the check asks"
    if any("speedup(" in ast.unparse(check.tree) for check in task.checks):
        assert {float(times) for times in TIMES.findall(task.said)} <= {bar for bar, _ in asked}


def pairs(text: str) -> set[tuple[float, int]]:
    return {(float(bar), int(points)) for bar, points in TIER.findall(re.sub(r"\s+", " ", text))}


class Cap(NamedTuple):
    """A number that a check holds a program to: the expression, and a word of it that goes with it in the prose."""

    check: str
    asked: str
    numbers: list[float]
    noun: str


NOUNS = {
    "max_equations": "equation|tape",
    "max_flops": "FLOP|operations",
    "max_bytes": "bytes",
    "max_fusions": "fusion",
    "max_intermediate": "value|elements|numbers|matrix|larger|list",
    "modules": "module|program",
    "collectives": "collective|message|communicat|call|all-reduce",
}


def caps(check: Check) -> Iterator[Cap]:
    """The caps of a check, hidden or not."""
    for node in ast.walk(check.tree):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg in NOUNS:
                    yield Cap(check.name, ast.unparse(keyword), numbers_in(keyword.value), NOUNS[keyword.arg])
            if ast.unparse(node.func) == "assert_max_traces":
                yield Cap(check.name, ast.unparse(node), numbers_in(node.args[1]), "trace|program")
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.LtE):
            yield Cap(check.name, ast.unparse(node), numbers_in(node.comparators[0]), "")


def numbers_in(expression: ast.expr) -> list[float]:
    """The numbers of an expression, `// 10` as 0.1."""
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.FloorDiv):
        return [*numbers_in(expression.left), *(1 / number for number in numbers_in(expression.right))]
    return [n.value for n in ast.walk(expression) if isinstance(n, ast.Constant) and isinstance(n.value, int | float)]


def said_as(number: float) -> str:
    """A pattern for a number as prose writes it."""
    forms = [rf"\b{number:,}\b", rf"\b{number:g}(?:\b|[kn]\b)"]
    if number in FRACTIONS:
        forms.append(FRACTIONS[number])
    forms += {0: [r"\bnone\b", r"\bnothing\b"], 1: [r"\bonce\b", r"\bsingle\b"]}.get(number, [])
    if float(number).is_integer() and number < len(WORDS):
        forms.append(rf"\b{WORDS[int(number)]}\b")
    return "|".join(forms)


@each_task
def test_a_task_says_its_caps(task):
    lines = lines_of(task.text) + [line for check in task.checks for line in lines_of(check.docstring)]
    unsaid = []
    for cap in itertools.chain.from_iterable(map(caps, task.checks)):
        if letter := IN_LETTERS.get((cap.check, cap.asked.split("=")[0])):
            assert letter in task.text, cap.check
            continue
        about = [line for line in lines if re.search(cap.noun, line, re.IGNORECASE)]
        if not any(all(re.search(said_as(n), line, re.IGNORECASE) for n in cap.numbers) for line in about):
            unsaid.append(f"{cap.check}: {cap.asked}")
    assert not unsaid, "no line of the task's prose says the number"
