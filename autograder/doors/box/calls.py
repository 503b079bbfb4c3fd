"""System calls that are refused in the reduced box: what a process may do to others of its user without opening a file.

Landlock rules over files that are opened. It does not mind who changes the rights of a file (`chmod`), who asks a
service of the desktop to run a program (`connect` to its socket), who lowers the limits of another process
(`prlimit`). A filter of Linux's (seccomp) refuses these; libseccomp, which every distribution has because its package
manager or systemd needs it, knows the numbers of the calls for each processor.
"""

import ctypes
import errno
import functools
import os

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000  # SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(0) of seccomp.h
_NOT_EQUAL, _MASKED_EQUAL = 1, 7  # SCMP_CMP_NE, SCMP_CMP_MASKED_EQ
_LIBRARY = "libseccomp.so.2"
_UNIX, _STREAM, _TYPES = 1, 1, 0xF  # AF_UNIX, SOCK_STREAM, SOCK_TYPE_MASK
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_NAMESPACES = [0x20000, *(1 << bit for bit in range(25, 31))]

REFUSED = {
    "owners and attributes of files that it cannot open; word of what happens to them": """
        chown fchown lchown fchownat setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr
        inotify_add_watch fanotify_init""",
    "sockets of services, which would do what they are asked; and a way round this filter": """
        connect io_uring_setup io_uring_enter io_uring_register""",
    "other processes": """
        ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp move_pages migrate_pages
        setpriority ioprio_set""",
    "another user, for root": """
        setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups""",
    "what all processes of a user share": """
        keyctl add_key request_key shmget shmat msgget semget mq_open mq_unlink syslog""",
    "more of the system's kernel": """
        unshare setns mount umount2 pivot_root chroot open_tree move_mount fsopen fsmount fspick mount_setattr
        bpf perf_event_open userfaultfd quotactl name_to_handle_at open_by_handle_at""",
}
# Younger than some libraries know, with the same number on every processor:
_YOUNG = {"fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "open_tree_attr": 467, "file_setattr": 469}
# Only for the process or thread itself, which is number 0: else the grader could be ended by a limit, or slowed down.
# ZeroMQ sets what a new thread of its own has already, and ends where it cannot: so that is pretended.
_ITS_OWN = {"prlimit64": errno.EPERM} | dict.fromkeys(
    ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"), 0
)
# Done, they say, and are not. The box is one group of processes, which can be ended at one blow; and rights and times
# of a file are what Python's own `shutil.copy` wants to set.
_PRETENDED = "setsid setpgid chmod fchmod fchmodat fchmodat2 utime utimes futimesat utimensat"


class _Compare(ctypes.Structure):  # struct scmp_arg_cmp
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(_LIBRARY)
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    numbers = [ctypes.c_uint32, ctypes.c_int, ctypes.c_uint]  # action, system call, how many comparisons
    library.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, *numbers, ctypes.POINTER(_Compare)]
    for name in ("seccomp_load", "seccomp_release"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
    return library


def why_not() -> str:
    """Why no call can be refused here; empty if all can be."""
    try:
        _library()
    except OSError:
        return "libseccomp is not installed (`apt install libseccomp2` or `dnf install libseccomp`)"
    return ""


def refuse() -> None:
    """From now on the calls above fail in this thread and in what it starts. Raises OSError.

    To be called where there is one thread, and no new privileges are to be had. Programs for another kind of processor
    (32 bits) end at their first call.
    """
    library = _library()
    context = library.seccomp_init(_ALLOW)

    def rule(name: str, number: int, *compares: _Compare) -> None:
        which = _YOUNG.get(name) or library.seccomp_syscall_resolve_name(name.encode())
        if which == -1:
            return  # younger than the library: see _YOUNG
        failed = library.seccomp_rule_add_array(
            context, _ERRNO | number, which, len(compares), (_Compare * len(compares))(*compares)
        )
        if failed:
            raise OSError(-failed, f"seccomp, {name}: {os.strerror(-failed)}")

    try:
        for name in [*" ".join(REFUSED.values()).split(), *(name for name in _YOUNG if name not in _PRETENDED)]:
            rule(name, errno.EPERM)
        for name, number in _ITS_OWN.items():
            rule(name, number, _Compare(0, _NOT_EQUAL, 0))
        for name in _PRETENDED.split():
            rule(name, 0)
        for name in ("socket", "socketpair"):  # a datagram needs no `connect`
            rule(name, errno.EOPNOTSUPP, _Compare(0, _NOT_EQUAL, _UNIX))  # ZeroMQ ends at any other number
            for kind in set(range(_TYPES + 1)) - {_STREAM}:
                rule(name, errno.EOPNOTSUPP, _Compare(1, _MASKED_EQUAL, _TYPES, kind))
        for flag in _NAMESPACES:
            rule("clone", errno.EPERM, _Compare(0, _MASKED_EQUAL, flag, flag))
        rule("clone3", errno.ENOSYS)  # its flags cannot be read here; the C library falls back on `clone`
        if failed := library.seccomp_load(context):
            raise OSError(-failed, f"seccomp: {os.strerror(-failed)}")
    finally:
        library.seccomp_release(context)
