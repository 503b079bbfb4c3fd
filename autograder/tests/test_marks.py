"""What the points of a class say of its tasks, and the page that shows it."""

import io
import re
import xml.etree.ElementTree as ET

import nbformat
import pytest
from _tiny_unit import NAME, UNIT, as_solved, handed_in
from conftest import solution
from rich.console import Console

from autograder.classroom import screen as screen_module
from autograder.classroom.marks import Paper, possible_points, read_paper, tasks, titles
from autograder.classroom.report import write_report
from autograder.classroom.screen import Row, Screen, table, write_csv
from autograder.doors.faults import Fault

pytestmark = pytest.mark.once

POSSIBLE = {"f": 2.0, "g": 3.0}


def failing(name, error, line, *more):
    """The tiny unit's notebook, in which one check ended in an error."""
    notebook = handed_in()
    cell = next(cell for cell in notebook.cells if cell.id == name)
    cell.outputs = [nbformat.v4.new_output("error", ename=error, evalue=line, traceback=[line, *more])]
    return notebook


def test_points_are_those_of_the_checks_below_a_task():
    assert possible_points([as_solved()]) == POSSIBLE
    paper = read_paper("ada", [failing("f-check", "CheckFailed", "f(3) is 6, expected 9", "Why: ...")])
    assert paper.points == {"f": 0.0, "g": 3.0} and paper.total == 3.0
    assert paper.said == {"f": ["f(3) is 6, expected 9"]}


@pytest.mark.parametrize(
    ("error", "lines", "said"),
    [
        ("NotBegun", ["f is not begun"], "not begun"),
        ("KernelDied", ["KernelDied: it had more than 4 GiB"], "The kernel died"),
        ("ZeroDivisionError", ["Traceback (most recent call last)", "  line 1", "ZeroDivisionError: 0"], None),
    ],
)
def test_of_each_lost_check_one_line_is_kept(error, lines, said):
    notebook = failing("f-check", error, lines[0], *lines[1:])
    notebook.cells[2].outputs[0].evalue = "f is not begun" if error == "NotBegun" else lines[-1]
    assert read_paper("ada", [notebook]).said == {"f": [said or "ZeroDivisionError: 0"]}


def papers(*points):
    return [Paper(f"student {n}", dict(zip("fg", pair, strict=True))) for n, pair in enumerate(points)]


def test_a_task_is_as_hard_as_its_mean_and_tells_apart_who_knows_the_rest():
    easy, _ = tasks(papers((2, 3), (2, 0), (1, 0)), POSSIBLE)
    assert easy.solved == pytest.approx(5 / 6) and easy.shares == [1, 1, 0.5]
    assert easy.discrimination == pytest.approx(0.5)
    _, against = tasks(papers((2, 0), (0, 3)), POSSIBLE)
    assert against.discrimination == pytest.approx(-1)


def test_where_all_are_alike_nothing_is_told_apart():
    assert [task.discrimination for task in tasks(papers((2, 3), (2, 3)), POSSIBLE)] == [None, None]
    assert [task.discrimination for task in tasks(papers((2, 3)), POSSIBLE)] == [None, None]


def test_falls_are_counted_by_students_the_most_frequent_first():
    some = papers((0, 3), (0, 3), (0, 0))
    for paper, line in zip(some, ["a", "b", "b"], strict=True):
        paper.said = {"f": [line]}
    assert tasks(some, POSSIBLE)[0].falls == [("b", 2), ("a", 1)]


ROWS = [
    Row(UNIT, "ada", 5.0, 5.0, 1.25, ""),
    Row(UNIT, "=<b>bob</b>", None, 5.0, None, "no grade: OSError: <i>no room</i>"),
]


def test_the_page_is_whole_needs_no_network_and_runs_nothing_of_a_students(tmp_path):
    some = papers((2, 3), (0, 3))
    some[1].said = {"f": ["<script>alert(1)</script>"]}
    path = tmp_path / "report" / "unit.html"
    write_report(path, UNIT, some, tasks(some, POSSIBLE), ROWS, {})
    page = path.read_text()
    assert "<script>" not in page and "&lt;script&gt;" in page and "&lt;b&gt;bob" in page
    assert "2 students, 5 points: median 4, mean 4.0." in page
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(pictures) == 2 and "currentColor" in pictures[0] and "#123456" not in page
    names = [ET.fromstring(picture).tag for picture in pictures]
    assert names == ["{http://www.w3.org/2000/svg}svg"] * 2
    outside = re.sub(r"(xmlns|xlink|rdf|cc|dc)[:\w]*=\"[^\"]*\"|<metadata>.*?</metadata>", "", page, flags=re.DOTALL)
    assert not re.search(r"(src|href)=\"(?!#)", outside)


