"""How a message lies on a pipe: the number of its parts, their lengths, and the parts, which are bytes."""

import struct
import subprocess
from typing import IO

from autograder.measuring.fork_server import Forked


def pipes(process: subprocess.Popen[bytes] | Forked) -> tuple[IO[bytes], IO[bytes]]:
    """What a process that was started with two pipes reads, and what it writes."""
    assert process.stdin is not None and process.stdout is not None
    return process.stdin, process.stdout


def write(stream: IO[bytes], parts: list[bytes]) -> None:
    """Raises OSError when the other side is gone."""
    stream.write(struct.pack(f">I{len(parts)}Q", len(parts), *map(len, parts)))
    for part in parts:
        stream.write(part)
    stream.flush()


def read(stream: IO[bytes]) -> list[bytes]:
    """Raises EOFError when the other side is gone."""
    (count,) = struct.unpack(">I", _exactly(stream, 4))
    lengths = struct.unpack(f">{count}Q", _exactly(stream, 8 * count))
    return [_exactly(stream, length) for length in lengths]


def _exactly(stream: IO[bytes], length: int) -> bytes:
    parts = []
    while length:
        part = stream.read(length)
        if not part:
            raise EOFError("the other side closed the connection")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
