"""How a message lies on a pipe: the number of its parts, their lengths, and the parts, which are bytes."""

import struct
from typing import BinaryIO


def write(stream: BinaryIO, parts: list[bytes]) -> None:
    """Raises OSError when the other side is gone."""
    stream.write(struct.pack(f">I{len(parts)}Q", len(parts), *map(len, parts)))
    for part in parts:
        stream.write(part)
    stream.flush()


def read(stream: BinaryIO) -> list[bytes]:
    """Raises EOFError when the other side is gone."""
    (count,) = struct.unpack(">I", _exactly(stream, 4))
    lengths = struct.unpack(f">{count}Q", _exactly(stream, 8 * count))
    return [_exactly(stream, length) for length in lengths]


def _exactly(stream: BinaryIO, length: int) -> bytes:
    parts = []
    while length:
        part = stream.read(length)
        if not part:
            raise EOFError("the other side closed the connection")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
