"""What runs in a sandbox of `attacks.py`, in the course's folder: a grading, or a look at what came of one.

    python _graded_class.py PORT UNIT SETTING ...   nbgrader autograde, beside a server that somebody might call
    python _graded_class.py --look                  JSON: points, who has reached what, what is left

It imports nothing of the course: what is there may have been spoilt.
"""

import contextlib
import ctypes
import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

ADOPT = 36  # prctl's PR_SET_CHILD_SUBREAPER
LEFT = Path("..", "left.json")
PLANTED = Path("/tmp/autograder-planted")
LARGEST = 2**26  # bytes of a notebook that is looked at
PATIENCE = 3  # seconds in which what the grader has started may end

POINTS = """
select student_id, sum(coalesce(grade.manual_score, grade.auto_score, 0) + coalesce(grade.extra_credit, 0)),
       sum(grade.needs_manual_grade)
from submitted_assignment
join submitted_notebook on submitted_notebook.assignment_id = submitted_assignment.id
join grade on grade.notebook_id = submitted_notebook.id
group by student_id
"""


def graded(port: int, unit: str, settings: list[str]) -> None:
    ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0)
    heard: list[str] = []
    with socket.create_server(("127.0.0.1", port)) as server, socket.socket(socket.AF_UNIX) as other:
        other.bind(f"\0autograder-{port}")
        other.listen()
        for name, each in {"TCP": server, "a socket without a file": other}.items():
            threading.Thread(target=listen, args=[name, each, heard], daemon=True).start()
        subprocess.run([sys.executable, "-m", "nbgrader", "autograde", unit, *settings])
        end = time.monotonic() + PATIENCE
        while (left := running()) and time.monotonic() < end:
            time.sleep(0.1)
    left += ["a file in /tmp"] if PLANTED.exists() else []
    LEFT.write_text(json.dumps({"left": left, "heard": heard}))


def listen(name: str, server: socket.socket, heard: list[str]) -> None:
    with contextlib.suppress(OSError):  # it is closed at the end
        while True:
            server.accept()
            heard.append(name)


def running() -> list[str]:
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.status() == psutil.STATUS_ZOMBIE:
                process.wait(0)  # a box ends when each of its processes has been waited for
            else:
                found.append(" ".join(process.cmdline())[:40] or process.name())
    return found


def seen() -> dict:
    found: dict = {"points": {}, "reached": [], "left": [], "heard": []}
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect("file:gradebook.db?mode=ro", uri=True)) as db,
    ):
        for student, points, waits in db.execute(POINTS):
            found["points"][student] = None if waits else points
    for path in sorted(Path("autograded").glob("*/*/*.ipynb")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if "REACHED" in printed(path):
                found["reached"].append(path.parts[1])
    with contextlib.suppress(OSError, ValueError):
        found |= json.loads(text_of(LEFT))
    return found


def text_of(path: Path) -> str:
    """The text of a file that is no link, and not too large."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="utf-8") as file:
        return file.read(LARGEST)


def printed(path: Path) -> str:
    """What the cells of a notebook wrote; a traceback quotes the attack itself."""
    outputs = [output for cell in json.loads(text_of(path))["cells"] for output in cell.get("outputs", [])]
    return "".join("".join(output["text"]) for output in outputs if output["output_type"] == "stream")


if __name__ == "__main__":
    if sys.argv[1] == "--look":
        print(json.dumps(seen()))
    else:
        graded(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
