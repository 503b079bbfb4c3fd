"""An unsupported Python or JAX gets one line, whichever door it comes through."""

import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from autograder.doors.graded_notebook import failure_text
from autograder.doors.kernel_runner import Runner
from autograder.versions import JAX, PYTHON, unsupported

OLD_JAX = (
    "The course needs JAX 0.10 to 0.12, and this is JAX 0.9.1: its lessons state what those versions do. "
    "Try: pip install -c requirements.lock -e ."
)


def test_what_is_installed_here_is_supported():
    assert unsupported() is None


@pytest.mark.parametrize("python", [(3, 10), (3, 14)])
def test_another_python(python):
    assert unsupported(python, "0.12.0") == (
        f"The course needs Python 3.11 to 3.13, and this is Python {python[0]}.{python[1]}. "
        "Try: make the environment again with one of those."
    )


def test_another_jax():
    assert unsupported((3, 12), "0.9.1") == OLD_JAX
    assert unsupported((3, 12), "0.13.0rc1").startswith("The course needs JAX 0.10 to 0.12, and this is JAX 0.13.0rc1")
    assert unsupported((3, 12), "0.12.0.1") is None


@pytest.mark.parametrize("python", PYTHON)
@pytest.mark.parametrize("jax", ["0.10.0", "0.11.2", "0.12.3"])
def test_both_ends_are_supported(python, jax):
    assert unsupported(python, jax) is None


def test_pyproject_says_the_same(course):
    project = tomllib.loads((course / "pyproject.toml").read_text())["project"]
    python = SpecifierSet(project["requires-python"])
    jax = next(r for r in map(Requirement, project["dependencies"]) if r.name == "jax").specifier
    for specifier, ((major, low), (_, high)), patch in ((python, PYTHON, "0"), (jax, JAX, "2")):
        assert specifier.contains(f"{major}.{low}.{patch}") and specifier.contains(f"{major}.{high}.{patch}")
        assert not specifier.contains(f"{major}.{low - 1}.9") and not specifier.contains(f"{major}.{high + 1}.0")


@pytest.fixture
def old_jax(tmp_path, monkeypatch):
    """A metadata folder that stands before the real one and calls JAX 0.9.1."""
    folder = tmp_path / "old" / "jax-0.9.1.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: jax\nVersion: 0.9.1\n")
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))


def test_in_a_notebook(old_jax, make_notebook, tmp_path):
    notebook = make_notebook("from autograder import speedup")
    with Runner(notebook, tmp_path) as runner:
        runner.run_all()
    assert failure_text(notebook.cells[0]) == f"UnsupportedVersion: {OLD_JAX}"


@pytest.mark.parametrize(
    ("command", "prefix"),
    [(["pytest", "-p", "no:cacheprovider", "lessons"], "ERROR: "), (["nbgrader", "list"], "nbgrader_config.py: ")],
)
def test_at_the_other_doors(old_jax, course, command, prefix):
    done = subprocess.run([sys.executable, "-m", *command], cwd=course, capture_output=True, text=True)
    printed = done.stdout + done.stderr
    assert done.returncode != 0
    assert f"{prefix}{OLD_JAX}" in printed
    assert "Traceback" not in printed
