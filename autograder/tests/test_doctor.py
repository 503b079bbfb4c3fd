"""What is probed: it fits here, and what does not fit is found, with the command that mends it."""

import importlib.metadata
import subprocess
import sys
from types import SimpleNamespace

import pytest
from _tiny_room import ANSWERS, NAME, UNIT, edit, make_course
from conftest import COURSE

from autograder.doors.learner_record import FILE
from autograder.workbench import doctor
from autograder.workbench.doctor import INSTALL, Fit, findings
from autograder.workbench.outline import read_units
from autograder.workbench.room import open_room


@pytest.fixture
def course(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_WORK", raising=False)
    return make_course(tmp_path)


def only(probe, *arguments):
    """What a probe found, by what it looked at."""
    return {finding.what: finding for finding in probe(*arguments)}


@pytest.mark.once
def test_this_machine_has_what_the_course_needs(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_WORK", str(tmp_path / "work"))
    monkeypatch.setenv("HOME", str(tmp_path))
    found = list(findings(COURSE, read_units(COURSE)))
    assert [finding for finding in found if finding.fit is Fit.MEND] == []
    by_name = {finding.what: finding.found for finding in found}
    assert by_name["Python"].startswith(".".join(map(str, sys.version_info[:3])))
    assert by_name["JAX"].startswith(importlib.metadata.version("jax"))
    assert by_name["installed from"] == str(COURSE) and "cpu" in by_name["devices"]
    assert {"system", "packages", "cores", "JupyterLab", "kernel", "kernel's first words", "home"} < set(by_name)


def test_what_a_probe_breaks_on_is_a_finding(course, monkeypatch):
    def broken():
        raise OSError("no such thing\nand more")

    names = [
        "_python",
        "_packages",
        "_devices",
        "_cores",
        "_jupyterlab",
        "_kernel",
        "_startup",
        "_home",
        "_user",
        "_box",
    ]
    for name in names:
        monkeypatch.setattr(doctor, name, broken)
    monkeypatch.setattr(doctor, "_install", lambda course: broken())
    found = list(findings(course, read_units(course)))
    assert len(found) == len(names) + 2
    assert found[0] == doctor.Finding("broken", "OSError: no such thing", Fit.MEND, INSTALL)


def test_a_python_or_a_jax_that_is_not_supported(monkeypatch):
    monkeypatch.setattr(doctor.sys, "version_info", (3, 14, 0))
    assert only(doctor._python)["Python"].mend.startswith("rm -r .venv && python3.13 -m venv")
    versions = {"jax": "0.9.1", "jaxlib": "0.9.0", "nbgrader": ""}
    real = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: versions.get(name, real(name)))
    found = only(doctor._packages)
    assert found["JAX"] == doctor.Finding(
        "JAX", "0.9.1 with jaxlib 0.9.0 (the course: 0.10 to 0.12)", Fit.MEND, INSTALL
    )
    assert found["packages"].found == "nbgrader missing (the course: >=0.9.6)" and found["packages"].mend == INSTALL


def test_a_package_from_another_clone(course):
    found = only(doctor._install, course)["installed from"]
    assert found.fit is Fit.MEND and str(COURSE) in found.found and found.mend == INSTALL


@pytest.mark.parametrize(
    ("done", "fit", "said"),
    [
        (SimpleNamespace(returncode=0, stdout="2|gpu|H100\n", stderr=""), Fit.FITS, "2 x H100 (gpu)"),
        (
            SimpleNamespace(returncode=0, stdout="noise\n1|cpu|cpu\n", stderr=""),
            Fit.NOTE,
            "and a GPU that JAX does not",
        ),
        (
            SimpleNamespace(returncode=1, stdout="", stderr="a\nImportError: b"),
            Fit.MEND,
            "does not start: ImportError: b",
        ),
        (SimpleNamespace(returncode=-9, stdout="", stderr=""), Fit.MEND, "ended with -9"),
        (subprocess.TimeoutExpired("jax", 1), Fit.MEND, "did not answer"),
    ],
)
def test_what_jax_computes_on(monkeypatch, done, fit, said):
    def answer(*_, **__):
        if isinstance(done, Exception):
            raise done
        return done

    monkeypatch.setattr(doctor.subprocess, "run", answer)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/usr/bin/{name}")
    found = only(doctor._devices)["devices"]
    assert found.fit is fit and said in found.found and bool(found.mend) == (fit is not Fit.FITS)


def test_a_kernel_of_another_python(monkeypatch, tmp_path):
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel

    monkeypatch.setenv("PATH", "/usr/bin")  # the environment need not have been activated
    assert only(doctor._kernel)["kernel"].fit is Fit.FITS
    other = KernelSpec(argv=[str(tmp_path / "bin" / "python")])
    monkeypatch.setattr(KernelSpecManager, "get_kernel_spec", lambda *_: other)
    found = only(doctor._kernel)["kernel"]
    assert found.fit is Fit.MEND and found.mend == f"{sys.executable} -m ipykernel install --sys-prefix"

    def missing(*_):
        raise NoSuchKernel("python3")

    monkeypatch.setattr(KernelSpecManager, "get_kernel_spec", missing)
    assert only(doctor._kernel)["kernel"].found == "there is no python3"


def test_jupyterlab_that_does_not_answer_or_lacks_validate(monkeypatch):
    answers = iter(
        [SimpleNamespace(returncode=1, stderr="x\nbroken", stdout=""), SimpleNamespace(returncode=0, stdout="4.6.6\n")]
    )
    monkeypatch.setattr(doctor.subprocess, "run", lambda *_, **__: next(answers))
    assert only(doctor._jupyterlab)["JupyterLab"].found == "broken"
    monkeypatch.setenv("JUPYTER_PATH", "")
    monkeypatch.setattr("jupyter_core.paths.jupyter_path", lambda *_: [])
    assert only(doctor._jupyterlab)["JupyterLab"].found == "4.6.6, without nbgrader's Validate"


def test_a_home_that_cannot_be_written_and_files_that_are_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    assert only(doctor._home)["home"].mend == "export HOME=$(mktemp -d)"
    monkeypatch.setattr(doctor.sys, "prefix", str(tmp_path))
    assert only(doctor._startup)["kernel's first words"].mend == INSTALL


@pytest.mark.parametrize("user", [0, 1000])
def test_root_is_told_how_jupyterlab_starts(monkeypatch, user):
    monkeypatch.setattr(doctor.os, "geteuid", lambda: user, raising=False)
    found = only(doctor._user)
    assert list(found) == (["user"] if user == 0 else [])
    assert all(finding.fit is Fit.NOTE and finding.mend == "course start -- --allow-root" for finding in found.values())


def test_what_the_kernels_first_words_are_for_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor.sys, "prefix", str(tmp_path))
    file = tmp_path / "etc" / "ipython" / "startup" / "50-just-in-time.py"
    file.parent.mkdir(parents=True)
    file.touch()
    (found,) = doctor._startup()
    assert found.fit is Fit.FITS and found.found.endswith("after a restart a check names the cells to run first")


