"""Dask, as far as grading needs it: submissions go out, one for each worker at a time, and executed ones come back.

Dask replaces a worker that dies and runs its submission again; after three workers have died of it, the submission is
given up. Only as many are under way as there are workers, so that no other waits on the one that dies, and is blamed.
"""

import logging
import platform
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any

import dask
from distributed import Client, Future, LocalCluster, get_worker, wait
from distributed.scheduler import KilledWorker
from distributed.utils import LoopRunner
from tornado.ioloop import IOLoop

from autograder.doors.held_folder import HeldFolder

from .execution import Executed, NoBox, Order, execute

DEATHS = 3  # of workers, until a submission is given up
PATIENCE = 20  # seconds until a scheduler must have answered
LOOK = 1.0  # seconds, at most, between two looks at the workers; each costs some milliseconds
STARTED = "just-in-time-started"  # the topic under which workers say what they begin with
# What Dask keeps of what was sent, in this process: a submission is in each line of it.
_KEPT_OF_MESSAGES = {"distributed.admin.low-level-log-length": 20}
_SETTINGS: dict[str, Any] = _KEPT_OF_MESSAGES | {
    # Dask sets variables for arrays here, by which a student's program would be measured (see `execution`).
    "distributed.nanny.pre-spawn-environ": {},
    "distributed.nanny.environ": {},
    "distributed.scheduler.allowed-failures": DEATHS - 1,
    "distributed.worker.daemon": False,  # it has children: kernels are forked
    "distributed.worker.profile.enabled": False,  # it looks at the worker a hundred times a second, beside a clock
    "distributed.worker.preload": ["autograder.classroom.local_worker"],
}


@dataclass(frozen=True)
class Back:
    """A submission that has come back: executed, or given up (its workers died), or failed (the grader itself did)."""

    order: Order
    executed: Executed | None = None
    given_up: str = ""
    failed: str = ""


class Lost(Exception):
    """There is no cluster, or none any more. The message is one line."""


@contextmanager
def local_cluster(workers: int, dashboard: bool) -> Iterator[Client]:
    """A cluster on this machine that ends with the block: so many processes, which talk to each other by TLS alone."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it tells of each worker that is replaced
    with (
        HeldFolder("workers") as folder,
        dask.config.set(_SETTINGS | {"temporary-directory": str(folder)}),  # the scheduler's
        _loop_that_is_not_interrupted() as loop,
        LocalCluster(
            loop=loop,
            local_directory=str(folder),
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=0,  # the boxes have limits of their own
            # What it shows is for this machine alone; without the pages a few figures are left, which cannot be closed.
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": dashboard},
            security=True,  # others on this machine cannot talk to it
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def _loop_that_is_not_interrupted() -> Iterator[IOLoop]:
    """The thread that starts Dask's workers, with SIGINT blocked, as it then is in them until they can deal with it.

    A terminal sends Ctrl-C to all processes; one that still imports would end with a traceback. See `local_worker`.
    """
    resource_tracker.ensure_running()  # by that, the thread that starts the first process would unblock SIGINT
    runner = LoopRunner()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        runner.start()  # a thread inherits what is blocked where it is begun
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield runner.loop
    finally:
        runner.stop()


@contextmanager
def cluster_at(address: str) -> Iterator[Client]:
    """The cluster whose scheduler is at an address, such as tcp://host:8786. It is left as it is.

    For tls:// the certificates are Dask's own settings. Raises `Lost`.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        with dask.config.set(_KEPT_OF_MESSAGES):
            client = Client(address, timeout=PATIENCE, set_as_default=True)
    except (OSError, ValueError, TypeError, ImportError) as error:
        raise Lost(
            f"no scheduler answers at {address}: {(str(error) or type(error).__name__).splitlines()[0]}"
        ) from None
    with client:
        yield client


def run(
    client: Client,
    orders: Iterator[Order],
    work: Callable[[Order], Executed] = execute,
    on_start: Callable[[str, str], None] = lambda order, worker: None,
    on_look: Callable[[int], None] = lambda workers: None,
) -> Iterator[Back]:
    """Have orders carried out, and yield each as it comes back.

    Arguments:
      work: what a worker does with one.
      on_start: is told, perhaps in another thread, the name of an order, and of the worker that has begun with it:
        its machine, a blank, its address.
      on_look: is told the number of workers, once a second at least.

    Raises `Lost` when the scheduler is gone, and `NoBox`.
    """
    warnings.filterwarnings("ignore", "Sending large graph")  # what a student has handed in is as large as it is
    running: dict[Future, Order] = {}
    more = True

    def hand_out() -> int:
        nonlocal more
        workers = len(client.nthreads())
        while more and len(running) < workers:
            if (order := next(orders, None)) is None:
                more = False
            else:
                running[client.submit(_announced, work, order, pure=False, retries=1)] = order
        return workers

    client.subscribe_topic(STARTED, lambda event: on_start(event[1]["order"], event[1]["worker"]))
    try:
        while more or running:
            on_look(hand_out())
            if not running:
                time.sleep(LOOK if more else 0)
                continue
            with suppress(TimeoutError):
                wait(list(running), timeout=LOOK, return_when="FIRST_COMPLETED")
            done = {future: running.pop(future) for future in list(running) if future.done()}
            hand_out()  # before whoever takes these spends time on them
            for future, order in done.items():
                yield _back(future, order)
                future.release()
    except (OSError, RuntimeError, CancelledError) as error:
        if client.status != "running":
            raise Lost(f"the scheduler is gone ({type(error).__name__})") from None
        raise
    finally:
        with suppress(Exception):
            client.cancel(list(running), force=True)
            client.unsubscribe_topic(STARTED)


def _announced(work: Callable[[Order], Executed], order: Order) -> Executed:
    """What runs on a worker."""
    worker = get_worker()
    name = str(order).encode(errors="replace").decode()  # half a character cannot be sent, and all would wait for it
    worker.log_event(STARTED, {"order": name, "worker": f"{platform.node()} {worker.address}"})
    return work(order)


def _back(future: Future, order: Order) -> Back:
    if future.status == "finished":
        return Back(order, future.result())
    error = future.exception() if future.status == "error" else None
    if isinstance(error, KilledWorker):
        line = f"{error.allowed_failures + 1} processes that ran it died of it, one after another; so it was given up."
        return Back(order, given_up=line)
    if isinstance(error, NoBox):
        raise error
    said = str(error).strip().splitlines() or [""]
    return Back(order, failed=f"{type(error).__name__}: {said[0]}" if error else f"it was {future.status}")
