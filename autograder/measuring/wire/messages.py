"""How the notebook and the bench talk: a JSON header and raw bytes, never pickled objects."""

import json
import struct
from typing import BinaryIO


def send(stream: BinaryIO, header: dict, *blobs: bytes) -> None:
    """Write one message. Raises OSError when the other side is gone."""
    text = json.dumps({**header, "blobs": [len(blob) for blob in blobs]}).encode()
    stream.write(struct.pack(">I", len(text)) + text)
    for blob in blobs:
        stream.write(blob)
    stream.flush()


def receive(stream: BinaryIO) -> tuple[dict, list[bytes]]:
    """Read one message. Raises EOFError when the other side is gone."""
    (length,) = struct.unpack(">I", _exactly(stream, 4))
    header = json.loads(_exactly(stream, length))
    return header, [_exactly(stream, size) for size in header.pop("blobs")]


def _exactly(stream: BinaryIO, size: int) -> bytes:
    parts = []
    while size:
        part = stream.read(size)
        if not part:
            raise EOFError("the other side closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
