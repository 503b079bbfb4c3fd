"""Opens JupyterLab: in the learner's room without the teacher's panels, or in the course's folder with them.

Nothing of the user's own settings is touched: what is left out stands in a settings folder of the course's.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

SETTINGS = Path(__file__).with_name("lab_settings")
# Panels are plugins of JupyterLab, left out by SETTINGS; these serve them. The one for Validate stays.
_TEACHERS = ("formgrader", "assignment_list", "course_list")
AS_ROOT = "course start -- --allow-root"


def is_root() -> bool:
    """Whether this is root, for whom JupyterLab does not start unless `--allow-root` or a setting of theirs says so."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def learners_command(room: Path, opened: Path, more: Sequence[str]) -> list[str]:
    """The command line that opens the notebook `opened` in the room; `more` are JupyterLab's own options."""
    words = [*_jupyterlab(room), f"--LabApp.app_settings_dir={SETTINGS}"]
    words += [f"--LabApp.workspaces_dir={room / '.jupyterlab'}"]  # which tabs are open; the user's own stay apart
    words += [f"--ServerApp.jpserver_extensions=nbgrader.server_extensions.{name}=False" for name in _TEACHERS]
    # A browser that JupyterLab opens goes to `opened` by itself; an address that it prints, by this only.
    words += [f"--LabApp.default_url=/lab/tree/{quote(opened.relative_to(room).as_posix())}"]
    return [*words, *more, str(opened)]


def teachers_command(course: Path, more: Sequence[str]) -> list[str]:
    """The command line that opens the course's folder, with nbgrader's panels."""
    return [*_jupyterlab(course), *more]


def run(command: Sequence[str], folder: Path) -> NoReturn:
    """Become JupyterLab, in this folder: Ctrl-C and its exit code are JupyterLab's own."""
    if is_root() and "--allow-root" not in command:
        print(f"You are root: if JupyterLab does not start, say so to it, as in `{AS_ROOT}`.")
    os.chdir(folder)
    # So that `course` is found in JupyterLab's terminal and cells, when the environment has not been activated.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    sys.stdout.flush()
    os.execv(command[0], list(command))


def _jupyterlab(root: Path) -> list[str]:
    return [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}"]
