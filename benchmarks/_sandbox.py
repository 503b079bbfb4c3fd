"""A machine to be spoilt: a whole grading runs in it, of strangers' code that nothing else holds.

What it sees is read-only, but for one folder, which it may spoil; that holds a Python environment of its own and a copy
of the package, as an instructor's would be. It has no network, few processes, little memory and time, and the rights of
a user who has none. Made by bubblewrap.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

import psutil
from _unit import COURSE

PACKAGE = COURSE / "autograder"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ld.so.cache")
_NOBODY = 65534
_MEMORY, _DISK, _FILE, _PROCESSES = 3 * 2**30, 2**28, 2**27, 400  # bytes, and threads count
_LOOK = 0.2  # seconds between two looks at the memory
_SPACES = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")


class Sandbox:
    """A folder for it; `run` may be called several times, and what one leaves in the folder the next one finds."""

    def __init__(self, place: Path):
        self.place = place
        self.home = place / "home"
        self.home.mkdir(parents=True)
        self.package = place / "package"
        shutil.copytree(PACKAGE, self.package)
        self.python = place / "environment" / "bin" / "python"
        venv.EnvBuilder(symlinks=True).create(place / "environment")
        for part in ("share", "etc"):
            (place / "environment" / part).symlink_to(Path(sys.prefix, part))
        packages = next((place / "environment" / "lib").glob("python*/site-packages"))
        line = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})"
        (packages / "of_the_machine.pth").write_text(f"{line}\n")

    def run(self, command: list[str], seconds: float, folder: Path, *shown: Path, writes: bool = True) -> str:
        """What a command says there, at most so many seconds long; with it everything ends that it has started.

        Arguments:
          folder: in which it starts, below the sandbox's own.
          shown: files of the machine that it can read.
          writes: whether it may change the sandbox's folder. If not, it finds the machine's package.
        """
        if os.geteuid() == 0:
            for path in [self.place, *self.place.rglob("*")]:
                os.chown(path, _NOBODY, _NOBODY, follow_symlinks=False)
        with subprocess.Popen(
            [*self._words(folder, shown, writes), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as sandbox:
            try:
                return self._said(sandbox, time.monotonic() + seconds)
            finally:
                sandbox.kill()  # with it everything inside ends

    def _said(self, sandbox: subprocess.Popen, end: float) -> str:
        """Its last words, when it has ended, or has used too much time or memory."""
        said = b""
        assert sandbox.stdout
        os.set_blocking(sandbox.stdout.fileno(), False)
        while sandbox.poll() is None and time.monotonic() < end and _held(sandbox.pid) < _MEMORY:
            said = (said + (sandbox.stdout.read() or b""))[-(2**22) :]
            time.sleep(_LOOK)
        return (said + (sandbox.stdout.read() or b"")).decode(errors="replace")

    def _words(self, start: Path, files: tuple[Path, ...], writes: bool) -> list[str]:
        shown = {path for path in _SYSTEM if os.path.exists(path)} | {sys.prefix, sys.base_prefix, *map(str, files)}
        package = self.package if writes else PACKAGE
        words = ["bwrap", *_SPACES, "--die-with-parent", "--new-session", "--clearenv", "--proc", "/proc"]
        words += ["--dev", "/dev"]
        for folder in ("/tmp", "/dev/shm"):
            words += ["--perms", "1777", "--size", str(_DISK), "--tmpfs", folder]
        above = {parent for path in (*shown, PACKAGE, self.place) for parent in Path(path).parents}
        for parent in sorted(above - {Path("/")}):
            words += ["--perms", "0755", "--dir", str(parent)]
        for path in sorted(shown):
            words += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
        words += ["--bind" if writes else "--ro-bind", str(self.place), str(self.place)]
        words += ["--bind" if writes else "--ro-bind", str(package), str(PACKAGE)]
        programs = f"{self.python.parent}:{Path(sys.executable).parent}:/usr/bin:/bin"
        settings = {"HOME": self.home, "PATH": programs, "LANG": "C.UTF-8", "USER": "us"}
        for name, value in settings.items():
            words += ["--setenv", name, str(value)]
        words += ["--setenv", "SECRET_TOKEN", "open-sesame", "--chdir", str(start), "--remount-ro", "/"]
        if os.geteuid() == 0:
            words += ["--", "setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
            words += ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        else:
            words += ["--unshare-user", "--cap-drop", "ALL"]
        return [*words, "--", "prlimit", f"--fsize={_FILE}", f"--nproc={_PROCESSES}", "--core=0"]


def _held(process: int) -> int:
    """Bytes of memory that a process and all below it hold."""
    held = 0
    try:
        for each in psutil.Process(process).children(recursive=True):
            try:
                info = each.memory_info()
                held += info.rss - info.shared
            except psutil.Error:
                continue
    except psutil.Error:
        pass
    return held
