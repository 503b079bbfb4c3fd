"""System calls that are refused: in the reduced box, what may be done to others of its user without opening a file.

Landlock rules over files that are opened. It does not mind who changes the rights of a file (`chmod`), who asks a
service of the desktop to run a program (`connect` to its socket), who lowers the limits of another process
(`prlimit`). A filter of Linux's (seccomp) refuses these; libseccomp, which every distribution has because its package
manager or systemd needs it, knows the numbers of the calls for each processor.

In the full box namespaces hold most of that. There the filter refuses what belongs to no namespace: keyrings, sockets
to the machine that this one runs on, memory that no limit counts, locks that keep others from opening a file.
"""

import contextlib
import ctypes
import errno
import functools
import os
from collections.abc import Callable, Iterator

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000  # SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(0) of seccomp.h
_NOT_EQUAL, _AT_LEAST, _MASKED_EQUAL = 1, 5, 7  # SCMP_CMP_NE, SCMP_CMP_GE, SCMP_CMP_MASKED_EQ
_LIBRARY = "libseccomp.so.2"
_UNIX, _STREAM, _TYPES = 1, 1, 0xF  # AF_UNIX, SOCK_STREAM, SOCK_TYPE_MASK
# CLONE_THREAD, CLONE_FILES; CLOSE_RANGE_UNSHARE. All threads of a process have the same files open, so that one look
# sees them all.
_THREAD, _FILES, _OWN_FILES = 0x10000, 0x400, 2
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_NAMESPACES = [0x20000, *(1 << bit for bit in range(25, 31))]

# AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: there is none of another machine in a network namespace. AF_VSOCK knows none.
_OF_A_NAMESPACE = {_UNIX, 2, 10, 16}
_FAMILIES = 48  # more than there are
# F_SETLEASE: whoever opens the file waits for most of a minute; F_NOTIFY: word of what happens to it.
_LEASES = (1024, 1026)
# The second byte of an `ioctl` that changes a file, or copies it, without a right to write: of ext4 and its like, of
# XFS, of Btrfs, and to read a file's version.
_OF_FILE_SYSTEMS = (ord("f"), ord("X"), 0x94, ord("v"))

# In every box. A file in memory is in no folder, so no limit counts it; whoever can make none makes another.
OF_NO_NAMESPACE = {
    "keys of the user": "keyctl add_key request_key",
    "a way round this filter": "io_uring_setup io_uring_enter io_uring_register",
    "more of the system's kernel": "bpf perf_event_open userfaultfd",
    "memory and files of other processes": "ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp",
}
_FILES_IN_MEMORY = ("memfd_create", "memfd_secret")

REFUSED = {
    "owners and attributes of files that it cannot open; word of what happens to them": """
        chown fchown lchown fchownat setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr
        inotify_add_watch fanotify_init""",
    "sockets of services, which would do what they are asked": "connect",
    "other processes": "move_pages migrate_pages setpriority ioprio_set",
    "another user, for root": """
        setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups""",
    "what all processes of a user share": """
        shmget shmat shmctl msgget msgsnd msgrcv msgctl semget semop semtimedop semctl mq_open mq_unlink syslog""",
    "more of the system's kernel": """
        unshare setns mount umount2 pivot_root chroot open_tree move_mount fsopen fsmount fspick mount_setattr
        quotactl name_to_handle_at open_by_handle_at""",
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


# Beside all of these, of a process that calculates, and has the files open that it needs; others it may read.
_NOT_CALCULATING = """
    kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal
    execve execveat fork vfork socket socketpair bind listen accept accept4 sendto sendmsg sendmmsg
    creat mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat mknod mknodat
    truncate ftruncate fallocate"""
_WRITES = (1, 2, 3)  # O_WRONLY, O_RDWR, and both


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


Rule = Callable[..., None]


@contextlib.contextmanager
def _filter() -> Iterator[Rule]:
    """Make rules; at the end they hold for this thread and what it starts. Raises OSError.

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
        yield rule
        if failed := library.seccomp_load(context):
            raise OSError(-failed, f"seccomp: {os.strerror(-failed)}")
    finally:
        library.seccomp_release(context)


def _of_no_namespace(rule: Rule) -> None:
    for name in " ".join(OF_NO_NAMESPACE.values()).split():
        rule(name, errno.EPERM)
    for name in _FILES_IN_MEMORY:
        rule(name, errno.ENOSYS)  # as on a system that does not know it: then a file will do
    for command in _LEASES:
        rule("fcntl", errno.EPERM, _Compare(1, _MASKED_EQUAL, 0xFFFFFFFF, command))


def refuse_what_no_namespace_holds() -> None:
    """In the full box: refuse what is no part of it. Raises OSError; see `_filter`."""
    with _filter() as rule:
        _of_no_namespace(rule)
        for family in set(range(_FAMILIES)) - _OF_A_NAMESPACE:
            rule("socket", errno.EAFNOSUPPORT, _Compare(0, _MASKED_EQUAL, 0xFFFFFFFF, family))
        rule("socket", errno.EAFNOSUPPORT, _Compare(0, _AT_LEAST, _FAMILIES))


def refuse_all_but_calculating() -> None:
    """In a process that runs an answer's function alone, inside a box of either kind. Raises OSError; see `_filter`."""
    with _filter() as rule:
        for name in " ".join([*REFUSED.values(), _PRETENDED, _NOT_CALCULATING]).split():
            rule(name, errno.EPERM)
        for writes in _WRITES:
            rule("open", errno.EACCES, _Compare(1, _MASKED_EQUAL, 3, writes))
            rule("openat", errno.EACCES, _Compare(2, _MASKED_EQUAL, 3, writes))
        rule("openat2", errno.ENOSYS)  # what it opens for stands in memory, where it cannot be read
        rule("clone", errno.EPERM, _Compare(0, _MASKED_EQUAL, _THREAD, 0))
        rule("clone3", errno.ENOSYS)


def refuse() -> None:
    """In the reduced box: refuse all of the calls above. Raises OSError; see `_filter`."""
    with _filter() as rule:
        _of_no_namespace(rule)
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
        for kind in _OF_FILE_SYSTEMS:
            rule("ioctl", errno.EPERM, _Compare(1, _MASKED_EQUAL, 0xFF00, kind << 8))
        for flag in _NAMESPACES:
            rule("clone", errno.EPERM, _Compare(0, _MASKED_EQUAL, flag, flag))
        rule("clone", errno.EPERM, _Compare(0, _MASKED_EQUAL, _THREAD | _FILES, _THREAD))
        rule("close_range", errno.EINVAL, _Compare(2, _MASKED_EQUAL, _OWN_FILES, _OWN_FILES))
        rule("clone3", errno.ENOSYS)  # its flags cannot be read here; the C library falls back on `clone`