def test_one_core_is_noted(monkeypatch):
    monkeypatch.setattr(doctor.os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert only(doctor._cores)["cores"].fit is Fit.NOTE


def test_the_room_is_looked_at_and_not_made(course, monkeypatch):
    units = read_units(course)
    assert only(doctor._room, course, units)["your room"].fit is Fit.FITS and not (course / "work").exists()
    open_room(course, units)
    assert only(doctor._room, course, units)["lessons, exercises"].found == "of today's text"
    exercise = f"exercises/{UNIT}/{NAME}.ipynb"
    edit(course / "work" / exercise, square=ANSWERS["square"])
    edit(course / exercise, title="# Exercise 01 · Powers, told anew")
    edit(course / "lessons" / "00_before.ipynb", title="# 00 · Before you start, told anew")
    found = [finding for finding in doctor._room(course, units) if finding.fit is Fit.NOTE]
    assert [finding.mend for finding in found] == ["course start", "course reset 1 --beside"]
    (course / "work" / FILE).write_text("{")
    assert only(doctor._room, course, units)["your points"].fit is Fit.MEND
    monkeypatch.setenv("COURSE_WORK", "lessons")
    assert only(doctor._room, course, units)["your room"].mend == "unset COURSE_WORK"
    monkeypatch.setenv("COURSE_WORK", "/proc/nowhere/room")
    assert "cannot be written" in only(doctor._room, course, units)["your room"].found
