"""Dask, as grading uses it: its environment, its locks on the door, and workers that die."""

import gc
import os
import signal
import sys

import psutil
import pytest

from autograder.classroom.engine import DEATHS, Lost, cluster_at, local_cluster, run
from autograder.classroom.execution import Executed, Order
from autograder.doors.run_submission import Conditions

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("dask")]


def order(student):
    return Order("00_powers", student, {"powers": b""}, {}, {}, Conditions())


def told(text):
    return Executed({"told": text}, 0.0, "here")


def works(order: Order) -> Executed:
    """What a worker does here, by the student's name."""
    if order.student == "killer":
        os.kill(os.getpid(), signal.SIGKILL)
    if order.student == "interrupted":
        os.kill(os.getpid(), signal.SIGINT)
        return told("on")
    if order.student == "raises":
        raise OSError("no room\nat all")
    if order.student == "blocked":
        return told(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
    if order.student == "environment":
        return told(" ".join(sorted(os.environ)))
    return told(f"hello {order.student}")


@pytest.fixture(scope="module")
def client():
    with local_cluster(2, dashboard=False) as client:
        yield client


def backs(client, *students, **more):
    found = {back.order.student: back for back in run(client, map(order, students), works, **more)}
    assert len(found) == len(students)
    return found


def test_what_workers_write_lies_in_a_folder_that_is_removed(client):
    places = [*client.run(lambda dask_worker: dask_worker.local_directory).values()]
    places.append(client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.local_directory))
    assert len(places) == 3 and all("/just-in-time-workers-" in place for place in places)


def test_each_submission_comes_back_and_it_is_told_who_runs_it(client):
    started, looks = [], []
    names = ["ada", "bob", "cid"]
    found = backs(client, *names, on_start=lambda *what: started.append(what), on_look=looks.append)
    assert {student: back.executed.notebooks["told"] for student, back in found.items()} == {
        name: f"hello {name}" for name in names
    }
    assert {name for name, _ in started} <= {f"{name} 00_powers" for name in names} and set(looks) == {2}


def test_a_name_that_cannot_be_sent_keeps_nobody_waiting(client):
    student = os.fsdecode(b"M\x81ller")
    started = []
    found = backs(client, "ada", student, "bob", on_start=lambda name, worker: started.append(name))
    assert found[student].executed.notebooks == {"told": f"hello {student}"}
    assert set(started) <= {"ada 00_powers", "M?ller 00_powers", "bob 00_powers"}


def test_a_free_worker_has_the_next_submission_before_a_grade_is_written(client):
    handed_out = []
    backs = run(client, (handed_out.append(name) or order(name) for name in ("ada", "bob", "cid", "dan")), works)
    next(backs)
    assert len(handed_out) >= 3
    assert len(list(backs)) == 3


def test_of_a_large_class_a_few_submissions_are_held_at_a_time(client):
    """A thousand, each as large as its unit's notebooks, were in the logs of Dask's scheduler and client."""
    assert len(backs(client, *map(str, range(60)))) == 60
    gc.collect()
    assert sum(isinstance(thing, Order) for thing in gc.get_objects()) < 45


def test_workers_find_the_environment_of_this_process_and_nothing_of_dasks(client):
    """MALLOC_TRIM_THRESHOLD_ alone makes a true ratio of 6 one of 40."""
    names = set(backs(client, "environment")["environment"].executed.notebooks["told"].split())
    assert "PATH" in names
    assert not {name for name in names - set(os.environ) if name.startswith("MALLOC") or "THREADS" in name}


def test_nobody_else_can_talk_to_the_workers_of_this_machine(client):
    assert client.scheduler.address.startswith("tls://127.0.0.1")
    assert all(worker.startswith("tls://") for worker in client.nthreads())
    own = psutil.Process()
    listening = [c for process in (own, *own.children(recursive=True)) for c in process.net_connections("tcp")]
    places = {connection.laddr.ip for connection in listening if connection.status == psutil.CONN_LISTEN}
    assert places == {"127.0.0.1"}


def test_a_worker_lives_through_ctrl_c_which_is_the_commands(client):
    back = backs(client, "interrupted")["interrupted"]
    assert back.executed.notebooks["told"] == "on" and len(client.nthreads()) == 2


def test_what_the_grader_itself_could_not_do_is_one_line(client):
    back = backs(client, "raises")["raises"]
    assert back.executed is None and back.failed == "OSError: no room"


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="kills")
def test_who_kills_three_workers_is_given_up_and_the_others_are_graded(client):
    found = backs(client, "ada", "killer", "bob", "cid", "dan")
    assert f"{DEATHS} processes" in found["killer"].given_up and found["killer"].executed is None
    assert all(found[name].executed for name in ("ada", "bob", "cid", "dan"))
    assert len(client.nthreads()) >= 1


def test_where_no_scheduler_answers_one_line_says_so(monkeypatch):
    monkeypatch.setattr("autograder.classroom.engine.PATIENCE", 1)
    with (
        pytest.raises(Lost, match="no scheduler answers at tcp://127.0.0.1:9") as error,
        cluster_at("tcp://127.0.0.1:9"),
    ):
        pass
    assert "\n" not in str(error.value)


def test_ctrl_c_is_blocked_where_workers_begin_and_not_where_kernels_do(client):
    """A worker that still imports would end with a traceback; a kernel is interrupted by that very signal."""

    async def where_workers_begin():
        return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])

    assert client.sync(where_workers_begin)
    assert backs(client, "blocked")["blocked"].executed.notebooks == {"told": False}
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
