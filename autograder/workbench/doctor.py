"""What this machine has, what does not fit, and the command that mends each. Everything is probed, nothing assumed."""

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement

from autograder.doors.learner_record import FILE, UNREADABLE, is_readable
from autograder.versions import JAX, PYTHON

from .bad_input import BadInput
from .jupyterlab import AS_ROOT, is_root
from .outline import Unit
from .room import VARIABLE, copies_behind, name_of, room_of

DISTRIBUTION = "just-in-time"
INSTALL = f"{sys.executable} -m pip install -c requirements.lock -e ."
_SECONDS = 120  # for a probe that starts a process


class Fit(StrEnum):
    """Whether something fits; only MEND makes the command end with 1."""

    FITS = "✓"
    NOTE = "–"
    MEND = "✗"


class Finding(NamedTuple):
    """One line of the table: what was looked at, what was found, and what to do."""

    what: str
    found: str
    fit: Fit = Fit.FITS
    mend: str = ""


def findings(course: Path, units: list[Unit]) -> Iterator[Finding]:
    """Probe this machine, one thing after the other. A probe that fails is a finding too."""
    probes: list[Callable[[], Iterator[Finding]]] = [
        _python,
        _packages,
        lambda: _install(course),
        _devices,
        _cores,
        _jupyterlab,
        _kernel,
        _startup,
        _home,
        _user,
        lambda: _room(course, units),
        _box,
    ]
    for probe in probes:
        try:
            yield from probe()
        except Exception as error:  # whatever a broken environment raises is what is wrong with it
            what = getattr(probe, "__name__", "").strip("_<>").replace("lambda", "the course's folder")
            yield Finding(what, f"{type(error).__name__}: {error}".split("\n")[0], Fit.MEND, INSTALL)


def _python() -> Iterator[Finding]:
    oldest, newest = (".".join(map(str, version)) for version in PYTHON)
    mend = f"rm -r .venv && python{newest} -m venv .venv && .venv/bin/pip install -c requirements.lock -e ."
    fits = PYTHON[0] <= sys.version_info[:2] <= PYTHON[1]
    yield _fits("Python", fits, f"{platform.python_version()} (the course: {oldest} to {newest})", mend)
    mend = "take the course in WSL (https://learn.microsoft.com/windows/wsl)"
    yield _fits("system", sys.platform != "win32", f"{platform.system()} {platform.machine()}", mend)


def _packages() -> Iterator[Finding]:
    """JAX by name, and the others together: those that lack or do not fit by name."""
    lacking = {}
    for text in importlib.metadata.requires(DISTRIBUTION) or []:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        version = _version(requirement.name)
        if not version or not requirement.specifier.contains(version, prereleases=True):
            lacking[requirement.name] = (
                f"{requirement.name} {version or 'missing'} (the course: {requirement.specifier})"
            )
    jax, jaxlib = _version("jax"), _version("jaxlib")
    known = tuple(int(part) for part in jax.split(".")[:2]) if jax else (0, 0)
    fits = JAX[0] <= known <= JAX[1] and jax == jaxlib
    supported = " to ".join(".".join(map(str, version)) for version in JAX)
    found = f"{jax or 'missing'}" + ("" if jax == jaxlib else f" with jaxlib {jaxlib or 'missing'}")
    yield _fits("JAX", fits, f"{found} (the course: {supported})", INSTALL)
    others = ", ".join(line for name, line in lacking.items() if name not in ("jax", "jaxlib"))
    yield _fits("packages", not others, others or "all that the course needs", INSTALL)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _install(course: Path) -> Iterator[Finding]:
    """Whether `autograder` comes from this clone: from another one, the checks would be another's."""
    text = importlib.metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    place = unquote(urlsplit(json.loads(text)["url"]).path) if text else ""
    ours = bool(place) and Path(place).resolve() == course.resolve()
    found = str(course) if ours else f"{place or 'a copy'}, and this is {course}"
    yield _fits("installed from", ours, found, INSTALL)


def _devices() -> Iterator[Finding]:
    """What JAX computes on, asked of JAX in a process of its own, which may die."""
    program = "import jax; d = jax.devices(); print(len(d), d[0].platform, d[0].device_kind, sep='|')"
    environment = {**os.environ, "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", ""), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", program]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, env=environment)
    except subprocess.TimeoutExpired:
        yield Finding("devices", f"JAX did not answer in {_SECONDS} s", Fit.MEND, "JAX_PLATFORMS=cpu course doctor")
        return
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
        yield Finding("devices", f"JAX does not start: {said}", Fit.MEND, INSTALL)
        return
    number, kind, name = done.stdout.strip().split("\n")[-1].split("|")
    unused = kind == "cpu" and (shutil.which("nvidia-smi") or Path("/dev/nvidia0").exists())
    found = f"{number} x {name or kind} ({kind})" + (", and a GPU that JAX does not use" if unused else "")
    mend = f"{INSTALL.removesuffix('.')}'.[cuda]'" if unused else ""
    yield Finding("devices", found, Fit.NOTE if unused else Fit.FITS, mend)


