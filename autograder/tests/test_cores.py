"""Who computes where: a core for each worker, and nobody else beside a measured time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.classroom import cores
from autograder.classroom.cores import Core, own_core, usable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A machine of our own: the locks lie in another folder."""
    monkeypatch.setattr(cores.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(cores, "_last", -1)
    return tmp_path


@pytest.fixture
def other(place):
    """A function: another process, in a block of a core's, that has printed a line and waits for one."""
    started = []

    def other(block, *blocks):
        lines = ["import sys", "from autograder.classroom import cores", "from autograder.classroom.cores import *"]
        lines += [f"cores.tempfile.gettempdir = lambda: {str(place)!r}"]
        for depth, opened in enumerate((block, *blocks)):
            lines.append("  " * depth + f"with {opened}:")
        inner = "  " * (len(blocks) + 1)
        lines += [f"{inner}print('in', flush=True)", f"{inner}sys.stdin.readline()", "print('out', flush=True)"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen([sys.executable, "-c", "\n".join(lines)], **pipes))
        return started[-1]

    yield other
    for process in started:
        process.kill()
        process.communicate()


def is_free(share, alone):
    """Whether one could be in a block now, without waiting."""
    got = cores._hold(share._file, alone, waits=False)
    if got:
        cores._let_go(share._file)
    return got


def test_two_workers_have_two_cores_and_one_that_ends_gives_its_own_back(other):
    numbers = usable()
    with own_core() as first:
        assert first.number == numbers[0]
        worker = other("own_core() as core")
        if len(numbers) > 1:
            assert worker.stdout.readline() == "in\n"
            files = [cores._open(f"worker-{number}") for number in numbers[:2]]
            assert not any(cores._hold(file, True, waits=False) for file in files)
            worker.kill()
            worker.wait()
            assert cores._hold(files[1], True, waits=False)
    with own_core() as again:
        assert again.number == first.number


@pytest.mark.skipif(sys.platform != "linux", reason="Linux lists them")
def test_a_core_that_was_given_back_holds_no_file():
    folder = Path("/proc/self/fd")
    before = len(list(folder.iterdir()))
    for _ in range(5):
        with own_core(devices=True) as core, core.busy(), core.alone():
            pass
    assert len(list(folder.iterdir())) == before


def test_those_who_compute_are_there_together(other):
    core = Core(0, devices=False)
    (share,) = core._shares
    assert other("Core(0, devices=False).busy()").stdout.readline() == "in\n"
    assert is_free(share, alone=False) and not is_free(share, alone=True)
    with core.busy():
        pass


def test_nobody_computes_while_another_measures_there_and_all_go_on_after_it(other):
    core = Core(0, devices=True)
    measuring = other("(core := Core(0, devices=True)).busy()", "core.alone()")
    assert measuring.stdout.readline() == "in\n"
    assert not any(is_free(share, alone=False) for share in core._shares)
    assert all(is_free(share, alone=True) for share in Core(1, devices=False)._shares)
    computing = other("Core(0, devices=True).busy()")
    measuring.communicate("on\n")
    assert computing.stdout.readline() == "in\n"


def test_two_that_measure_take_turns_whatever_they_share(other):
    """Each holds what the other waits for, but for the rule: let go of all before you wait."""
    same = [other("(core := Core(0, devices=True)).busy()", "core.alone()") for _ in range(2)]
    for process in same:
        process.stdin.write("on\n")
        process.stdin.flush()
    assert [process.communicate()[0] for process in same] == ["in\nout\n", "in\nout\n"]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be kept to a core")
def test_what_is_started_on_a_core_stays_there_and_the_thread_does_not():
    number = usable()[-1]
    asks = [sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"]
    with Core(number, devices=False).kept_to():
        assert subprocess.check_output(asks, text=True) == f"{{{number}}}\n"
    assert number in usable() and sorted(os.sched_getaffinity(0)) == usable()


def test_two_names_of_one_core_of_the_processor_are_one(monkeypatch):
    monkeypatch.setattr(cores.Path, "read_text", lambda path: "0,4\n")
    assert cores.physical(0) == cores.physical(4) == "0,4"


def test_where_the_system_does_not_say_each_is_its_own():
    assert cores.physical(10**6) == "1000000"
