"""What is compiled for a unit's solution is found in the boxes of students, who can neither change nor list it."""

import pytest
from test_box import boxed, printed

from autograder.doors import solved_programs
from autograder.doors.box import kernels
from autograder.doors.box.rules import Rules
from autograder.doors.graded_notebook import read_notebook
from autograder.doors.solved_programs import with_programs

pytestmark = pytest.mark.once  # the same on every version

HEARS = """
import jax
found = []
jax.monitoring.register_event_listener(lambda name, **_: name.endswith("cache_hits") and found.append(name))
"""
ANSWER = "double = jax.jit(lambda x: x * 2 + 1)\nresult = float(double(3.0))"
OTHER = "double = jax.jit(lambda x: x * 2 + 2)\nresult = float(double(3.0))"
TELL = "print(len(found), result)"


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr(solved_programs, "KEPT", tmp_path / "kept" / "programs")
    return tmp_path / "kept" / "programs"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "submission").mkdir()
    return tmp_path / "submission"


@boxed
def test_what_the_solution_compiled_is_found_and_nothing_else(kept, folder, make_notebook):
    told = []
    box = with_programs(Rules(), "05_the_cache", make_notebook(HEARS, ANSWER), told.append)
    assert len(told) == 1 and told[0].startswith("05_the_cache: its solution is run once")
    assert printed(make_notebook(HEARS, ANSWER, TELL), folder, box).splitlines()[-1] == "1 7.0"
    assert printed(make_notebook(HEARS, OTHER, TELL), folder, box).splitlines()[-1] == "0 8.0"
    assert printed(make_notebook(HEARS, ANSWER, TELL), folder, Rules()).splitlines()[-1] == "0 7.0"
    assert with_programs(Rules(), "05_the_cache", make_notebook(HEARS, ANSWER), told.append) == box
    assert len(told) == 1, "it is run once"


@boxed
def test_nobody_in_a_students_box_can_list_or_change_what_is_kept(kept, folder, make_notebook):
    box = with_programs(Rules(), "05_the_cache", make_notebook("import jax", ANSWER), lambda line: None)
    tries = [
        "import os\ndef tried(action, *arguments):\n    try: action(*arguments)\n    except OSError: return False\n"
        "    return True",
        "print(os.path.isdir('/compiled'), tried(os.listdir, '/compiled'), tried(os.chmod, '/compiled', 0o777))",
        "print(tried(open, '/compiled/new', 'w'), tried(os.rmdir, '/compiled'))",
    ]
    assert printed(make_notebook(*tries), folder, box) == "True False False\nFalse False\n"


@boxed
def test_a_changed_solution_is_run_anew_and_what_was_left_behind_goes(kept, make_notebook):
    def programs(answer):
        box = with_programs(Rules(), "05_the_cache", make_notebook("import jax", answer), lambda line: None)
        return box.compiled

    first = programs(ANSWER)
    (kept / "tmpkilled").mkdir()
    (kept / "06_loops.0123").mkdir()
    second = programs(OTHER)
    assert first != second
    assert {str(path) for path in kept.iterdir()} == {second, str(kept / "06_loops.0123")}


@boxed
def test_programs_that_are_gone_are_compiled(kept, folder, make_notebook):
    box = with_programs(Rules(), "05_the_cache", make_notebook("import jax", ANSWER), lambda line: None)
    for path in kept.iterdir():
        path.rename(kept.parent / path.name)
    assert printed(make_notebook(HEARS, ANSWER, TELL), folder, box).splitlines()[-1] == "0 7.0"


def test_where_nothing_can_be_kept_the_box_is_as_it_was(kept, make_notebook, monkeypatch):
    kept.parent.mkdir()
    kept.write_text("a file, where the folder should be")
    monkeypatch.setattr(kernels, "_server", lambda: pytest.fail("nothing is to be run"))
    assert with_programs(Rules(), "05_the_cache", make_notebook(ANSWER), pytest.fail) == Rules()


def test_a_unit_that_is_about_such_a_folder_goes_without(kept, course, monkeypatch):
    monkeypatch.setattr(solved_programs, "_fill", lambda folder, *_: folder.mkdir())
    without = set()
    for path in (course / "solutions").glob("*/*.ipynb"):
        if not with_programs(Rules(), path.parent.name, read_notebook(path), lambda line: None).compiled:
            without.add(path.parent.name)
    assert without == {"12_ahead_of_time"}
