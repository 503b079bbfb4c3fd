"""What the course is installed from says one thing in three places, and the README's commands are the tested ones."""

import os
import re
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

CONDA = {"jax", "jaxlib", "jupyterlab", "nbgrader", "pytest"}


@pytest.fixture
def project(course):
    return tomllib.loads((course / "pyproject.toml").read_text())["project"]


@pytest.fixture
def requirements(project):
    return {r.name: r for r in map(Requirement, project["dependencies"])}


def conda_entries(course):
    text = (course / "environment.yml").read_text()
    return dict(re.findall(r"^  - ([a-z]+) ?([<>=][^\n]*)?$", text, re.MULTILINE))


def test_environment_yml_says_what_pyproject_says(course, project, requirements):
    entries = conda_entries(course)
    assert entries.keys() == CONDA | {"python", "pip"}
    assert SpecifierSet(entries["python"]) == SpecifierSet(project["requires-python"])
    for name in CONDA:
        assert SpecifierSet(entries[name]) == requirements[name].specifier, name
    assert (course / "environment.yml").read_text().rstrip().endswith("- pip:\n      - -e .")


def locked_versions(course, python):
    """name -> version that requirements.lock gives for this Python on Linux."""
    found = {}
    for line in (course / "requirements.lock").read_text().splitlines():
        requirement = Requirement(line)
        environment = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
        if requirement.marker is None or requirement.marker.evaluate(environment):
            (pin,) = requirement.specifier
            assert pin.operator == "==", line
            assert requirement.name not in found, f"{requirement.name} is locked twice for Python {python}"
            found[requirement.name] = Version(pin.version)
    return found


@pytest.mark.parametrize(("python", "jax"), [("3.11.7", "0.10"), ("3.12.1", "0.12"), ("3.13.0", "0.12")])
def test_the_lock_serves_every_supported_python(course, requirements, python, jax):
    versions = locked_versions(course, python)
    for name, requirement in requirements.items():
        assert requirement.specifier.contains(versions[name]), name
    assert str(versions["jax"]).startswith(jax)
    assert versions["jax"] == versions["jaxlib"]


def readme_commands(course):
    """The command lines of the README's first two code blocks."""
    blocks = re.findall(r"```sh\n(.*?)\n```", (course / "README.md").read_text(), re.DOTALL)
    return blocks[:2]


def test_the_readme_has_two_commands_of_one_line_each(course):
    opens, tests = readme_commands(course)
    assert "\n" not in opens + tests
    assert opens.endswith("jupyter lab --ServerApp.root_dir=. lessons/00_before_you_start.ipynb")
    assert tests.endswith("pytest -n auto --dist loadgroup")
    assert all("-c requirements.lock" in line for line in (opens, tests))


def test_jupyterlab_shows_the_whole_course(course, tmp_path):
    """Given a file, JupyterLab would serve its folder alone, and no link of a lesson would reach the exercises."""
    arguments = readme_commands(course)[0].split("jupyter lab ")[1].split()
    command = [sys.executable, "-m", "jupyterlab", *arguments, "--no-browser", "--allow-root", "--ServerApp.port=0"]
    places = {"HOME": str(tmp_path), "JUPYTER_PLATFORM_DIRS": "0", "PATH": os.environ["PATH"]}
    server = subprocess.Popen(command, cwd=course, env=places, stderr=subprocess.PIPE, text=True)
    try:
        folder = next(line for line in server.stderr if "Serving notebooks from local directory" in line)
    finally:
        server.kill()
        server.communicate()
    assert folder.strip().endswith(f"directory: {course}")
    assert (course / arguments[-1]).exists()