def test_a_task_has_the_title_of_its_heading(tmp_path, make_notebook):
    one = make_notebook("x = 1", ("def f(): ...", solution("f")), ("def g(): ...", solution("g")))
    one.cells[1:1] = [nbformat.v4.new_markdown_cell("## Task 1 · The loop oracle (3 points)\n\nText.")]
    one.cells[3:3] = [nbformat.v4.new_markdown_cell("## 2 · The hoarder (2 points)")]
    assert titles([one]) == {"f": "The loop oracle", "g": "The hoarder"}
    one.cells.pop(3)
    assert titles([one]) == {"f": "The loop oracle: f", "g": "The loop oracle: g"}
    some = papers((2, 3), (0, 3))
    some[1].said = {"f": ["f(2) is 3"]}
    path = tmp_path / "unit.html"
    write_report(path, UNIT, some, tasks(some, POSSIBLE, {"f": "The loop oracle"}), ROWS, {})
    page = path.read_text()
    assert "<td>The loop oracle</td>" in page and "<h3>The loop oracle</h3>" in page and "<td>f</td>" not in page
    assert len(re.findall(r"<text[^>]*>The loop oracle</text>", page)) == 1


def test_the_page_says_what_was_solved_in_whole_points_and_fits_a_telephone(tmp_path):
    some = papers((2, 3), (0, 3))
    path = tmp_path / "unit.html"
    write_report(path, UNIT, some, tasks(some, POSSIBLE), ROWS, {})
    page = path.read_text()
    assert '<th class="number">share solved</th>' in page and "ifficult" not in page
    numbers = re.findall(r"<text[^>]*>([\d.]+)</text>", re.findall(r"<svg.*?</svg>", page, re.DOTALL)[0])
    assert numbers and not [number for number in numbers if "." in number]
    assert ".wide { overflow-x: auto; }" in page
    for wide in ("<table>", "<svg"):
        assert len(re.findall(rf'(<div class="wide">)?{wide}', page)) == page.count(f'<div class="wide">{wide}') > 0


def test_where_nobody_watches_progress_is_a_line_now_and_then(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(screen_module.time, "monotonic", lambda: now[0])
    text = io.StringIO()
    with Screen(Console(file=text), 6) as screen:
        for number in range(6):
            now[0] += 25
            screen.done(f"student {number}")
    assert text.getvalue() == "3 of 6 graded\n"
    with Screen(Console(file=(watched := io.StringIO()), force_terminal=True), 2) as screen:
        now[0] += 100
        screen.done("ada")
    assert "1 of 2 graded" not in watched.getvalue()


def test_a_fault_that_cost_nothing_says_so():
    found = Fault("The time was over", "flight", "it was stopped", 0, 0.0, 20.0)
    assert found.told("the time was over in flight") == "no points lost, although the time was over in flight"
    assert str(found) == "It was stopped. It cost no points."
    assert found._replace(lost=2.0).told("the time was over") == "2 of 20 points lost: the time was over"


def test_pairs_that_share_rare_answers_stand_on_the_page_and_an_untouched_stub_is_no_answer(tmp_path):
    some = papers(*[(2, 3)] * 30)
    for number, paper in enumerate(some):
        paper.answers = {"f": f"own {number}", "g": f"own {number}", "h": f"own {number}", "i": "the stub"}
    some[7].answers = some[3].answers
    path = tmp_path / "unit.html"
    write_report(path, UNIT, some, tasks(some, POSSIBLE), ROWS, {"i": "the stub"})
    assert re.search(r"<td>student 3 and student 7</td><td>f, g, h</td><td[^>]*>15</td>", path.read_text())
    some[7].answers = {"i": "the stub"}
    write_report(path, UNIT, some, tasks(some, POSSIBLE), ROWS, {"i": "the stub"})
    assert "No pair" in path.read_text()


def test_it_is_seen_what_is_run_and_where_if_there_are_several_machines():
    screen = Screen(Console(file=io.StringIO(), width=200), 3)

    def shown():
        return screen._progress.tasks[0].description

    screen.workers(0)
    screen.workers(2)
    assert "There are no workers yet" in screen.console.file.getvalue() and shown() == "waiting"
    screen.started("ada 05", "one tls://one:1")
    assert shown() == "ada 05"
    screen.started("bob [05", "two tls://two:1")
    assert shown().replace("\\", "") == "ada 05 on one, bob [05 on two"
    screen.done("ada 05")
    assert shown().replace("\\", "") == "bob [05" and screen._progress.tasks[0].completed == 1


def test_the_table_and_the_csv_hold_everybody(tmp_path):
    assert table(ROWS).row_count == 2
    path = tmp_path / f"{NAME}.csv"
    write_csv(ROWS, path)
    lines = path.read_text().splitlines()
    assert lines[0] == "student,unit,points,of,percent,note"
    assert lines[1] == f"ada,{UNIT},5,5,100.0,"
    assert lines[2].startswith(f"'=<b>bob</b>,{UNIT},,5,,")  # a spreadsheet would run it
