"""Messages between the two kernels: one JSON object and raw bytes, on a socket. Nothing that arrives is trusted."""

import json
import socket
import struct
from typing import Any

from autograder.failure import cell_line

MAIL = 100  # the descriptor by which a kernel is sent its links; nothing else in it has one as high at its birth
LARGEST = 2**28  # bytes of one message
LARGEST_TEXT = 2**22  # and of the JSON in it, which becomes many times as large in memory
MOST_PARTS = 10_000


class LinkBroken(RuntimeError):
    """The other kernel has ended, or what it sends is no message. There are no further messages."""

    def _render_traceback_(self) -> list[str]:
        number = cell_line(self)
        return [f"✗ {self}." + ("" if number is None else f"\n  (line {number} of this cell)")]


class Link:
    """One end. Raises `LinkBroken`, and TimeoutError where the socket has a timeout."""

    def __init__(self, connection: socket.socket):
        self._connection = connection

    def settimeout(self, seconds: float | None) -> None:
        """How long each piece of a message may let itself be waited for."""
        self._connection.settimeout(seconds)

    def send(self, message: dict[str, Any], parts: list[bytes]) -> None:
        """Raises ValueError if it is too large; then nothing has been sent."""
        # Lone surrogates, infinities and NaN are what `json` makes of them, on both ends.
        text = json.dumps(message).encode()
        lengths = [len(text), *map(len, parts)]
        if len(text) > LARGEST_TEXT or sum(lengths) > LARGEST or len(lengths) > MOST_PARTS:
            raise ValueError("this is too large to be handed to the other kernel")
        try:
            self._connection.sendall(struct.pack(f">I{len(lengths)}Q", len(lengths), *lengths) + text)
            for part in parts:
                self._connection.sendall(part)
        except TimeoutError:
            raise
        except OSError:
            raise LinkBroken("the other kernel has ended, or listens no more") from None

    def receive(self) -> tuple[dict[str, Any], list[bytes]]:
        """The next message."""
        (count,) = struct.unpack(">I", self._exactly(4))
        if not 0 < count <= MOST_PARTS:
            raise LinkBroken("a message of too many parts arrived")
        lengths = struct.unpack(f">{count}Q", self._exactly(8 * count))
        if lengths[0] > LARGEST_TEXT or sum(lengths) > LARGEST:
            raise LinkBroken("a message arrived that is too large")
        text, *parts = [self._exactly(length) for length in lengths]
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            raise LinkBroken("a message arrived that cannot be read") from None
        if not isinstance(message, dict):
            raise LinkBroken("a message arrived that is no object")
        return message, parts

    def close(self) -> None:
        """From now on the other end reads that this one has ended."""
        self._connection.close()

    def _exactly(self, length: int) -> bytes:
        parts = []
        while length:
            try:
                part = self._connection.recv(min(length, 1 << 20))
            except TimeoutError:
                raise
            except OSError:
                part = b""
            if not part:
                raise LinkBroken("the other kernel has ended")
            parts.append(part)
            length -= len(part)
        return b"".join(parts)
