"""The system calls of Linux by which a process enters a box that stands already, and leaves its privileges behind."""

import ctypes
import fcntl
import os
import platform

_libc = ctypes.CDLL(None, use_errno=True)

_OWNER = 0xB701  # ioctl NS_GET_USERNS: the user namespace that a namespace belongs to
_READ_ONLY = 0x1 | 0x2 | 0x4  # MS_RDONLY, MS_NOSUID, MS_NODEV
_DEATH_SIGNAL, _DUMPABLE, _DROP_FROM_BOUND, _NO_NEW_PRIVILEGES = 1, 4, 24, 38  # of prctl
_CAPABILITIES = 0x20080522  # version 3 of capset
_KEYCTL = {"x86_64": 250, "aarch64": 219}  # the number of the system call


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def enter(process: int) -> int:
    """Join the namespaces of a boxed process, but for its innermost user namespace, which is returned as a descriptor.

    The caller may still change what is mounted; its children are processes of the box. Nothing of its own runs there.
    """
    names = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
    spaces = {name: os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY) for name in names}
    owner = fcntl.ioctl(spaces["mnt"], _OWNER)
    _call("setns", owner, 0)
    for name in ("cgroup", "uts", "ipc", "net", "pid", "mnt"):
        _call("setns", spaces[name], 0)
        os.close(spaces[name])
    if os.path.sameopenfile(owner, spaces["user"]):
        os.close(spaces["user"])
        spaces["user"] = -1
    os.close(owner)
    return spaces["user"]


def renounce(user_namespace: int) -> None:
    """Enter the innermost user namespace, if it is another one, and give up every privilege for good."""
    if user_namespace >= 0:
        _call("setns", user_namespace, 0)
        os.close(user_namespace)
    _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    for capability in range(64):
        if _libc.prctl(_DROP_FROM_BOUND, capability, 0, 0, 0) < 0:
            break  # there are no more
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())
    _call("prctl", _DUMPABLE, 1, 0, 0, 0)  # else its own files in /proc belong to another
    if number := _KEYCTL.get(platform.machine()):
        _libc.syscall(number, 1, None)  # a keyring of its own: the grader's may hold tickets


def end_with_the_parent() -> None:
    """Let the system kill this process when its parent has ended."""
    _call("prctl", _DEATH_SIGNAL, 9, 0, 0, 0)


def hide(folder: str) -> None:
    """From now on this folder is empty for whoever looks from within the box, and nothing can be written there."""
    _call("mount", b"none", folder.encode(), b"tmpfs", _READ_ONLY, b"size=4k")
