"""The form of a lesson: a guess cannot be read off, a cell shows one idea, a stage takes a quarter of an hour."""

import ast
import re

import jupytext
import pytest
from _unit import text_at
from conftest import COURSE, UNITS

from autograder.doors.build_notebooks import notebook_from_text
from autograder.doors.durations import in_fives, in_words, is_folded, minutes, write_durations

BEFORE = "00_before_you_start"  # the page before the units: no unit of its own, and no exercise
LESSONS = [BEFORE, *UNITS]
WORDS = {"two": 2, "three": 3, "four": 4}
MOST_LINES = 20  # of code in view
MOST_FOLDED = 99  # characters of a folded cell's line: more are cut off where the window is 1280 pixels wide


def lesson(name):
    return text_at(COURSE / "lessons" / f"{name}.py").cells


def code(cells):
    return [cell for cell in cells if cell.cell_type == "code"]


def test_each_unit_has_a_lesson_and_one_page_stands_before_them():
    assert sorted(path.stem for path in (COURSE / "lessons").glob("*.py")) == LESSONS


@pytest.mark.parametrize("name", UNITS)
def test_the_lesson_opens_with_its_question_and_ends_with_its_exercise(name):
    cells = lesson(name)
    assert cells[0].source.startswith(f"# {name[:2]} · ")
    assert re.search(r"\*\*.+\?\*\*", cells[0].source, re.DOTALL), "the question in bold"
    assert any("Keypoints" in cell.source for cell in cells)
    assert f"../exercises/{name}/{name[3:]}.ipynb" in cells[-1].source


@pytest.mark.parametrize("name", LESSONS)
def test_a_guess_cannot_be_read_off(name):
    """What proves a sentence is executed, and folded; right below a guess stands what answers it."""
    cells = lesson(name)
    guesses = [i for i, cell in enumerate(cells) if re.search(r"^guess\w* = None", cell.source, re.MULTILINE)]
    assert guesses, "a prediction that the learner types"
    assert not [i for i in guesses if is_folded(cells[i])]
    for cell in code(cells):
        if not is_folded(cell):
            asserts = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Assert)]
            assert not asserts, cell.source


NUMBERS = "no|none|one|two|three|four|five|six|seven|eight|nine|ten|all|yes|[0-9]+x?"


@pytest.mark.parametrize("name", LESSONS)
def test_the_text_after_a_guess_does_not_open_with_its_answer(name):
    """In a notebook that has not been run, it stands right below the guess."""
    cells = lesson(name)
    for i in (i for i, cell in enumerate(cells) if "show_guess(guess" in cell.source):
        text = next(cell.source for cell in cells[i:] if cell.cell_type == "markdown")
        assert not re.match(rf"\**({NUMBERS})( \w+)?[.,:]", text, re.IGNORECASE), text
        assert not re.match(rf"\**({NUMBERS}) for each ", text, re.IGNORECASE), text


@pytest.mark.parametrize("name", LESSONS)
def test_a_cell_in_view_shows_one_idea(name):
    shown = [cell.source for cell in code(lesson(name)) if not is_folded(cell)]
    long = [source for source in shown if sum(bool(line.strip()) for line in source.splitlines()) > MOST_LINES]
    assert not long, "\n\n".join(long)
    assert not [line for source in shown for line in source.splitlines() if "noqa" in line]


@pytest.mark.parametrize("name", LESSONS)
def test_a_folded_cell_says_what_it_is(name):
    """JupyterLab shows its first line and three dots. What a proof proves stands in the second: it may be an answer."""
    firsts = [cell.source.split("\n")[0] for cell in code(lesson(name)) if is_folded(cell)]
    assert not [line for line in firsts if not re.match(r"# (Picture|Table|Helper|Data): \w|# Proof$", line)]
    assert not [line for line in firsts if len(line) > MOST_FOLDED]


@pytest.mark.parametrize("name", UNITS)
def test_a_lesson_has_stages_with_a_stopping_place_each(name):
    cells = lesson(name)
    said = re.search(r"About \{duration\}, in (\w+) stages \(about \{stage\} for the first\)", cells[0].source)
    assert said, "the first cell says how long it takes, and the build fills it in"
    stages = WORDS[said[1]]
    found = re.findall(r"Stage (\d) of (\d), about \{stage\}: \S", "\n".join(cell.source for cell in cells))
    assert found == [(str(i), str(stages)) for i in range(2, stages + 1)]
    assert sum("good place to stop" in cell.source for cell in cells) == stages - 1


@pytest.mark.parametrize("name", UNITS)
def test_no_stage_takes_longer_than_half_an_hour(name):
    cells = lesson(name)
    starts = [i for i, cell in enumerate(cells) if "{stage}" in cell.source]
    taken = [minutes(cells[a:b]) for a, b in zip(starts, [*starts[1:], len(cells)], strict=True)]
    assert max(taken) < 30, [round(time) for time in taken]


# --- durations


def make(*cells):
    return jupytext.reads("\n".join(cells), "py:percent").cells


def test_words_code_in_view_guesses_and_answers_take_time():
    words = make("# %% [markdown]", "# " + "word " * 300)
    assert minutes(words) == pytest.approx(2)
    lines = "\n".join(f"a{i} = {i}" for i in range(24))
    shown, folded = make("# %%", lines), make('# %% jupyter={"source_hidden": true}', lines)
    assert minutes(shown) - minutes(folded) == pytest.approx(2)
    empty = make("# %%", "pass")
    assert minutes(make("# %%", "guess = None")) > minutes(empty)
    answer = "def f():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION"
    assert minutes(make("# %%", answer)) > minutes(make("# %%", "def f():\n    return 1")) + 1
    hidden = "check()\n### BEGIN HIDDEN TESTS\nother()\n### END HIDDEN TESTS"
    assert minutes(make("# %%", hidden)) == minutes(make("# %%", "check()")), "the learner never sees them"


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (0.2, "5 minutes"),
        (17, "15 minutes"),
        (18, "20 minutes"),
        (56, "55 minutes"),
        (58, "an hour"),
        (92, "an hour and a half"),
        (118, "2 hours"),
        (155, "2 and a half hours"),
    ],
)
def test_a_time_is_said_in_words(time, words):
    assert in_words(time) == words


def test_a_stage_ends_where_the_next_begins():
    prose = "# %% [markdown]\n# " + "word " * 1500
    cells = make("# %% [markdown]\n# {duration} {stage}", prose, "# %% [markdown]\n# {stage}", prose, prose)
    write_durations(cells)
    assert cells[0].source == "30 minutes 10 minutes"
    assert cells[2].source == "20 minutes"


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ([17.4, 17.4, 17.4], [20, 15, 15]),
        ([14, 19, 18], [15, 20, 15]),
        ([10, 20], [10, 20]),
        ([1, 1, 22], [5, 5, 20]),
    ],
)
def test_stages_are_rounded_so_that_they_add_up(times, said):
    assert in_fives(times) == said


@pytest.mark.parametrize("name", UNITS)
def test_the_stages_of_a_lesson_add_up_to_what_it_says_of_the_whole(name):
    text = "\n".join(cell.source for cell in notebook_from_text(COURSE / "lessons" / f"{name}.py").cells)
    stages = [int(number) for number in re.findall(r"about (\d+) minutes(?: for the first|:)", text)]
    whole = re.search(r"About (.+), in (\w+) stages", text)
    assert len(stages) == WORDS[whole[2]]
    if whole[1].endswith("minutes"):
        assert whole[1] == f"{sum(stages)} minutes"
    else:  # it is said in half hours
        assert whole[1] == in_words(sum(stages))
