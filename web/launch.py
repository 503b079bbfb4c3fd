"""Where a page's notebook can be run without installing anything: links to Colab and Binder.

Colab opens notebooks from GitHub alone, and brings a Python of its own. So the site holds, in its folder `colab/`, a
copy of each notebook whose first cell installs what is missing, and Colab opens that from the branch on which the site
is published. Binder builds the repository's `environment.yml`, and opens the repository's own notebook.
"""

import os
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_code_cell
from packaging.requirements import Requirement

PAGES_BRANCH = "gh-pages"  # what the hosted CI publishes; Colab reads the copies there
# What is for JupyterLab, grading and the terminal, and which no notebook imports. In Colab it would replace parts that
# are running (ipykernel, tornado), after which Colab has to be reset.
NOT_FOR_A_KERNEL = {
    "jupyterlab",
    "jupytext",
    "latex2mathml",
    "nbgrader",
    "pytest",
    "rich",
    "typer",
    "watchfiles",
}
_GITHUB = re.compile(r"github\.com[:/]([\w.-]+)/([\w.-]+?)(?:\.git)?/?$")
_OPENED = re.compile(r"""["'](\.\./[\w/]+\.ipynb)["']""")
_RELATIVE = re.compile(r"(\]\()((?:\.\./)*[\w/]+)\.(?:ipynb|md)(?=[#)])")


@dataclass(frozen=True)
class Repository:
    """A repository on GitHub, and the commit whose package a notebook of the site installs ("" for the newest)."""

    owner: str
    name: str
    commit: str = ""

    @property
    def address(self) -> str:
        """Where it is cloned from."""
        return f"https://github.com/{self.owner}/{self.name}"

    @property
    def site(self) -> str:
        """Where GitHub serves its pages; a domain of one's own is reached from there, too."""
        host = f"{self.owner.lower()}.github.io"
        return f"https://{host}" if self.name.lower() == host else f"https://{host}/{self.name}"

    def colab(self, notebook: str) -> str:
        """A link that opens the copy of `notebook` ("lessons/05_the_cache.ipynb") in Colab."""
        return f"https://colab.research.google.com/github/{self.owner}/{self.name}/blob/{PAGES_BRANCH}/colab/{notebook}"

    def binder(self, notebook: str) -> str:
        """A link that opens `notebook` on mybinder.org."""
        return f"https://mybinder.org/v2/gh/{self.owner}/{self.name}/HEAD?urlpath=lab/tree/{notebook}"


def find_repository(course: Path) -> Repository | None:
    """The repository that this course comes from: as the hosted CI says, or git's remote; None if neither does."""
    if name := os.environ.get("GITHUB_REPOSITORY"):
        owner, _, name = name.partition("/")
        return Repository(owner, name, os.environ.get("GITHUB_SHA", ""))
    told = subprocess.run(["git", "remote", "get-url", "origin"], cwd=course, capture_output=True, text=True)
    found = _GITHUB.search(told.stdout.strip()) if told.returncode == 0 else None
    return Repository(found[1], found[2]) if found else None


def requirements(course: Path) -> list[str]:
    """What a kernel needs, with the versions that pyproject.toml asks for."""
    listed = tomllib.loads((course / "pyproject.toml").read_text())["project"]["dependencies"]
    return [one for one in listed if Requirement(one).name not in NOT_FOR_A_KERNEL]


def install_cell(repository: Repository, needed: list[str], opened: dict[str, str] | None = None) -> str:
    """The text of the first cell of a copy: it installs what is missing, and nothing where the course is installed.

    `opened` are files of the course that the notebook reads: where it looks for them -> where they lie in the course.
    """
    package = f"git+{repository.address}" + (f"@{repository.commit}" if repository.commit else "")
    listed = "".join(f'        "{one}",\n' for one in needed)
    text = f'''\
# Installs the course where it is missing (some minutes); elsewhere this cell does nothing.
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("autograder") is None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    needed = [
{listed}    ]
    subprocess.run([*pip, *needed], check=True)
    subprocess.run([*pip, "--no-deps", "{package}"], check=True)
'''
    for path, place in (opened or {}).items():
        source = f"https://raw.githubusercontent.com/{repository.owner}/{repository.name}/{repository.commit or 'HEAD'}"
        text += f'''
import pathlib
import urllib.request

if not (file := pathlib.Path("{path}")).exists():  # this notebook reads it
    file.parent.mkdir(parents=True, exist_ok=True)
    urllib.request.urlretrieve("{source}/{place}", file)
'''
    return text


def for_colab(notebook: NotebookNode, place: str, repository: Repository, needed: list[str]) -> NotebookNode:
    """A copy whose first cell installs the course, and whose links lead to the site.

    `place` is where the notebook lies in the course: "lessons/05_the_cache".
    """
    copy = from_dict(notebook)
    for cell in copy.cells:
        if cell.cell_type == "markdown":
            cell.source = _RELATIVE.sub(lambda link: link[1] + _page(repository, place, link[2]), cell.source)
    code = "\n".join(cell.source for cell in copy.cells if cell.cell_type == "code")
    opened = {path: os.path.normpath(os.path.join(os.path.dirname(place), path)) for path in _OPENED.findall(code)}
    text = install_cell(repository, needed, opened)
    copy.cells.insert(0, new_code_cell(text, id="install", metadata={"jupyter": {"source_hidden": True}}))
    return copy


def _page(repository: Repository, place: str, target: str) -> str:
    """The address of the page to which a relative link of the notebook at `place` leads."""
    page = os.path.normpath(os.path.join(os.path.dirname(place), target))
    return f"{repository.site}/{'index' if page == 'README' else page}.html"
