"""What a worker does: the text of a submission goes in, the text of the executed notebook comes out."""

import os
import platform
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import nbformat

from autograder.doors.box.kernels import stop
from autograder.doors.graded_notebook import UnreadableNotebook, parse_notebook
from autograder.doors.held_folder import HeldFolder
from autograder.doors.run_submission import Conditions, in_line, run_submission
from autograder.doors.solved_programs import with_programs

from .cores import Core, has_devices, last_core, own_core

# What Dask sets in its workers' environment, for arrays. A student's kernel would inherit it, and the first of these
# alone makes eager JAX many times slower.
_OF_DASK = ("MALLOC_TRIM_THRESHOLD_", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

_one_at_a_time = threading.Lock()  # a worker may have been started with several threads


class NoBox(Exception):
    """This machine cannot make the box in which students' code is to run. The message is one line."""


@dataclass(frozen=True)
class Release:
    """A unit's notebook with its answers, without them, and without its hidden tests either, as texts."""

    solution: str
    graded: str
    released: str


@dataclass(frozen=True)
class Order:
    """All that is needed to run a submission, wherever that is.

    unit, student: whose it is.
    notebooks: name of a notebook -> its file as it was handed in.
    files: path beside the notebooks -> contents.
    releases: name of a notebook -> how it was released.
    """

    unit: str
    student: str
    notebooks: dict[str, bytes]
    files: dict[str, bytes]
    releases: dict[str, Release]
    conditions: Conditions

    def __str__(self) -> str:
        return f"{self.student} {self.unit}"


@dataclass(frozen=True)
class Executed:
    """The executed notebooks, by name; one that cannot be read is missing. `seconds` are what a clock on the wall says.

    where: the machine, and the number of its core.
    """

    notebooks: dict[str, str]
    seconds: float
    where: str


def execute(order: Order) -> Executed:
    """Run a submission, on the core of this process. Raises `NoBox`."""
    with _one_at_a_time:
        _settle()
        if order.conditions.box and (why := order.conditions.box.why_not()):
            raise NoBox(f"{platform.node()}: {why}")
        devices = bool(order.conditions.box.devices) if order.conditions.box else has_devices()
        before = last_core()
        with own_core(devices) as core, core.kept_to(), core.busy():
            if before not in (-1, core.number):
                stop()  # the process that boxed kernels are forked from is on the core that we had
            began = time.perf_counter()
            done = _run(order, core)
            return Executed(done, time.perf_counter() - began, _where(core))


def _run(order: Order, core: Core) -> dict[str, str]:
    done = {}
    with HeldFolder("submission") as folder:
        _lay_out(order.files, folder)
        for name, data in order.notebooks.items():
            try:
                notebook = parse_notebook(data, name)
            except UnreadableNotebook:
                continue
            release = order.releases[name]
            _, course = in_line(notebook, _read(release.graded), _read(release.released))
            for cell in notebook.cells:
                if cell.cell_type == "code":
                    cell.outputs, cell.execution_count = [], None
            run_submission(notebook, folder, _with_programs(order, release), course, core.alone)
            done[name] = nbformat.writes(notebook)
    return done


def _with_programs(order: Order, release: Release) -> Conditions:
    """As `nbgrader autograde` does it, on the machine of this worker."""
    under = order.conditions
    if under.box and under.programs:
        box = with_programs(under.box, order.unit, _read(release.solution), lambda line: None)
        return replace(under, box=box)
    return under


def _where(core: Core) -> str:
    """This process, for a person."""
    return platform.node() + (f", core {core.number}" if core.number >= 0 else "")


def _settle() -> None:
    """Let what this process starts find the environment that `nbgrader autograde` gives it."""
    for name in _OF_DASK:
        os.environ.pop(name, None)
    os.environ["NBGRADER_EXECUTION"] = "autograde"


def _lay_out(files: dict[str, bytes], folder: Path) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _read(text: str) -> nbformat.NotebookNode:
    return nbformat.reads(text, as_version=4)
