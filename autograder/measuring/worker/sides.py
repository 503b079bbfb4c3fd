"""A side: one of the two functions of a comparison, ready to be called in blocks.

`Local` runs in this process. `Remote` stands for a function in a process of its own, the guest, with the clock
outside it: the guest is told Prepare and Run, answers when it has done so, and the bench takes the time between Run
and the answer. Both processes share one core, so T* takes out the run delay of both.

The contest knows them as `Timed`.
"""

import contextlib
import gc
import os
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import jax.export
import numpy as np

from autograder.jax_internals import COMPILE_EVENT, TRACE_EVENT
from autograder.measuring.fork_server import Forked
from autograder.measuring.wire import arrays, frames, functions, messages
from autograder.measuring.wire.arrays import Value
from autograder.measuring.wire.messages import (
    Artefact,
    Done,
    Drop,
    Failed,
    GetResult,
    GuestReply,
    GuestRequest,
    Inputs,
    LoadCandidate,
    OtherStructure,
    Prepare,
    ProtocolError,
    Ready,
    Result,
    Run,
    Side,
    SideRaised,
    Source,
)

from .clock import Clock, workers
from .inputs import Arrange, Fresh, Repeated, Supply
from .refusal import Refused, told


def wall_only() -> bool:
    """Whether time is the wall clock's: beside an accelerator, which works on while its threads wait for a core."""
    return jax.default_backend() != "cpu"


def clock(*helpers: tuple[int, int]) -> Clock:
    """T*, or the wall clock."""
    return Clock(*helpers, wall_only=wall_only())


class Timed(ABC):
    """A function that is called in blocks, in the process `process`.

    `supply` makes the inputs of its calls; `overhead` is the length of a block without a call, in nanoseconds.
    """

    def __init__(self, role: Side, supply: Supply, process: int, clock: Clock):
        self.role, self.supply, self.process, self.clock = role, supply, process, clock
        self.overhead = 0

    @abstractmethod
    def prepare(self, calls: int, draw: int) -> None:
        """Make the inputs of so many calls. Not timed."""

    @abstractmethod
    def run(self) -> None:
        """Call the function on what was prepared. Timed."""

    @abstractmethod
    def result(self) -> list[Value]:
        """The leaves that the call returned whose results are compared."""

    def watch(self, calls: int, draw: int) -> None:
        """Call the function, and let the clock watch the threads that worked for it."""
        before = workers(self.process)
        self.prepare(calls, draw)
        self.run()
        ran = [thread for thread, time in workers(self.process).items() if time > before.get(thread, 0)]
        if self.clock.scheduled:
            self.clock.close()
            self.clock = Clock(*(thread for thread in ran if thread[1] != threading.get_native_id()))


class Local(Timed):
    """A function that is called in this process. `arrange` makes its arguments from the leaves."""

    def __init__(
        self, role: Side, call: Callable, leaves: list[Value], arrange: Arrange = tuple, supply: Supply | None = None
    ):
        super().__init__(role, supply or Repeated(leaves), os.getpid(), clock())
        self.call, self.leaves, self.arrange = call, leaves, arrange
        self._until: list[tuple] = []  # the arguments of each call up to the one that is checked
        self._after: list[tuple] = []
        self._out: list[Any] = []  # the leaves of the call that is checked

    def prepare(self, calls: int, draw: int) -> None:
        arguments, checked = self.supply.block(calls, draw, self.arrange)
        self._until, self._after = arguments[: checked + 1], arguments[checked + 1 :]

    def run(self) -> None:
        call, leaves = self.call, []
        # Flattening may run methods of the candidate's: keys that are compared, classes that it registers. What they
        # do is timed, and done in every call.
        for arguments in self._until:
            leaves = jax.tree.leaves(call(*arguments))
        self._out = last = leaves
        if self._after:
            self._out = list(map(_kept, leaves))
            for arguments in self._after:
                last = jax.tree.leaves(call(*arguments))
        jax.block_until_ready((self._out, last))

    def result(self) -> list[Value]:
        out = self._out
        self._forget()
        return out

    def sent(self) -> Result | OtherStructure:
        """The same as they travel.

        They are looked at before anything is thrown away: what an answer has left may be called then, and write into
        what it returned.
        """
        reply: Result | OtherStructure
        # What computes its values when it is asked for them has computed nothing yet.
        if others := [type(leaf).__name__ for leaf in self._out if not arrays.is_data(leaf)]:
            reply = OtherStructure(f"it returns a {others[0]}, which is neither an array nor a number")
        else:
            reply = Result(list(map(arrays.encode, self._out)))
        self._forget()
        return reply

    def _forget(self) -> None:
        """Throw away what the last block was given, and what it returned."""
        self._out, self._until, self._after = [], [], []


def _kept(leaf: Any) -> Any:
    """A result that must outlast the next call, which may use the same NumPy array for its own."""
    return np.array(leaf) if isinstance(leaf, np.ndarray) else leaf


