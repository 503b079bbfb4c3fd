"""What ends the work on a request: an exception that carries the reply."""

import contextlib
from collections.abc import Iterator

from autograder.measuring.wire.messages import NeedsReference, ProtocolError, Refusal, Side, SideRaised
from autograder.not_begun import NotBegun, unwritten


class Refused(Exception):
    """There is nothing to measure (yet); `reply` says why."""

    def __init__(self, reply: Refusal | NeedsReference):
        super().__init__(str(reply))
        self.reply = reply


def told(side: Side, error: Exception) -> SideRaised:
    """An exception of a side as a message; of a stub that nobody filled in, its name is told."""
    if name := unwritten(error):
        return SideRaised(side, NotBegun.__name__, name)
    return SideRaised(side, type(error).__name__, str(error)[:2000])


@contextlib.contextmanager
def on_behalf_of(side: Side) -> Iterator[None]:
    """What is raised inside is the side's doing, and refused with `SideRaised`."""
    try:
        yield
    except (Refused, ProtocolError):
        raise
    except Exception as error:
        raise Refused(told(side, error)) from error
