"""A side whose every call is the first one of a new process: what is timed is the way to the first answer.

The process has imported JAX, started its backend and computed one sum; the function and its arguments are there. The
time from the call to the ready result is that of tracing, lowering, compiling and running. No cache of compiled
programs is set up, neither in memory nor on disk; what a function writes to disk itself, its next call finds.
"""

import dataclasses
import os
from collections.abc import Callable

from autograder.measuring.wire import arrays, messages
from autograder.measuring.wire.arrays import Value
from autograder.measuring.wire.messages import (
    GetResult,
    GuestReply,
    GuestRequest,
    Inputs,
    LoadCandidate,
    Prepare,
    Result,
    Run,
    Side,
    SideRaised,
    Source,
)

from .clock import ProcessClock
from .inputs import Arrange, Block, new_draw
from .refusal import Refused
from .sides import Guest, Timed, clock, wall_only

_JOB = "cold"  # a process has one


class Once:
    """The supply of a process that makes one call. Its inputs it makes itself, from the draw."""

    def block(self, calls: int, draw: int, arrange: Arrange) -> Block:
        """See `Supply`. Nothing is called here."""
        raise NotImplementedError

    def again(self, draw: int) -> int:
        """See `Supply`."""
        return new_draw()

    def most_calls(self, calls: int) -> int:
        """See `Supply`."""
        return 1


class Cold(Timed):
    """A function that is called once in each process. `start` makes a process."""

    def __init__(self, role: Side, function: Source, inputs: Inputs, start: Callable[[], Guest]):
        super().__init__(role, Once(), os.getpid(), clock())
        self._load, self._start = LoadCandidate(_JOB, inputs, function), start
        self._guest: Guest | None = None

    def prepare(self, calls: int, draw: int) -> None:
        self.close()
        self._guest = self._start()
        self._ask(self._load)
        self._ask(Prepare(_JOB, calls, draw))
        self.clock = ProcessClock(self._guest.pid, wall_only=wall_only())

    def run(self) -> None:
        self._ask(Run())

    def result(self) -> list[Value]:
        reply = messages.expect(self._ask(GetResult()), Result)
        self.close()
        return [arrays.decode(leaf) for leaf in reply.leaves]

    def close(self) -> None:
        """End the process of the last call."""
        self.clock.close()
        if self._guest is not None:
            self._guest.close()
            self._guest = None

    def _ask(self, request: GuestRequest) -> GuestReply:
        assert self._guest is not None
        try:
            return self._guest.ask(request)
        except Refused as refused:  # a guest knows candidates only
            if isinstance(refused.reply, SideRaised):
                raise Refused(dataclasses.replace(refused.reply, side=self.role)) from None
            raise
