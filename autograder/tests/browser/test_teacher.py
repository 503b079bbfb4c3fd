"""A teacher in the formgrader: generate, autograde, and a student's page."""

import re

import nbformat
import pytest
from _tiny_unit import ANSWERS, NAME, ONLY_F, UNIT, handed_in, make_course

from autograder.doors.box.rules import why_not

pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
from playwright.sync_api import expect  # noqa: E402

from .conftest import served  # noqa: E402
from .pages import LONG, menu, pale  # noqa: E402


@pytest.fixture(scope="module")
def course_server(tmp_path_factory):
    """`course teach`, in a course of one small unit that one student has handed in with one wrong answer."""
    course, private = tmp_path_factory.mktemp("course"), tmp_path_factory.mktemp("private")
    make_course(course)
    (course / "lessons").mkdir()
    if why_not():
        with (course / "nbgrader_config.py").open("a") as config:
            config.write("\nc.RunNotebook.box = False\n")
    folder = course / "submitted" / "ada" / UNIT
    folder.mkdir(parents=True)
    answers = ANSWERS | {"g": "def g(x):\n    return x"}
    nbformat.write(handed_in(answers), folder / f"{NAME}.ipynb")
    with served(["teach"], course, course, private) as server:
        yield server


def test_generate_autograde_and_read_a_students_page(course_server, open_page, browser, theme, keep):
    page = open_page(course_server, "", theme)
    news = page.locator(".Toastify__toast", has_text="Jupyter news")  # JupyterLab's own question, asked once
    page.add_locator_handler(news, lambda toast: toast.get_by_role("button", name="No", exact=True).click())
    menu(page, "Nbgrader", "Formgrader")
    frame = page.frame_locator("iframe:visible").first
    row = frame.locator("tr", has_text=UNIT)

    def told(what):
        dialog = frame.locator(".modal.in")
        expect(dialog).to_contain_text(what, timeout=LONG)
        dialog.locator("button", has_text=re.compile("Close|OK|×")).first.click()
        expect(dialog).to_have_count(0)

    row.locator(".glyphicon-education").click()
    told("Successfully created the student version")
    row.locator(f'a[href$="manage_submissions/{UNIT}"]').click()
    student = frame.locator("tr", has_text="ada")
    for icon, what in ((".autograde a", "Successfully autograded"), (".generate-feedback a", "Successfully generated")):
        student.locator(icon).click()
        told(what)
    expect(student).to_contain_text(f"{ONLY_F:g}")
    feedback = course_server.root / "feedback" / "ada" / UNIT / f"{NAME}.html"
    context = browser.new_context(color_scheme=theme)
    try:
        reader = context.new_page()
        reader.goto(feedback.as_uri())
        expect(reader.locator("h1.score")).to_contain_text("2.0 / 5.0")
        assert not pale(reader, "main")
        keep(reader, "feedback")
    finally:
        context.close()
    page.goto(course_server.address.replace("/lab?", f"/formgrader/gradebook/{UNIT}/{NAME}?"))
    page.locator("td a", has_text="Submission").click()
    expect(page.locator("body")).to_contain_text("f-check")
