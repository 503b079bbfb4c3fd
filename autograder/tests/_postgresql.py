"""A PostgreSQL server of a test's own: in a new folder, at a socket in it, with no port, as a user without rights."""

import glob
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_OWNER = 65534  # nobody: the server refuses to run as root
_SETTINGS = "-c listen_addresses='' -c fsync=off -k {folder}"


def why_none() -> str:
    """Why there can be none here; empty if there can be."""
    return "" if _program("initdb") and _program("pg_ctl") else "PostgreSQL's server is not installed"


def _program(name: str) -> str | None:
    """Debian keeps these from the PATH, in a folder for each version."""
    return shutil.which(name, path=os.pathsep.join([*glob.glob("/usr/lib/postgresql/*/bin"), os.environ["PATH"]]))


@contextmanager
def server() -> Iterator[str]:
    """The URL of a new server's database, as `db_url` has it. With the block the server ends."""
    folder = tempfile.mkdtemp(dir="/tmp")  # a socket's path is short
    root = os.geteuid() == 0
    if root:
        os.chown(folder, _OWNER, _OWNER)

    def run(name: str, *words: str) -> None:
        # A server goes on after its `pg_ctl`, and would hold a pipe open.
        with open(os.path.join(folder, "log"), "ab") as log:
            user = {"user": _OWNER, "group": _OWNER, "extra_groups": []} if root else {}
            command = [str(_program(name)), "-D", f"{folder}/data", *words]
            subprocess.run(command, check=True, cwd=folder, stdout=log, stderr=log, **user)

    try:
        run("initdb", "--auth=trust", "--username=grader", "--encoding=UTF8", "--no-sync")
        run("pg_ctl", "-w", "-o", _SETTINGS.format(folder=folder), "start")
        try:
            yield f"postgresql+psycopg://grader@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)
