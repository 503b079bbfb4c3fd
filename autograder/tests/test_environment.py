"""What the course is installed from says one thing in three places, and the README's commands are the tested ones."""

import json
import os
import re
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

pytestmark = pytest.mark.once  # the same on every version

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
    supported, named = SpecifierSet(project["requires-python"]), re.fullmatch(r"=(3\.\d+)", entries["python"])
    assert named and named[1] in supported, "one exact Python: Binder reads nothing else, and takes an older one"
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
    assert opens.endswith(".venv/bin/course start")
    assert tests.endswith("pytest -n auto --dist loadgroup")
    assert all("-c requirements.lock" in line for line in (opens, tests))


@pytest.mark.once
def test_the_first_command_opens_a_room_without_solutions_and_without_the_teachers_panels(course, tmp_path):
    """What JupyterLab serves, which panels its page leaves out, and which of nbgrader's servers answer."""
    arguments = readme_commands(course)[0].split(".venv/bin/course ")[1].split()
    options = ["--no-browser", "--", "--allow-root", "--ServerApp.port=0", "--IdentityProvider.token=word"]
    command = [sys.executable, "-m", "autograder.workbench", *arguments, *options]
    room = tmp_path / "room"
    places = {"HOME": str(tmp_path), "JUPYTER_PLATFORM_DIRS": "0", "PATH": os.environ["PATH"], "COURSE_WORK": str(room)}
    server = subprocess.Popen(command, cwd=course, env=places, stderr=subprocess.PIPE, text=True)
    try:
        said = []
        while not said or "127.0.0.1" not in said[-1]:
            said.append(next(server.stderr))
        address = re.search(r"http://127.0.0.1:\d+/", said[-1])[0]

        def ask(path):
            while True:  # the server says where it is a moment before it listens
                try:
                    with urllib.request.urlopen(f"{address}{path}?token=word") as answer:
                        return answer.read().decode()
                except urllib.error.URLError as error:
                    if not isinstance(error.reason, ConnectionRefusedError) or server.poll() is not None:
                        raise
                    time.sleep(0.05)

        def is_served(path):
            try:
                return bool(ask(path))
            except urllib.error.HTTPError as error:
                return error.code != 404

        page = ask("lab/tree/lessons/00_before_you_start.ipynb")
        config = json.loads(re.search(r'id="jupyter-config-data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
        listed = json.loads(ask("api/contents/"))["content"]
        served = {name: is_served(name) for name in ("formgrader", "assignments", "nbgrader_version")}
        markdown = json.loads(ask("lab/api/settings/@jupyterlab/docmanager-extension:plugin"))["schema"]
    finally:
        server.kill()
        server.communicate()
    folder = next(line for line in said if "Serving notebooks from local directory" in line)
    assert folder.strip().endswith(f"directory: {room}")
    assert sorted(item["name"] for item in listed) == ["README.md", "exercises", "lessons"]
    left_out = set(config["disabledExtensions"])
    panels = ("assignment-list", "course-list", "create-assignment", "formgrader", "menu")
    assert {f"@jupyter/nbgrader:{panel}" for panel in panels} <= left_out
    assert "@jupyter/nbgrader:validate-assignment" not in left_out
    assert served == {"formgrader": False, "assignments": False, "nbgrader_version": True}
    assert markdown["properties"]["defaultViewers"]["default"] == {"markdown": "Markdown Preview"}
    assert not [path for path in tmp_path.rglob("*page_config*")]
