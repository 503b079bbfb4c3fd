"""What was saved is checked again, and nothing else."""

import os
import threading

import pytest
from _tiny_room import ANSWERS, NAME, UNIT, edit, make_course

from autograder.workbench import watch
from autograder.workbench.outline import read_units
from autograder.workbench.room import open_room

EXERCISE = f"exercises/{UNIT}/{NAME}.ipynb"


@pytest.fixture
def course(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_WORK", raising=False)
    open_room(make_course(tmp_path), read_units(tmp_path))
    return tmp_path


@pytest.fixture
def room(course):
    return course / "work"


@pytest.fixture
def unit(course):
    return read_units(course)[1]


def test_a_unit_is_checked_again_when_its_text_was_saved(unit, room, monkeypatch):
    notebook = room / EXERCISE
    saves = {
        "the same text": lambda: edit(notebook),
        "an answer": lambda: edit(notebook, square=ANSWERS["square"]),
        "the same answer": lambda: edit(notebook, square=ANSWERS["square"]),
        "gone": notebook.unlink,
    }
    happened = []

    def changes(*folders, watch_filter, **_):
        assert folders == (notebook.parent,)
        assert watch_filter(None, str(notebook)) and not watch_filter(None, str(notebook.with_name(".~powers.ipynb")))
        for name, save in saves.items():
            save()
            happened.append(name)
            yield {(1, str(notebook)), (2, str(notebook))}

    monkeypatch.setattr(watch, "watch", changes)
    found = [(one, happened[-1]) for one in watch.saved_units({notebook: unit})]
    assert found == [(unit, "an answer")]


def test_a_save_is_seen(unit, room):
    """JupyterLab's way: another file takes the notebook's place. It is repeated until the system has told of it."""
    notebook, seen = room / EXERCISE, threading.Event()

    def save():
        number = 0
        while not seen.wait(0.05):
            number += 1
            beside = notebook.with_name(".~powers.ipynb")
            beside.write_bytes(notebook.read_bytes())
            edit(beside, square=f"def square(x):\n    return {number}")
            os.replace(beside, notebook)

    saving = threading.Thread(target=save)
    units = watch.saved_units({notebook: unit})
    saving.start()
    try:
        assert next(units) is unit
    finally:
        seen.set()
        saving.join()
        units.close()
