"""The learner's record: what is noted is read again, by whoever writes at the same time."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from autograder.doors import learner_record
from autograder.doors.learner_record import (
    FILE,
    UNREADABLE,
    Points,
    changed_record,
    is_readable,
    note_points,
    place_of,
    read_record,
)


def test_what_is_noted_is_read_again(tmp_path):
    assert read_record(tmp_path) == learner_record.Record()
    with changed_record(tmp_path) as record:
        record.note("05_the_cache", {"a": (1.5, 2), "b": (0, 1)})
        record.hints["05_the_cache"] = {"a": 2}
        record.given["lessons/x.ipynb"] = "digest"
    with changed_record(tmp_path) as record:
        record.note("05_the_cache", {"b": (1, 1)})
    found = read_record(tmp_path)
    assert {name: entry[:2] for name, entry in found.points["05_the_cache"].items()} == {"a": (1.5, 2), "b": (1, 1)}
    assert found.points["05_the_cache"]["a"].when.endswith("+00:00")
    assert (found.hints, found.given) == ({"05_the_cache": {"a": 2}}, {"lessons/x.ipynb": "digest"})
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_change_that_fails_changes_nothing(tmp_path):
    with changed_record(tmp_path) as record:
        record.note("u", {"a": (1, 1)})
    before = (tmp_path / FILE).read_text()
    with pytest.raises(KeyboardInterrupt), changed_record(tmp_path) as record:
        record.note("u", {"a": (0, 1)})
        raise KeyboardInterrupt
    assert (tmp_path / FILE).read_text() == before


def test_of_two_writers_neither_loses_anything(tmp_path):
    def write(number):
        with changed_record(tmp_path) as record:
            record.note("u", {f"check-{number}": (1, 1)})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(40)))
    assert len(read_record(tmp_path).points["u"]) == 40


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"given": {}, "points": {"u": {"a": [1]}}, "hints": {}}', "\xff"])
def test_a_file_that_cannot_be_read_is_kept_and_begun_anew(tmp_path, text):
    (tmp_path / FILE).write_text(text, encoding="latin-1")
    assert not is_readable(tmp_path)
    assert read_record(tmp_path) == learner_record.Record()
    with changed_record(tmp_path) as record:
        record.note("u", {"a": (1, 1)})
    assert (tmp_path / UNREADABLE).read_text(encoding="latin-1") == text
    assert is_readable(tmp_path) and set(read_record(tmp_path).points["u"]) == {"a"}


def test_a_notebook_has_a_place_in_a_room_alone(tmp_path):
    notebook = tmp_path / "exercises" / "05_the_cache" / "the_cache.ipynb"
    assert place_of(notebook) is None
    (tmp_path / FILE).touch()
    assert place_of(notebook) == (tmp_path, "05_the_cache")
    assert place_of(notebook.with_name("the_cache.before-reset-2026.ipynb")) is None
    assert place_of(tmp_path / "lessons" / "05_the_cache.ipynb") is None


def test_points_are_noted_in_a_room_and_nothing_is_said_where_it_cannot_be_written(tmp_path, monkeypatch):
    notebook = tmp_path / "exercises" / "05_the_cache" / "the_cache.ipynb"
    note_points(notebook, {"a": (1, 1)})
    assert list(tmp_path.iterdir()) == []
    with changed_record(tmp_path):
        pass
    note_points(notebook, {"a": (1, 2)})
    assert read_record(tmp_path).points["05_the_cache"]["a"][:2] == Points(1, 2, "")[:2]
    monkeypatch.setattr(learner_record.os, "replace", lambda *_: (_ for _ in ()).throw(PermissionError("read-only")))
    note_points(notebook, {"a": (2, 2)})
    assert json.loads((tmp_path / FILE).read_text())["points"]["05_the_cache"]["a"][0] == 1
