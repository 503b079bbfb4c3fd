"""The measuring process: it answers, dies, starts again, is ended in time, and leaves nothing behind."""

import ctypes
import os
import signal
import subprocess
import sys
import textwrap
import time
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from autograder.measuring import bench
from autograder.measuring import speedup as speedup_module
from autograder.measuring.request import Comparison
from autograder.measuring.wire.messages import Contest, Done, Drop, Forgotten, Inputs, Loaded, Outcome, Source
from autograder.measuring.worker import main
from autograder.measuring.worker.inputs import Fresh
from autograder.measuring.worker.jobs import Jobs
from autograder.measuring.worker.sides import Guest, Local, Remote, started

pytestmark = pytest.mark.once  # the same on every version

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@jax.jit
def double(x):
    return 2 * x


def double_slowly(x):
    return x + x


def forever(x):
    while True:
        x = x + 1


@pytest.fixture(autouse=True)
def no_process_is_left():
    yield
    bench.stop()


def comparison(candidate=double, baseline=double_slowly, *args):
    return Comparison(candidate, baseline, args or (jnp.arange(4.0),))


def ask(request):
    return bench.current().ask(request, limit=60)


def alive(pid):
    """Whether the process runs (one that has ended and is not yet collected does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children(pid):
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def guests(measuring):
    """The guests of a measuring process, which has them forked."""
    (server,) = children(measuring)
    return children(server)


def test_it_says_what_it_measured():
    compared = comparison()
    reply = ask(compared.load)
    assert reply.results == ["float32[4]"]
    assert reply.platform == jax.default_backend()
    assert (reply.taken, reply.returned) == (16, 16)
    outcome = ask(Contest(compared.load.job, bar=None, budget=1))
    assert isinstance(outcome, Outcome)
    assert len(outcome.baseline) == len(outcome.candidate) >= 3
    assert all(time > 0 for time in outcome.baseline + outcome.candidate)


def test_one_process_serves_many_questions():
    first = bench.current()
    for _ in range(2):
        assert isinstance(ask(comparison().load), Loaded)
    assert bench.current() is first


def test_warm_up_starts_it_without_an_answer():
    bench.warm_up()
    (process,) = bench._benches
    assert process.alive and not process._ready


def test_the_rehearsal_is_a_whole_comparison():
    jobs = Jobs(lambda: None)
    loaded, outcome, limits = jobs.rehearse()
    assert loaded.results == ["float32[8]"]
    assert len(outcome.baseline) == len(outcome.candidate) == 1
    assert all(0 < rate.low <= rate.median <= rate.high for rate in (limits.bandwidth, limits.arithmetic))
    assert not jobs._jobs, "it leaves no job behind"


def test_a_job_it_does_not_know_is_not_an_error():
    assert ask(Contest("?", bar=2, budget=1)) == Forgotten("?")


def test_only_the_latest_jobs_are_kept():
    jobs = []
    for _ in range(8):
        load = comparison().load
        ask(load)
        jobs.append(load.job)
    asked = [ask(Contest(job, bar=None, budget=0)) for job in jobs]
    assert [isinstance(reply, Forgotten) for reply in asked] == [True] * 2 + [False] * 6


def test_death_is_noticed():
    process = bench.current()
    process.process.kill()
    process.process.wait()
    with pytest.raises(bench.BenchDied):
        process.ask(Contest("?", bar=2, budget=1), limit=60)
    assert bench.current() is not process


def test_an_interrupt_ends_it_and_its_late_answer_is_not_taken_for_the_next_one(monkeypatch):
    process = bench.current()
    process.wait_until_ready()

    def interrupt(timeout):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(process, "_answers", types.SimpleNamespace(get=interrupt, put=process._answers.put))
        process.ask(Contest("first", bar=2, budget=1), limit=60)
    assert not process.alive
    assert ask(Contest("second", bar=2, budget=1)) == Forgotten("second")


def test_a_verdict_survives_one_death():
    compared = comparison()
    speedup_module.decide(compared, None)
    bench.current().process.kill()
    outcome = speedup_module.decide(compared, None).outcome
    assert len(outcome.baseline) >= 3


def test_a_function_that_never_ends_is_ended(monkeypatch):
    monkeypatch.setattr(speedup_module, "LIMIT", 3.0)
    process = bench.current()
    process.wait_until_ready()
    with pytest.raises(AssertionError, match="did not finish within 3 seconds"):
        speedup_module.decide(comparison(forever), 2)
    assert not process.alive


@linux
def test_the_guest_ends_with_the_bench():
    process = bench.current()
    speedup_module.decide(comparison(double_slowly), None)
    (guest,) = guests(process.process.pid)
    process.close()
    wait_for(lambda: not alive(guest))


@linux
def test_it_does_not_outlive_a_killed_notebook():
    program = textwrap.dedent("""
        import sys
        from autograder.measuring import bench
        process = bench.current()
        process.wait_until_ready()
        print(process.process.pid, flush=True)
        sys.stdin.read()
    """)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True) as notebook:
        measuring = int(notebook.stdout.readline())
        assert alive(measuring)
        os.kill(notebook.pid, signal.SIGKILL)
    wait_for(lambda: not alive(measuring))


ENDLESS = """
    import ctypes
    import pathlib
    import sys

    import jax

    from autograder import speedup

    def orphan(mark):  # from now on Linux, too, does not tell this process of its parent's death
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(1, 0)
        pathlib.Path(folder, mark).touch()

    def baseline(x):  # both are called in the measuring process, this one first
        orphan("compiled")
        return x

    def python(x):  # is called in the guest
        orphan("python")
        while True:
            x = x + 1

    @jax.jit
    def compiled(x):
        return jax.lax.while_loop(lambda x: x >= 0, lambda x: 0.5 * x, x)

    name, folder = sys.argv[1:]
    speedup(globals()[name], baseline, jax.numpy.float32(1))
