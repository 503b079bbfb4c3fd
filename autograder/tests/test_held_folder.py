"""Folders for temporary files: held while their process lives, removed by it, or by the next one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import autograder
from autograder.doors.held_folder import HeldFolder

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(sys.platform == "win32", reason="without locks nobody can know that a folder is left over"),
]

MAKES_ONE = """
import sys
from autograder.doors.held_folder import HeldFolder
with HeldFolder("box", sys.argv[1]) as folder:
    (folder / "log").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def another(tmp_path):
    """A process that has made such a folder."""
    command = [sys.executable, "-c", MAKES_ONE, str(tmp_path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith(str(tmp_path))
    yield process
    process.kill()
    process.communicate()


def test_it_is_gone_with_what_is_in_it(tmp_path):
    with HeldFolder("submission", str(tmp_path)) as folder:
        assert list(folder.iterdir()) == []
        (folder / "data").mkdir()
        (folder / "data" / "xs.csv").touch()
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_that_of_a_living_process_is_left_alone(tmp_path, another):
    with HeldFolder("submission", str(tmp_path)):
        assert len(list(tmp_path.glob("just-in-time-box-*/in/log"))) == 1
    another.communicate()
    assert list(tmp_path.iterdir()) == []


def test_that_of_a_killed_process_goes_with_the_next_one_of_any_kind(tmp_path, another):
    another.kill()
    another.wait()
    assert len(list(tmp_path.iterdir())) == 1
    with HeldFolder("submission", str(tmp_path)) as folder:
        assert list(tmp_path.iterdir()) == [folder.parent]


def test_what_has_no_lock_yet_and_what_is_not_ours_stays(tmp_path):
    for name in ("just-in-time-box-new", "just-in-time-cores", "box-1"):
        (tmp_path / name).mkdir()
    (tmp_path / "box-1" / "held").touch()
    HeldFolder("submission", str(tmp_path)).close()
    assert len(list(tmp_path.iterdir())) == 3


# Folders inside of one that is held, or of one that is cleared before it is filled.
INSIDE = {"doors/box/kernels.py", "doors/solved_programs.py", "doors/held_folder.py"}


def test_the_grader_makes_no_other_folder_for_temporary_files():
    """A grader may be killed at any moment, and what it has then made in another way lies there for good."""
    package = Path(autograder.__file__).parent
    graders = [path for wing in ("doors", "classroom") for path in (package / wing).rglob("*.py")]
    makes = re.compile(r"tempfile\.(?!gettempdir)\w|import (mkdtemp|TemporaryDirectory|NamedTemporaryFile)")
    found = {path.relative_to(package).as_posix() for path in graders if makes.search(path.read_text())}
    assert found == INSIDE
