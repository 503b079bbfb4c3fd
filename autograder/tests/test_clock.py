"""The clock of the speed verdict, on this machine's counters and on counters that the tests turn by hand."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from autograder.measuring.worker import clock
from autograder.measuring.worker.clock import Clock, ProcessClock

counted = pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="reads the scheduler's counters")


def open_files():
    return set(os.listdir("/proc/self/fd"))


@counted
def test_it_takes_out_the_run_delay_in_shorter_blocks_and_leaves_nothing_open():
    before = open_files()
    scheduled, wall = Clock(), Clock(wall_only=True)
    assert scheduled.scheduled and not wall.scheduled
    assert scheduled.block < wall.block
    assert scheduled.read().wall <= scheduled.read().wall
    scheduled.close()
    assert open_files() == before


def test_without_a_counter_it_is_the_wall_clock():
    assert not Clock((0, 0)).scheduled  # there is no such thread
    reading = Clock(wall_only=True).read()
    assert reading.wall > 0 and reading.delay == 0


@counted
@pytest.mark.parametrize(("delays", "delay"), [([0, 0, 7, 7, 9, 9], 0), ([0, 5, 5, 9, 9], 5)])
def test_a_reading_that_was_interrupted_is_taken_again(monkeypatch, delays, delay):
    found = iter([0, *delays])  # one when it is made
    monkeypatch.setattr(os, "pread", lambda file, size, at: b"100 %d 1" % next(found))
    own = Clock()
    assert own.read().delay == delay
    own.close()


BUSY = """import sys, threading, time
def busy():
    end = time.thread_time() + 0.02
    while time.thread_time() < end: pass
print(flush=True)
for line in sys.stdin:
    thread = threading.Thread(target=busy)
    thread.start()
    thread.join()
    print(flush=True)
    """


@counted
def test_what_a_thread_has_run_counts_when_it_has_ended():
    """However long the threads that are watched had to wait."""
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=-1, stdout=-1) as process:
        assert process.stdout.readline()  # a thread that has not run yet cannot be watched
        watching = Clock((process.pid, process.pid))
        assert watching.scheduled
        before = watching.read()
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline()
        after = watching.read()
        watching.close()
        process.stdin.close()
    waited = after._replace(delay=after.delay + 10**12)
    assert 20_000_000 <= clock.elapsed(before, waited) <= clock.elapsed(before, after)


@counted
def test_a_watched_thread_that_has_ended_keeps_the_run_delay_that_was_last_read(monkeypatch):
    go, ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (go.set(), ended.wait()))
    thread.start()
    assert go.wait(60)
    watching = Clock((os.getpid(), thread.native_id))
    assert watching.scheduled
    read = os.pread

    def as_if_it_had_waited(file, size, at):
        text = read(file, size, at)
        return b"100 7000000 1" if file == watching._files[1] else text

    monkeypatch.setattr(os, "pread", as_if_it_had_waited)
    assert watching.read().delay >= 7_000_000
    ended.set()
    thread.join()
    while Path(f"/proc/self/task/{thread.native_id}").exists():  # Python has joined it before the system has
        os.sched_yield()
    with pytest.raises(ProcessLookupError):
        read(watching._files[1], 96, 0)
    assert watching.read().delay >= 7_000_000
    watching.close()


@counted
def test_the_clock_of_another_process_counts_what_waits_for_it_too():
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=-1, stdout=-1) as process:
        assert process.stdout.readline()  # from now on it waits
        watching = ProcessClock(process.pid)
        before = watching.read().running
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        assert watching.read().running - before >= 20_000_000
        watching.close()
        process.stdin.close()


@counted
def test_the_threads_of_a_process_have_run():
    ran = clock.workers(os.getpid())
    assert ran[os.getpid(), threading.get_native_id()] > 0
    assert clock.workers(-1) == {}


def test_it_gives_way_where_the_system_can(monkeypatch):
    asked = []
    monkeypatch.setattr(os, "sched_yield", lambda: asked.append(True), raising=False)
    clock.give_way()
    assert asked == [True]
    monkeypatch.delattr(os, "sched_yield")
    clock.give_way()