"""


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.thorough
@linux
@pytest.mark.parametrize("name", ["python", "compiled"])
def test_a_function_that_never_ends_does_not_outlive_a_killed_notebook(name, tmp_path):
    program = [sys.executable, "-c", textwrap.dedent(ENDLESS), name, str(tmp_path)]
    with subprocess.Popen(program) as notebook:
        wait_for((tmp_path / name).exists)
        (measuring,) = children(notebook.pid)
        below = guests(measuring)
        busy = below[0] if name == "python" else measuring
        before = cpu_seconds(busy)
        wait_for(lambda: cpu_seconds(busy) > before + 1)
        family = [measuring, *children(measuring), *below]
        os.kill(notebook.pid, signal.SIGKILL)
    assert len(below) == {"python": 1, "compiled": 0}[name]
    wait_for(lambda: not any(map(alive, family)), or_end=family)


def orphan_forever(x):
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, 0)
    return forever(x)


@pytest.mark.thorough
@linux
def test_the_guest_ends_with_the_bench_where_there_are_no_process_groups(monkeypatch):
    process = bench.current()
    speedup_module.decide(comparison(double_slowly), None)
    (guest,) = guests(process.process.pid)
    monkeypatch.delattr(os, "killpg")
    monkeypatch.setattr(speedup_module, "LIMIT", 3.0)
    with pytest.raises(AssertionError, match="did not finish within 3 seconds"):
        speedup_module.decide(comparison(orphan_forever), 2)
    assert not process.alive
    wait_for(lambda: not alive(guest), or_end=[guest])


def wait_for(condition, or_end=()):
    """Look a hundred times a second, for at most a minute; then the processes `or_end` are ended."""
    last = time.monotonic() + 60
    while time.monotonic() < last:
        if condition():
            return
        time.sleep(0.01)
    for process in filter(alive, or_end):
        os.kill(process, signal.SIGKILL)
    raise AssertionError("it did not happen")


@linux
def test_it_has_one_core_and_a_clean_environment(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=8 --xla_cpu_max_isa=AVX2")
    process = bench.current()
    process.wait_until_ready()
    assert os.sched_getaffinity(process.process.pid) == {process.core}
    found = dict(
        item.split("=", 1) for item in Path(f"/proc/{process.process.pid}/environ").read_text().split("\0") if item
    )
    assert found["MALLOC_TRIM_THRESHOLD_"] != "65536"
    assert "NBGRADER_EXECUTION" not in found
    assert found["XLA_FLAGS"] == "--xla_cpu_multi_thread_eigen=false --xla_cpu_max_isa=AVX2"


def test_a_new_process_takes_another_core():
    own = bench.cores()
    first = bench.renew().core
    assert (bench.renew().core != first) == (len(own) > 1)


class FakeBench:
    """As much of a process as the bench itself asks for."""

    def __init__(self, number):
        self.number, self.core, self.alive = number, bench.core_of(number), True

    def close(self):
        self.alive = False


@pytest.fixture
def fakes(monkeypatch):
    monkeypatch.setattr(bench, "Bench", FakeBench)
    monkeypatch.setattr(bench, "cores", lambda: [10, 11, 12])


def test_processes_take_the_cores_in_turn_from_the_last(fakes):
    assert [bench.renew().core for _ in range(4)] == [12, 11, 10, 12]


def test_processes_beside_each_other_have_cores_of_their_own(fakes, monkeypatch):
    first, second, third = (bench.current(place) for place in range(3))
    assert [process.core for process in (first, second, third)] == [12, 11, 10]
    assert bench.current() is first and bench.current(1) is second
    bench.dismiss(second)
    assert not second.alive and bench.current(1) is third
    assert bench.current(2).core == 11, "the free one, though it is not its turn"
    monkeypatch.setattr(bench, "cores", lambda: [10])
    assert bench.current(3).core == 10, "shared where there are too few"


def test_one_that_died_is_started_again_in_its_place_and_on_its_core(fakes):
    first, second = bench.current(0), bench.current(1)
    first.alive = False
    again = bench.current()
    assert again is not first and (again.number, again.core) == (first.number, first.core)
    assert bench.current(1) is second


def test_all_of_them_are_ended(fakes):
    processes = [bench.current(place) for place in range(3)]
    new = bench.renew()
    assert [process.alive for process in processes] == [False] * 3 and bench.current() is new
    bench.stop()
    assert not new.alive and bench.current().number == 0


def test_freed_memory_is_kept():
    found = bench.environment({})
    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"):
        assert int(found[name]) >= 2**30, "more than any block frees"


def test_what_it_measures_reads_nothing_from_it():
    """Its standard input carries the messages."""

    def reads(x):
        assert sys.stdin.read() == ""
        return 2 * x

    outcome = speedup_module.decide(comparison(double, reads), None).outcome
    assert len(outcome.baseline) >= 3


def test_it_writes_nothing(capfd):
    def noisy(x):
        print("heard")
        return 2 * x

    speedup_module.decide(comparison(noisy), None)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("platform", "scheduled"), [("cpu", True), ("gpu", False)])
@linux
def test_beside_an_accelerator_the_wall_clock_counts(monkeypatch, platform, scheduled):
    """The device works on while a thread that waits for it is kept from its core."""

    class Here:
        process = types.SimpleNamespace(pid=os.getpid())

        def ask(self, request):
            return Done()

    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    candidate, inputs = Source(b"", own_process=True), Inputs([], x64=False, precision=None)
    sides = [Local("baseline", double, []), Remote(Here(), "one", candidate, inputs, Fresh([]))]
    assert [side.clock.scheduled for side in sides] == [scheduled] * 2
    for side in sides:
        side.clock.close()


def test_a_guest_can_be_started_where_none_is_forked():
    guest = Guest(started(main.__file__, "--guest", "-1"))
    try:
        assert guest.ask(Drop("a job that it never had")) == Done(), "a measuring process does not know the request"
    finally:
        guest.close()
