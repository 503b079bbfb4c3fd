"""A learner in JupyterLab: the first page, a lesson, an exercise, and what its checks show."""

import re
import shutil

import pytest
from _unit import UNITS
from conftest import COURSE, wrong_answers

pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
from playwright.sync_api import expect  # noqa: E402

from autograder.doors.learner_record import changed_record  # noqa: E402
from autograder.workbench.outline import find_task, read_units  # noqa: E402
from autograder.workbench.solution import answers  # noqa: E402

from .pages import LONG, cell, menu, pale, panel, run, write  # noqa: E402

UNIT = "05_the_cache"
EXERCISE = f"exercises/{UNIT}/the_cache.ipynb"
WRONG = next(cell for cell in wrong_answers(UNIT) if cell.metadata["name"] == "static for everything")


@pytest.fixture
def right():
    unit, task, _ = find_task(read_units(COURSE), "5/lambda-loop")
    return answers(unit, task)[0]


@pytest.fixture
def exercise(open_page, room_server):
    """A function that opens the exercise, untouched, and runs what the check of its third task needs."""
    room_server.end_kernels()
    shutil.copy(COURSE / EXERCISE, room_server.root / EXERCISE)
    with changed_record(room_server.root) as record:
        record.points.clear()

    def exercise(**how):
        page = open_page(room_server, EXERCISE, **how)
        run(page, cell(page, "assert_max_traces,"))
        run(page, cell(page, "def relax_slow"))
        return page

    return exercise


def test_the_first_page_leads_to_each_unit_and_a_click_opens_a_lesson(open_page, room_server, theme):
    page = open_page(room_server, "README.md", theme)
    rows = page.locator(".jp-MarkdownViewer table tbody tr")
    expect(rows).to_have_count(len(UNITS) + 1)
    assert not pale(page, ".jp-MarkdownViewer")
    page.locator(".jp-MarkdownViewer a", has_text=re.compile("^The cache$")).click()
    expect(page.locator(".jp-NotebookPanel:visible h1")).to_contain_text("05 · The cache")


def test_a_lesson_runs_to_its_end_and_leads_on(open_page, room_server, theme):
    page = open_page(room_server, "lessons/00_before_you_start.ipynb", theme)
    menu(page, "Run", "Run All Cells")
    last = page.locator(".jp-NotebookPanel:visible .jp-CodeCell .jp-InputPrompt").last
    expect(last).to_have_text(re.compile(r"\[\d+\]"), timeout=LONG)
    assert not page.locator(
        '.jp-OutputArea-output[data-mime-type$="stderr"], .jp-OutputArea-output[data-mime-type$="error"]'
    ).count()
    pictures = page.locator('.jp-OutputArea svg[role="img"]')
    if pictures.count():
        assert not pale(page, '.jp-OutputArea svg[role="img"]')
    page.locator(".jp-NotebookPanel:visible .jp-MarkdownCell a", has_text="01 · Three clocks").last.click()
    expect(page.locator(".jp-NotebookPanel:visible h1")).to_contain_text("01 · Three clocks")


def test_a_wrong_answer_meets_its_message_a_right_one_its_points_and_the_map(exercise, right, room_server, theme, keep):
    page = exercise(theme=theme)
    answer, check = cell(page, "def diffuse"), cell(page, "with assert_max_traces(relax, 1)")
    run(page, check)
    expect(panel(check)).to_contain_text("Cells above have not been run yet")
    expect(check.locator(".jp-OutputArea")).to_contain_text("Run first, in this order:")
    run(page, answer)
    run(page, check)
    expect(panel(check)).to_contain_text("relax is not begun")
    write(page, answer, WRONG.source)
    run(page, answer)
    run(page, check)
    shown = panel(check)
    expect(shown).to_contain_text("0 of 3 points")
    expect(shown).to_contain_text("Why this usually happens:")
    rows = shown.locator("table tbody tr")
    assert "static 0.1" in rows.nth(1).inner_text() and "static 0.2" in rows.nth(1).inner_text()
    assert not pale(page, '[role="status"]')
    shown.scroll_into_view_if_needed()
    keep(page, "wrong")
    write(page, answer, right)
    run(page, answer)
    run(page, check)
    expect(shown).to_contain_text("3 of 3 points")
    expect(shown).to_contain_text("Unit 05: 3 of 24")
    assert not pale(page, '[role="status"]')
    assert not check.locator(".jp-RenderedText[data-mime-type*=error]").count()
    shown.scroll_into_view_if_needed()
    keep(page, "right")
    shown.locator("a", has_text="Map").click()
    row = page.locator(".jp-MarkdownViewer:visible tr", has_text="The cache")
    expect(row).to_contain_text("3 of 24")
    assert "3 of 24" in (room_server.root / "README.md").read_text()


@pytest.mark.parametrize(("window", "scale"), [((1280, 720), 1), ((640, 360), 2)], ids=["1280x720", "at-200-percent"])
def test_a_panel_fits_the_window_and_no_word_is_broken(exercise, window, scale):
    page = exercise(window={"width": window[0], "height": window[1]}, scale=scale)
    answer, check = cell(page, "def diffuse"), cell(page, "with assert_max_traces(relax, 1)")
    write(page, answer, WRONG.source)
    run(page, answer)
    run(page, check)
    shown = panel(check)
    shown.locator("tbody").scroll_into_view_if_needed()
    assert shown.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
    assert shown.evaluate("e => getComputedStyle(e).wordBreak") == "normal"


def test_validate_says_what_is_lacking(exercise):
    page = exercise()
    page.get_by_text("Validate", exact=True).click()
    dialog = page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("Validation", timeout=LONG)
    expect(dialog).to_contain_text("failed", ignore_case=True)
