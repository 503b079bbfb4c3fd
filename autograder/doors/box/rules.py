"""What is in the box, what it may use, and whether this machine can make one."""

import functools
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import autograder
from autograder.doors.box import landlock, reduced
from autograder.doors.box.landlock import Access
from autograder.doors.warm_kernels import python_path

BWRAP = "bwrap"
COMPILED = "/compiled"
REDUCED = "a reduced box"  # as scores record it
# Parts of a Python's prefix. Never all of it: a prefix may be somebody's home.
_OF_PREFIX = ("bin", "lib", "lib64", "etc", "share", "include", "pyvenv.cfg")
_SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"]
_SYSTEM += ["/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime"]
_SYSTEM += ["/sys/devices/system/cpu", "/sys/devices/system/node"]  # how many cores there are
# Of the grader's environment, what says which device and which instructions JAX uses. A token or a password has
# no business in a student's process, and a variable such as MALLOC_TRIM_THRESHOLD_ changes what is measured.
_KEPT = {"LANG", "LC_ALL", "TZ", "NBGRADER_EXECUTION", "LD_LIBRARY_PATH", "JAX_PLATFORMS", "XLA_FLAGS"}
_KEPT |= {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "TPU_VISIBLE_DEVICES"}


@dataclass(frozen=True)
class Rules:
    """The limits of one box, for all its processes together."""

    memory: float = 4.0  # GiB
    disk: float = 1.0  # GiB of files, which lie in memory and end with the box
    processes: int = 256
    cpu: int = 3600  # seconds, of each process
    devices: tuple[str, ...] = field(default=())  # such as /dev/nvidia0
    programs: bool = True  # whether modules that lie beside the notebook come with it
    compiled: str = ""  # the folder in which JAX looks for programs that it has compiled before
    compiles: bool = False  # whether it keeps them there; otherwise nobody in the box can write them
    reduced: bool = True  # whether a reduced box will do where bubblewrap can make none

    def __str__(self) -> str:
        """As what a score was given in, for whoever reads it later."""
        devices = f", with {', '.join(self.devices)}" if self.devices else ""
        limits = f"{self.memory:g} GiB of memory, {self.disk:g} GiB of files, {self.processes} processes{devices}"
        if why_not():
            lacks = "; ".join(reduced.lacks())
            return f"{REDUCED} (Landlock ABI {landlock.abi()}: no network, {limits}; but {lacks})"
        return f"a box ({_version()}: no network, {limits})"

    def why_not(self) -> str:
        """Why no such box can be made here, as one line with its remedy; empty if one can be made."""
        if not (why := why_not()) or not self.reduced:
            return why
        return f"{why}. Nor can it make a reduced one: {less}" if (less := reduced.why_not()) else ""

    def notice(self) -> str:
        """What is to be said where it is a reduced one: why, and what would make it a full one; else empty."""
        if not (why := why_not()):
            return ""
        return (
            f"Students' code runs in {self}. Bubblewrap can make no full box: {why}. "
            "To grade nothing here rather than in a reduced one, say --RunNotebook.reduced=False."
        )

    def place(self, slot: str) -> dict[str, object]:
        """What the server is to make. The folders in `slot`: c for sockets, submitted, compiled if it compiles."""
        connection, submitted = os.path.join(slot, "c"), os.path.join(slot, "submitted")
        compiled = os.path.join(slot, "compiled") if self.compiles else self.compiled
        asked = {"connection": connection, "limits": self.limits(), "compiles": self.compiles}
        if not why_not():
            folders = {"submitted": "/submitted", "work": "/tmp/home/work", "compiled": COMPILED if compiled else ""}
            made = {"box": self.command(connection, submitted, compiled), "environment": environment()}
            return asked | folders | made | {"path": python_path()}
        own, modules = os.path.join(slot, "own"), os.path.join(slot, "modules")
        os.makedirs(os.path.join(own, "home"))
        granted = [*_granted(self.devices), (connection, Access.READ_FILE | Access.READ_DIR | Access.MAKE_SOCK)]
        granted += [(own, Access.OF_ITS_OWN), (modules, Access.READ)]
        granted.append((compiled, Access.OF_ITS_OWN if self.compiles else Access.READ_FILE))
        # Python asks what is in a folder before it looks for the package there; in a clone that would tell too much.
        os.mkdir(modules)
        os.symlink(Path(autograder.__file__).parent, os.path.join(modules, "autograder"))
        path = [modules, *(entry for entry in python_path() if Path(entry) not in _clones())]
        folders = {"folder": own, "submitted": submitted, "work": os.path.join(own, "home", "work")}
        found = {"environment": environment(own) | {"PYTHONPATH": modules}, "path": path, "compiled": compiled}
        return asked | folders | found | {"granted": [(path, int(access)) for path, access in granted if path]}

    def limits(self) -> dict[str, int]:
        """As the server wants them, in bytes."""
        sizes = {"memory": int(self.memory * 2**30), "disk": int(self.disk * 2**30)}
        return {**sizes, "processes": self.processes, "cpu": self.cpu}

    def command(self, connection: str, submitted: str, compiled: str = "") -> list[str]:
        """Bubblewrap's command line. `connection` can be written in, `submitted` can be read, both are ours.

        `compiled` is where programs lie while the box is there.
        """
        disk = self.limits()["disk"]
        words = [BWRAP, "--unshare-all", "--unshare-user", *_no_more_namespaces(), "--die-with-parent", "--new-session"]
        words += ["--cap-drop", "ALL", "--clearenv", "--uid", "1000", "--gid", "1000", "--hostname", "box"]
        # First what others may lie below: the course may, and the folder with the sockets does.
        words += ["--size", str(disk), "--tmpfs", "/tmp", "--dir", "/tmp/home", *_mounts()]
        # Read-only, because to root in a user namespace without a privilege /proc/sys can still be written.
        words += ["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"]
        for device in self.devices:
            words += ["--dev-bind", device, device]
        if self.devices:
            words += ["--ro-bind", "/sys", "/sys"]
        words += ["--size", str(disk // 4), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
        words += ["--bind", connection, connection, "--ro-bind", submitted, "/submitted"]
        if compiled:
            # Another grader may have removed it: then there is nothing to be found.
            words += ["--dir", COMPILED, "--bind-try" if self.compiles else "--ro-bind-try", compiled, COMPILED]
        return [*words, "--remount-ro", "/"]


def server_command(folder: str) -> list[str]:
    """The beginning of the command line by which the server is started: it can write in `folder` alone.

    Empty where boxes are reduced ones: what is forked from it may write nothing there.
    """
    return [] if why_not() else _read_only(folder)


def _read_only(folder: str) -> list[str]:
    words = [BWRAP, "--unshare-user", "--ro-bind", "/", "/", "--bind", "/proc", "/proc", "--dev-bind", "/dev", "/dev"]
    return [*words, "--bind", folder, folder, "--"]


def environment(own_folder: str = "/tmp") -> dict[str, str]:
    """The environment variables in the box."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LIBTPU")}
    path = os.pathsep.join([os.path.dirname(sys.executable), "/usr/local/bin", "/usr/bin", "/bin"])
    own = {"PATH": path, "HOME": f"{own_folder}/home", "USER": "student", "TMPDIR": own_folder}
    # The judge and the measuring process hold memory of the same device: JAX shall not ask for most of it at once.
    return {"LANG": "C.UTF-8", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | kept | own


@functools.cache
def why_not() -> str:
    """Why bubblewrap can make no box here, as one line with its remedy; empty if it can."""
    if sys.platform != "linux":
        return "bubblewrap, which makes it, exists for Linux alone (on Windows: in WSL; else in a virtual machine)"
    if shutil.which(BWRAP) is None:
        return "bubblewrap is not installed (`apt install bubblewrap` or `dnf install bubblewrap`)"
    trial = [*_read_only("/tmp"), *Rules().command("/tmp", "/tmp"), "--", "true"]
    done = subprocess.run(trial, capture_output=True, text=True)
    if done.returncode == 0:
        return ""
    said = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
    return (
        f"{said}; does this system forbid user namespaces? (Ubuntu 24.04 does: "
        "`sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`; a container needs them allowed from outside)"
    )


@functools.cache
def _version() -> str:
    return subprocess.check_output([BWRAP, "--version"], text=True).strip()


@functools.cache
def _no_more_namespaces() -> list[str]:
    """Bubblewrap from 0.8 can forbid further user namespaces in the box: they open more of the system's kernel."""
    known = subprocess.run([BWRAP, "--help"], capture_output=True, text=True)
    return ["--disable-userns"] if "--disable-userns" in known.stdout + known.stderr else []


def _clones() -> set[Path]:
    """Folders with the package in them that are no site-packages: clones of the course, this one or another."""
    modules = [Path(entry) for entry in python_path() if entry]
    return {entry for entry in modules if entry.name != "site-packages" and (entry / "autograder").is_dir()}


def _seen() -> tuple[set[Path], set[Path]]:
    """What of this machine can be seen: the system, Python with its packages, and of the course the package.

    And what is kept from a student though it lies below something of that.
    """
    package = Path(autograder.__file__).parent
    modules = [Path(entry) for entry in python_path() if entry]
    clones = _clones()
    course = {package.parent, Path.cwd(), *clones} - {entry for entry in modules if entry.name == "site-packages"}
    packages = {package} | {clone / "autograder" for clone in clones}
    shown = {Path(path) for path in _SYSTEM if not os.path.islink(path)}
    shown |= {Path(prefix, part) for prefix in (sys.prefix, sys.base_prefix) for part in _OF_PREFIX}
    shown |= {entry for entry in modules if entry not in course} | packages
    for path in list(shown):
        shown.add(path.resolve())
    program = Path(sys.executable)
    while program.is_symlink():
        program = Path(os.path.normpath(program.parent / program.readlink()))
        # What lies in a folder that is shown comes with it: onto a link, bubblewrap could bind nothing.
        if not any(program.is_relative_to(path) for path in shown):
            shown.add(program)
    shown = {path for path in shown - course if path.exists() and len(path.parts) > 1}
    # The tests hold answers. The course itself is hidden where it lies below what is shown.
    hidden = {place / "tests" for own in packages for place in (own, own.resolve())} | {
        folder for folder in course if any(folder.is_relative_to(path) for path in shown)
    }
    return shown, {path for path in hidden if path.exists()}


@functools.cache
def _mounts() -> list[str]:
    """All of that read-only, and nothing else. What is hidden is an empty folder."""
    shown, hidden = _seen()
    words = []
    for path in sorted(shown | hidden, key=lambda path: len(path.parts)):
        words += ["--tmpfs", str(path)] if path in hidden else ["--ro-bind", str(path), str(path)]
    for path in hidden:
        words += ["--remount-ro", str(path)]
    for link in _SYSTEM:
        if os.path.islink(link):
            words += ["--symlink", os.readlink(link), link]
    return words


@functools.cache
def _granted(devices: tuple[str, ...]) -> list[tuple[str, int]]:
    """The same for Landlock, which follows links by itself."""
    return reduced.grants(*_seen(), devices)
