"""What is done, what is begun, what is next; and the map that says so."""

import io
import json
import re

import pytest
from _tiny_room import ANSWERS, NAME, UNIT, edit, make_course
from conftest import COURSE
from rich.console import Console

from autograder.doors.learner_record import FILE, Points, Record, changed_record, read_record
from autograder.workbench.course_map import print_map
from autograder.workbench.first_page import page
from autograder.workbench.outline import read_units
from autograder.workbench.progress import State, _unit_progress, next_thing, progress_in
from autograder.workbench.room import open_room

EXERCISE = f"exercises/{UNIT}/{NAME}.ipynb"


@pytest.fixture
def room(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_WORK", raising=False)
    open_room(make_course(tmp_path), read_units(tmp_path))
    return tmp_path / "work"


def progress(room):
    return progress_in(room, read_units(room.parent))


def states(room):
    first, second = progress(room)
    return first.state, second.state, [task.state for task in second.tasks]


def note(room, **points):
    with changed_record(room) as record:
        record.note(UNIT, {name.replace("_", "-"): pair for name, pair in points.items()})


def run_lesson(room, name):
    path = room / "lessons" / f"{name}.ipynb"
    content = json.loads(path.read_text())
    content["cells"][1]["execution_count"] = 1
    path.write_text(json.dumps(content))


def test_nothing_is_done_at_first_nor_where_there_is_no_room(room, tmp_path):
    for place in (room, tmp_path / "nowhere"):
        assert states(place) == (State.NOT_BEGUN, State.NOT_BEGUN, [State.NOT_BEGUN, State.NOT_BEGUN])


def test_an_answer_that_is_written_is_begun_before_its_check_has_run(room):
    edit(room / EXERCISE, cube=ANSWERS["cube"])
    assert states(room) == (State.NOT_BEGUN, State.BEGUN, [State.NOT_BEGUN, State.BEGUN])


def test_points_make_a_task_begun_and_all_of_them_done(room):
    note(room, square_check=(2, 2), cube_check=(2, 2), root_check=(0.5, 1), gone=(1, 1))
    assert states(room)[1:] == (State.BEGUN, [State.DONE, State.BEGUN])
    assert progress(room)[1].earned == 4.5
    note(room, root_check=(1, 1))
    assert states(room)[1:] == (State.DONE, [State.DONE, State.DONE])


def test_points_that_the_course_took_away_do_not_count(room):
    note(room, square_check=(5, 5))
    assert progress(room)[1].earned == 2


def test_one_thing_is_next(room):
    def ahead():
        found = next_thing(room, progress(room))
        return found and (found.words, found.place.relative_to(room).as_posix())

    assert ahead() == ("read the lesson 00 · Before you start", "lessons/00_before.ipynb")
    run_lesson(room, "00_before")
    assert ahead() == ("read the lesson 01 · Powers", "lessons/01_powers.ipynb")
    run_lesson(room, "01_powers")
    assert ahead() == ("01 · Powers, task 1: The square (2 points)", EXERCISE)
    note(room, square_check=(2, 2))
    assert ahead() == ("01 · Powers, task 2: The others (3 points)", EXERCISE)
    note(room, cube_check=(2, 2), root_check=(1, 1))
    assert ahead() is None


def test_who_begins_in_the_middle_goes_on_there(room):
    note(room, square_check=(0, 2))
    edit(room / EXERCISE, square=ANSWERS["square"])
    assert next_thing(room, progress(room)).words.startswith("01 · Powers, task 1")


def test_the_unit_whose_checks_ran_last_is_gone_on_with_and_then_the_one_after_it():
    units = read_units(COURSE)
    record = Record(points={units[3].name: {}, units[5].name: {}})
    first, last = next(iter(units[3].tasks[0].checks)), next(iter(units[5].tasks[0].checks))
    record.points[units[3].name][first] = Points(0, 1, "2026-01-02T00:00:00+00:00")
    record.points[units[5].name][last] = Points(0, 1, "2026-01-01T00:00:00+00:00")
    room = COURSE / "there-is-none"
    assert next_thing(room, [_unit_progress(room, unit, record) for unit in units]).unit is units[3]
    record.points[units[3].name] = {name: Points(9, 9, "2026-01-02") for t in units[3].tasks for name in t.checks}
    assert next_thing(room, [_unit_progress(room, unit, record) for unit in units]).unit is units[4]


def printed(progresses, ahead, width):
    console = Console(file=io.StringIO(), width=width)
    print_map(console, progresses, ahead)
    return console.file.getvalue()


def test_the_map_has_a_line_for_each_unit_and_blocks_for_its_points(room):
    note(room, square_check=(2, 2), cube_check=(1, 2))
    lines = printed(progress(room), next_thing(room, progress(room)), 80).splitlines()
    assert lines[0].split() == ["00", "Before", "you", "start", "not", "begun"]
    assert lines[1].split() == ["01", "Powers", "██", "█░░", "3/5", "begun"]
    assert lines[3] == "3 of 5 points. Next: 01 · Powers, task 2: The others (3 points)"
    assert lines[4] == "  course start 1"
    assert "Everything is done." in printed(progress(room), None, 80)


@pytest.mark.parametrize("width", [80, 120])
def test_every_line_of_the_courses_map_fits_and_no_title_is_cut(width):
    room = COURSE / "there-is-none"
    progresses = progress_in(room, read_units(COURSE))
    lines = printed(progresses, None, width).split("\n\n")[0].splitlines()
    assert all(len(line) <= width for line in lines)
    places = [i for i, line in enumerate(lines) if line[:2].isdigit()]
    assert len(places) == len(progresses) and (width < 120 or len(lines) == len(places))
    for place, end, one in zip(places, [*places[1:], len(lines)], progresses, strict=True):
        first, *more = lines[place:end]
        title = " ".join([re.split(r" {2,}", first)[1], *(line.strip() for line in more)])
        assert first.startswith(one.unit.number) and title == one.unit.title
        assert first.rstrip().endswith("not begun")
        assert first.count("░") == one.unit.points and (not one.tasks or f"0/{one.unit.points:g} " in first)


def test_the_rooms_first_page_leads_to_every_lesson_and_exercise(room):
    note(room, square_check=(2, 2))
    text = page(progress(room), next_thing(room, progress(room)), room)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert set(links) == {"lessons/00_before.ipynb", "lessons/01_powers.ipynb", EXERCISE}
    assert all((room / link).exists() for link in links)
    assert "## The units" in text and "| ■■ □□□ | 2 of 5 | begun |" in text
    assert f"**Next:** [01 · Powers, task 2: The others (3 points)]({EXERCISE})" in text


def test_a_record_of_nothing_is_enough(room):
    (room / FILE).unlink()
    assert read_record(room) == Record() and progress(room)[1].earned == 0