def _cores() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found = f"{cores}" if cores > 1 else "1: checks of speed take longer, and may stay undecided"
    yield Finding("cores", found, Fit.FITS if cores > 1 else Fit.NOTE)


def _jupyterlab() -> Iterator[Finding]:
    """JupyterLab answers, and has nbgrader's Validate."""
    from jupyter_core.paths import jupyter_path

    command = [sys.executable, "-m", "jupyterlab", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
        yield Finding("JupyterLab", said, Fit.MEND, INSTALL)
        return
    validate = [folder for folder in jupyter_path("labextensions") if Path(folder, "@jupyter", "nbgrader").is_dir()]
    found = done.stdout.strip() + (", with nbgrader's Validate" if validate else ", without nbgrader's Validate")
    mend = f"{sys.executable} -m pip install --force-reinstall --no-deps -c requirements.lock nbgrader"
    yield _fits("JupyterLab", bool(validate), found, mend)


def _kernel() -> Iterator[Finding]:
    """Notebooks run in the Python that has the course's package."""
    from jupyter_client.kernelspec import NoSuchKernel
    from jupyter_client.manager import KernelManager

    mend = f"{sys.executable} -m ipykernel install --sys-prefix"
    try:
        program = KernelManager(kernel_name="python3").format_kernel_cmd()[0]
    except NoSuchKernel:
        yield Finding("kernel", "there is no python3", Fit.MEND, mend)
        return
    # A link is not followed: that of a virtual environment leads to the Python that it was made with.
    ours = Path(program).parent.resolve() == Path(sys.executable).parent.resolve()
    found = f"python3 is {program}" + ("" if ours else f", and the course is in {sys.executable}")
    yield _fits("kernel", ours, found, mend)


def _startup() -> Iterator[Finding]:
    """What a fresh kernel knows before anything is imported."""
    file = Path(sys.prefix, "etc", "ipython", "startup", "50-just-in-time.py")
    there = file.is_file()
    found = (
        "installed: after a restart a check names the cells to run first"
        if there
        else f"{file} is missing: after a restart no check names the cells to run first"
    )
    yield _fits("kernel's first words", there, found, INSTALL)


def _home() -> Iterator[Finding]:
    """JupyterLab keeps files of its own there."""
    home = Path.home()
    writable = _can_write(home)
    found = str(home) if writable else f"{home} cannot be written, and JupyterLab keeps files there"
    yield _fits("home", writable, found, "export HOME=$(mktemp -d)")


def _user() -> Iterator[Finding]:
    """JupyterLab does not start for root, unless it is told to."""
    if is_root():
        yield Finding("user", "root, for whom JupyterLab does not start by itself", Fit.NOTE, AS_ROOT)


def _room(course: Path, units: list[Unit]) -> Iterator[Finding]:
    """The learner's folder: that it can be written, and whether its copies are of today's text."""
    try:
        room = room_of(course)
    except BadInput as error:
        yield Finding("your room", str(error), Fit.MEND, f"unset {VARIABLE}")
        return
    place = room if room.exists() else next(folder for folder in room.parents if folder.exists())
    if not _can_write(place):
        yield Finding("your room", f"{place} cannot be written", Fit.MEND, f"export {VARIABLE}=$HOME/just-in-time")
        return
    if not (room / "lessons").is_dir():
        yield Finding("your room", f"{room}, made when it is first needed")
        return
    yield Finding("your room", str(room))
    if not is_readable(room):
        found = f"{room / FILE} cannot be read; your work is not in it"
        yield Finding("your points", found, Fit.MEND, f"mv {room / FILE} {room / UNREADABLE}")
    old = copies_behind(course, units)
    if not old:
        yield Finding("lessons, exercises", "of today's text")
    for file, changed in old.items():
        if changed:
            mend = f"course reset {name_of(file)} --beside"
            yield Finding("lessons, exercises", f"{file} is yours, and the course has a new text", Fit.NOTE, mend)
        else:
            yield Finding("lessons, exercises", f"{file}: the course has a new text", Fit.NOTE, "course start")


def _box() -> Iterator[Finding]:
    """Only who grades others' work needs one."""
    from autograder.doors.box import reduced
    from autograder.doors.box.rules import why_not

    why = why_not()
    less = "none" if reduced.why_not() else "a reduced one (autograder/THREATS.md)"
    yield Finding(
        "bubblewrap",
        f"{why}. Only teachers need it; here they have {less}" if why else "makes a box to grade in",
        Fit.NOTE if why else Fit.FITS,
    )


def _fits(what: str, fits: bool, found: str, mend: str) -> Finding:
    return Finding(what, found) if fits else Finding(what, found, Fit.MEND, mend)


def _can_write(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
