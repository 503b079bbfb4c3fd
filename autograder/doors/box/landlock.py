"""Landlock, by its three system calls: a process gives up, for itself and its children, all files but some.

The numbers are Linux's: include/uapi/linux/landlock.h and the table of system calls, where these three have the same
number on every processor. PyPI has bindings (landlockpy, py-landlock): ten times this file, each some months old and
by one writer, in the place where a mistake costs most.
"""

import ctypes
import functools
import os
import struct
import sys
from enum import IntFlag

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION: ask for the ABI alone
_PATH_BENEATH = 1  # LANDLOCK_RULE_PATH_BENEATH
_BIND_AND_CONNECT = 0b11  # LANDLOCK_ACCESS_NET_BIND_TCP and _CONNECT_TCP
_SCOPES = 0b11  # LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET and _SIGNAL

LEAST = 3  # Linux 6.2: before it a file that is not open can be emptied
NETWORK = 4  # Linux 6.7: TCP
SCOPES = 6  # Linux 6.12: signals, and sockets without a file


class Access(IntFlag):
    """What may be done with a file or folder and with everything below it: LANDLOCK_ACCESS_FS_..."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13  # from ABI 2: move a file to another folder
    TRUNCATE = 1 << 14  # from ABI 3
    IOCTL_DEV = 1 << 15  # from ABI 5

    READ = EXECUTE | READ_FILE | READ_DIR
    OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
    OF_A_DEVICE = WRITE_FILE | READ_FILE | IOCTL_DEV
    MAKE = MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM
    OF_ITS_OWN = READ | WRITE_FILE | TRUNCATE | MAKE | REMOVE_DIR | REMOVE_FILE | REFER


@functools.cache
def abi() -> int:
    """The version of Landlock that this system offers; 0 if it offers none."""
    if sys.platform != "linux":
        return 0
    return max(0, ctypes.CDLL(None).syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION))


def confine(granted: list[tuple[str, int]]) -> None:
    """Leave this thread, and what it starts from now on, no file but those below the paths, each with its `Access`.

    Nor can it use TCP, send a signal or reach an abstract socket outside, where the system knows these rules.
    To be called where there is one thread, and no new privileges are to be had. Raises OSError.
    """
    known = abi()
    newest = {2: Access.REFER, 3: Access.TRUNCATE, 5: Access.IOCTL_DEV}
    handled = functools.reduce(lambda every, one: every | one, Access)
    handled &= ~sum(access for since, access in newest.items() if known < since)
    network = _BIND_AND_CONNECT if known >= NETWORK else 0
    rules = _call(_CREATE, struct.pack("=QQQ", handled, network, _SCOPES if known >= SCOPES else 0), 24, 0)
    try:
        for path, access in granted:
            try:
                place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue  # it is not there, or not for this user: nothing to be granted
            try:
                access &= handled if os.path.isdir(path) else handled & Access.OF_A_FILE
                _call(_ADD, rules, _PATH_BENEATH, struct.pack("=Qi", access, place), 0)
            finally:
                os.close(place)
        _call(_RESTRICT, rules, 0)
    finally:
        os.close(rules)


def _call(number: int, *arguments: bytes | int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    words = [one if isinstance(one, bytes) else ctypes.c_long(one) for one in arguments]
    result = libc.syscall(number, *words)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"Landlock: {os.strerror(error)}")
    return result
