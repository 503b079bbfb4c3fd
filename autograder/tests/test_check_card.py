"""A check's result as a panel: what it says, as HTML and as text, and in which notebooks it is shown."""

import re

import nbformat
import pytest
from bs4 import BeautifulSoup
from conftest import graded, solution

from autograder.doors.check_card import _COLOURS, Card, as_html, as_text, sign
from autograder.doors.graded_notebook import failure_text, is_graded, score
from autograder.doors.kernel_runner import Runner
from autograder.failure import CheckFailed

pytestmark = pytest.mark.once  # the same on every version

FAILED = CheckFailed(
    "`f` is <slow>: 9 traces, at most 1 allowed.",
    evidence="trace 1: a\n  trace 2: b",
    why="it is new.",
    attempt="keep it.",
)


def text_of(card):
    return BeautifulSoup(as_html(card), "html.parser")


@pytest.mark.parametrize(
    ("card", "mark", "said"),
    [
        (Card(possible=3), "…", "The check is running"),
        (Card(["✓ f is right"], 3, 3), "✓", "3 of 3 points"),
        (Card([], 1, 1), "✓", "1 of 1 point"),
        (Card([], 1.5, 3), "◐", "1.5 of 3 points"),
        (Card([], 0, 3, FAILED), "✗", "0 of 3 points"),
        (Card([], 0, 3, trouble="f is not begun."), "·", "0 of 3 points"),
        (Card([], None, 3, trouble="The check was stopped."), "·", "Not checked"),
        (Card(failure=FAILED), "✗", "This does not hold"),
    ],
)
def test_a_sign_and_words_say_how_it_went(card, mark, said):
    page = text_of(card)
    assert sign(card) == mark
    assert page.b.text == said and page.div["aria-label"] == f"Check: {said}" and page.div["role"] == "status"
    assert page.find("span", attrs={"aria-hidden": "true"}).text == mark


def test_a_failure_has_its_parts_and_nothing_of_it_is_taken_for_html():
    page = text_of(Card(["✓ g is right"], 0, 3, FAILED, after=[("Map", "../../README.md"), ("Task 1: 0 of 3", "")]))
    said = page.get_text("\n")
    order = ["g is right", " is <slow>: 9 traces", "trace 1: a", "Why this usually happens:", "Try:", "Map", "Task 1"]
    places = [said.index(part) for part in order]
    assert places == sorted(places)
    assert [code.text for code in page.find_all("code")] == ["f"]
    assert page.pre.text == FAILED.evidence and not page.find("slow")
    assert [(a.text, a["href"]) for a in page.find_all("a")] == [("Map", "../../README.md")]


def test_a_table_is_the_evidence_and_a_picture_comes_last():
    table = text_of(Card([], 0, 3, FAILED, exhibit="<table><tr><td>1</td></tr></table>"))
    assert table.table and not table.pre
    assert table.text.index("1 allowed") < table.text.index("Why this")
    picture = text_of(Card([], 0, 3, FAILED, exhibit="<svg><text>seen</text></svg>"))
    assert picture.pre.text == FAILED.evidence
    assert picture.text.endswith("seen")


def test_the_text_beside_it_is_what_is_printed_elsewhere():
    card = Card(["✓ g is right"], 0, 3, FAILED, after=[("Task 1: 0 of 3", "")])
    assert as_text(card) == f"✓ g is right\n{FAILED}\n0 of 3 points\nTask 1: 0 of 3"
    assert as_text(Card([], None, 3, trouble="The check was stopped.")) == "· The check was stopped."


def test_no_word_is_broken_and_no_letter_has_a_colour_of_its_own():
    html = as_html(Card(["✓ x"], 0, 3, FAILED, after=[("Map", "m")]))
    assert "word-break:normal" in html and "break-all" not in html and "anywhere" not in html
    coloured = re.findall(r"<(\w+)[^>]*[\";]color:#", html)
    assert coloured == ["span"], "the sign, which repeats what the words say"
    assert "script" not in html and "http" not in html