def build(role: Side, function: Artefact | Source, inputs: Inputs, fresh: bool) -> Local:
    """A side from what arrived, with `fresh` inputs for each call or without. Sets the configuration of JAX, too."""
    jax.config.update("jax_enable_x64", inputs.x64)
    jax.config.update("jax_default_matmul_precision", inputs.precision)
    leaves = [arrays.decode(leaf) for leaf in inputs.leaves]
    if isinstance(function, Artefact):
        leaves = [jax.device_put(leaf) if arrays.is_array(leaf) else leaf for leaf in leaves]
        call, arrange = artefact(function.code), _chooses(function.slots)
    else:
        call, template = _unpacked(function.code)
        arrange = _fills(template)
    return Local(role, call, leaves, arrange, Fresh(leaves) if fresh else Repeated(leaves))


def _unpacked(code: bytes) -> tuple[Callable, tuple]:
    """A function and its arguments. Raises RuntimeError if something of theirs has JAX trace or compile on the way.

    An object may do so when it is filled again. A call that is timed as a first one would find it done.
    """
    heard: list[str] = []

    def hear(event: str, duration_secs: float, **kwargs: str | int) -> None:
        heard.append(event)

    jax.monitoring.register_event_duration_secs_listener(hear)
    try:
        found = functions.loads(code)
        gc.collect()  # and what of theirs runs when it is thrown away
    finally:
        jax.monitoring.unregister_event_duration_listener(hear)
    if {TRACE_EVENT, COMPILE_EVENT} & {*heard}:
        raise RuntimeError("JAX traces or compiles while the function is unpacked, before it is called")
    return found


def _chooses(slots: list[int]) -> Arrange:
    return lambda values: tuple(values[slot] for slot in slots)


def _fills(template: tuple) -> Arrange:
    return lambda values: jax.tree.map(lambda x: values[x.index] if isinstance(x, arrays.Slot) else x, template)


def artefact(code: bytes) -> Callable:
    """A serialised `jax.export.Exported` as a jitted function of its flat arguments."""
    return jax.jit(jax.export.deserialize(bytearray(code)).call)


def started(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A Python that runs the script: a guest, where none can be forked."""
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen([sys.executable, "-P", script, *arguments], stdin=pipe, stdout=pipe, stderr=null)


class Guest:
    """A process in which candidates run that do not travel as artefacts, and both sides of a cold comparison."""

    def __init__(self, process: subprocess.Popen[bytes] | Forked):
        self.process, self.pid = process, process.pid
        self._requests, self._replies = frames.pipes(process)
        messages.receive(self._replies, Ready)

    def ask(self, request: GuestRequest) -> GuestReply:
        """Its reply. Raises `Refused` if the candidate raised, ended its process or returned no arrays."""
        try:
            messages.send(self._requests, request)
            reply = messages.receive(self._replies, GuestReply)
        except (OSError, EOFError):
            self.close()
            raise Refused(SideRaised("candidate", "SystemExit", "its process ended without an answer")) from None
        if isinstance(reply, SideRaised | OtherStructure):
            raise Refused(reply)
        if isinstance(reply, Failed):
            raise ProtocolError(reply.text)
        return reply

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for stream in (self._requests, self._replies):
            with contextlib.suppress(OSError):  # what was not read any more
                stream.close()


class Remote(Timed):
    """A `Local` in the guest."""

    def __init__(self, guest: Guest, job: str, candidate: Source, inputs: Inputs, supply: Supply):
        pid = guest.process.pid
        super().__init__("candidate", supply, pid, clock((pid, pid)))
        self.guest, self.job = guest, job
        guest.ask(LoadCandidate(job, inputs, candidate))

    def prepare(self, calls: int, draw: int) -> None:
        self.guest.ask(Prepare(self.job, calls, draw))

    def run(self) -> None:
        self.guest.ask(Run())

    def result(self) -> list[Value]:
        reply = messages.expect(self.guest.ask(GetResult()), Result)
        return [arrays.decode(leaf) for leaf in reply.leaves]


class Candidates:
    """What the guest has: the candidates by job."""

    def __init__(self):
        self._sides: dict[str, Local] = {}
        self._prepared: Local  # from the first `Prepare` on

    def answer(self, request: GuestRequest) -> GuestReply:
        """The reply to one request."""
        try:
            match request:
                case Run():
                    self._prepared.run()
                case Prepare():
                    self._prepared = self._sides[request.job]
                    self._prepared.prepare(request.calls, request.draw)
                case GetResult():
                    return self._prepared.sent()
                case LoadCandidate():
                    self._sides[request.job] = build("candidate", request.candidate, request.inputs, fresh=True)
                case Drop():
                    self._sides.pop(request.job, None)
        except Exception as error:
            return told("candidate", error)
        return Done()