def luminance(colour):
    channels = [int(colour[i : i + 2] if len(colour) == 7 else colour[i // 2 + 1] * 2, 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", sorted(set(_COLOURS.values())))
@pytest.mark.parametrize("page", ["#ffffff", "#111111"])
def test_a_sign_stands_out_on_both_themes(colour, page):
    one, other = sorted([luminance(colour), luminance(page)])
    assert (other + 0.05) / (one + 0.05) >= 3


# --- in a notebook --------------------------------------------------------------------------------------------------

WATCHED = "import os\nos.environ['JPY_SESSION_NAME'] = 'unit.ipynb'"
SETUP = "from autograder import assert_equal, assert_max_traces, partial_credit"
RIGHT = '"""2 points. It is four."""\nassert_equal({"a": 4}, {"a": 4}, name="four")'
WRONG = RIGHT.replace('{"a": 4},', '{"a": 5},', 1)
TIERS = '"""3 points. In tiers."""\npartial_credit(6, {2: 1, 5: 2, 10: 3})'
STUB = '"""1 point. Begun?"""\ntwice(2)'
BROKEN = '"""1 point. An error."""\nassert_equal({"a": 4}, {"a": 4}, name="four")\n1 / 0'
DIVIDES = "def divided(x):\n    return x / 0"
CALLS = '"""1 point. It divides."""\ndivided(2)'
CHANGED = '"""1 point. With a look at something."""\nimport numpy\nnumpy.array([1, 2])'
LOOK = "9 / 2"
PLAIN = 'assert_equal({"a": 5}, {"a": 4}, name="four")'
TWICE = "def twice(x):\n    raise NotImplementedError('your code goes here; then run the check below')"


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """The cells of one notebook, run while somebody watches, and the same run by a program."""
    folder = tmp_path_factory.mktemp("notebook")
    ran = []
    for first in (WATCHED, "0"):
        notebook = nbformat.v4.new_notebook()
        entries = [(first, None), (SETUP, None), (TWICE, solution("twice")), (DIVIDES, None)]
        checks = RIGHT, WRONG, TIERS, STUB, BROKEN, CALLS, CHANGED
        entries += [(check, graded(f"c{i}", int(check[3]))) for i, check in enumerate(checks)]
        for i, (source, entry) in enumerate([*entries, (LOOK, None), (PLAIN, None)]):
            cell = nbformat.v4.new_code_cell(source, id=f"cell-{i}")
            if entry:
                cell.metadata["nbgrader"] = entry
            notebook.cells.append(cell)
        nbformat.write(notebook, folder / "unit.ipynb")
        with Runner(notebook, folder) as runner:
            ran.append({cell.source: runner.run(i) for i, cell in enumerate(notebook.cells)})
    return ran


def panels(cell):
    return [output.data for output in cell.outputs if output.output_type == "display_data"]


def streams(cell):
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def test_the_points_are_the_same_watched_or_not(cells):
    watched, alone = cells
    points = {source: score(cell).earned for source, cell in alone.items() if is_graded(cell)}
    assert {**points, TIERS: 3} == {source: score(watched[source]).earned for source in points}, "TIERS: see below"
    assert [points[source] for source in (RIGHT, WRONG, TIERS, STUB, BROKEN)] == [2, 0, 2, 0, 0]


def values(cell):
    return [output.data["text/plain"] for output in cell.outputs if output.output_type == "execute_result"]


def test_the_points_are_a_value_for_nbgrader_and_not_for_who_watches(cells):
    watched, alone = cells
    assert (values(alone[TIERS]), values(watched[TIERS])) == (["2.0"], [])
    assert values(watched[LOOK]) == ["4.5"], "what is looked at after a check is shown"
    assert values(watched[CHANGED]) == ["array([1, 2])"], "and what somebody has put into one"


def test_run_by_a_program_a_check_is_text(cells):
    _, alone = cells
    assert not [panels(cell) for cell in alone.values() if panels(cell)]
    assert streams(alone[RIGHT]) == "✓ four is right: a\n2 of 2 points\n"
    assert failure_text(alone[WRONG]).startswith("✗ four is wrong: a.\n  a: returned 5, expected 4")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (RIGHT, ["2 of 2 points", "four is right"]),
        (WRONG, ["0 of 2 points", "four is wrong: a.", "a: returned 5, expected 4"]),
        (TIERS, ["2 of 3 points", "6 earns 2 of 3 points; 10 would earn 3"]),
        (STUB, ["0 of 1 point", "twice is not begun."]),
        (BROKEN, ["0 of 1 point", "four is right", "It ended in an error, a ZeroDivisionError"]),
        (BROKEN, ["in a line of the check's: see below what it does with your result"]),
        (CALLS, ["0 of 1 point", "It ended in an error, a ZeroDivisionError: where, stands below."]),
        (PLAIN, ["This does not hold", "four is wrong: a."]),
    ],
)
def test_watched_it_is_one_panel(cells, source, said):
    watched, _ = cells
    (panel,) = panels(watched[source])
    page = BeautifulSoup(panel["text/html"], "html.parser").text
    assert all(part in page for part in said), page
    assert all(part.strip("·") in panel["text/plain"].replace("`", "") for part in said[1:])
    assert streams(watched[source]) == ""


def test_a_failure_that_is_told_in_the_panel_leaves_one_line_with_its_place(cells):
    watched, _ = cells
    assert failure_text(watched[WRONG]).splitlines() == [
        "✗ No points: the reason stands above.",
        "  (line 2 of this cell)",
    ]
    (error,) = [output for output in watched[WRONG].outputs if output.output_type == "error"]
    assert error.ename == "CheckFailed" and "expected 4" in error.evalue
    assert "ZeroDivisionError" in failure_text(watched[BROKEN]), "another error keeps its traceback"


def test_an_ordinary_cell_of_a_watched_notebook_prints_as_ever(cells):
    watched, _ = cells
    assert streams(watched[SETUP]) == "" and not panels(watched[SETUP])
