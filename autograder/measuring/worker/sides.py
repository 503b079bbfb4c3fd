"""A side: one of the two functions of a comparison, ready to be called in blocks.

`Local` runs in this process. `Remote` stands for a function in a process of its own, the guest, with the clock
outside it: the guest is told Prepare and Run, answers when it has done so, and the bench takes the time between Run
and the answer. Both processes share one core, so T* takes out the run delay of both.

Both kinds have a `role`, `prepare(calls, scale)` (not timed), `run()` (timed), `result()`, `watch(calls, scale)`,
`scales()`, `most_calls(calls)`, `clock` and `overhead` (nanoseconds of a block without a call).
"""

import os
import subprocess
import sys
import threading

import jax
import jax.export

from autograder.measuring.wire import arrays, frames, functions, messages
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
from .inputs import SCALES, bytes_in, copied, scaled
from .refusal import Refused, told

_KEPT_BYTES = 32_000_000
_COPIED_BYTES = 256_000_000


def clock(*helpers: tuple[int, int]) -> Clock:
    """T*; beside an accelerator the wall clock, because the device works on while its threads wait for a core."""
    return Clock(*helpers, wall_only=jax.default_backend() != "cpu")


class Local:
    """A function that is called in this process. `arrange` makes its arguments from the leaves."""

    overhead = 0

    def __init__(self, role: Side, call, leaves: list, arrange=tuple, fresh_each_call: bool = False):
        self.role, self.call, self.leaves, self.arrange = role, call, leaves, arrange
        self.fresh_each_call = fresh_each_call
        self.clock = clock()
        self.process = os.getpid()
        self._variants: dict[float, list] = {}
        self._batch: list[tuple] = []
        self._out = None

    def _inputs(self, scale: float) -> list:
        if scale not in self._variants:
            self._variants[scale] = jax.block_until_ready(scaled(self.leaves, scale))
        return self._variants[scale]

    def watch(self, calls: int, scale: float) -> None:
        """Call the function, and let the clock watch the threads that worked for it."""
        before = workers(self.process)
        self.prepare(calls, scale)
        self.run()
        ran = [thread for thread, time in workers(self.process).items() if time > before.get(thread, 0)]
        if self.clock.scheduled:
            self.clock.close()
            self.clock = Clock(*(thread for thread in ran if thread[1] != threading.get_native_id()))

    def scales(self) -> list[float]:
        """The factors that give each pair of blocks its inputs: fewer where the inputs are large."""
        room = _KEPT_BYTES // max(1, bytes_in(self.leaves))
        return SCALES[1 : 1 + max(2, room)]

    def prepare(self, calls: int, scale: float) -> None:
        inputs = self._inputs(scale)
        if self.fresh_each_call:
            self._batch = [self.arrange(jax.block_until_ready(copied(inputs))) for _ in range(calls)]
        else:
            self._batch = [self.arrange(inputs)] * calls

    def run(self) -> None:
        call, out = self.call, None
        for inputs in self._batch:
            out = call(*inputs)
        self._out = jax.block_until_ready(out)

    def result(self) -> list:
        """The leaves that the last call returned."""
        out, self._out, self._batch = self._out, None, []
        return jax.tree.leaves(out)

    def most_calls(self, calls: int) -> int:
        """As many calls as there is room for copies of their inputs."""
        if not self.fresh_each_call:
            return calls
        return max(1, min(calls, _COPIED_BYTES // max(1, bytes_in(self.leaves))))


def build(role: Side, function: Artefact | Source, inputs: Inputs) -> Local:
    """A side from what arrived. Sets the configuration of JAX under which it is called."""
    jax.config.update("jax_enable_x64", inputs.x64)
    jax.config.update("jax_default_matmul_precision", inputs.precision)
    leaves = [arrays.decode(leaf) for leaf in inputs.leaves]
    if isinstance(function, Artefact):
        leaves = [jax.device_put(leaves[i]) if arrays.is_array(leaves[i]) else leaves[i] for i in function.slots]
        return Local(role, artefact(function.code), leaves)
    fn, template = functions.loads(function.code)

    def arrange(values):
        return jax.tree.map(lambda x: values[x.index] if isinstance(x, arrays.Slot) else x, template)

    return Local(role, fn, leaves, arrange, fresh_each_call=function.own_process)


def artefact(code: bytes):
    """A serialised `jax.export.Exported` as a jitted function of its flat arguments."""
    return jax.jit(jax.export.deserialize(bytearray(code)).call)


class Guest:
    """The process in which candidates run that do not travel as artefacts."""

    def __init__(self, script: str, arguments: list[str]):
        command = [sys.executable, "-P", script, "--guest", *arguments]
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null)
        self._requests, self._replies = frames.pipes(self.process)
        messages.receive(self._replies, Ready)

    def ask(self, request: GuestRequest) -> GuestReply:
        """The reply to one request. Raises `Refused` if the candidate raised, or ended its process."""
        try:
            messages.send(self._requests, request)
            reply = messages.receive(self._replies, GuestReply)
        except (OSError, EOFError):
            self.close()
            raise Refused(SideRaised("candidate", "SystemExit", "its process ended without an answer")) from None
        if isinstance(reply, SideRaised):
            raise Refused(reply)
        if isinstance(reply, Failed):
            raise ProtocolError(reply.text)
        return reply

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Remote:
    """A `Local` in the guest."""

    role: Side = "candidate"
    fresh_each_call = True
    most_calls, scales, watch = Local.most_calls, Local.scales, Local.watch

    def __init__(self, guest: Guest, job: str, candidate: Source, inputs: Inputs):
        self.guest, self.job, self.overhead = guest, job, 0
        self.leaves = [arrays.decode(leaf) for leaf in inputs.leaves]
        self.process = guest.process.pid
        self.clock = clock((self.process, self.process))
        guest.ask(LoadCandidate(job, inputs, candidate))

    def prepare(self, calls: int, scale: float) -> None:
        self.guest.ask(Prepare(self.job, calls, scale))

    def run(self) -> None:
        self.guest.ask(Run())

    def result(self) -> list:
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
                    self._prepared.prepare(request.calls, request.scale)
                case GetResult():
                    return Result([arrays.encode(leaf) for leaf in self._prepared.result()])
                case LoadCandidate():
                    self._sides[request.job] = build("candidate", request.candidate, request.inputs)
                case Drop():
                    self._sides.pop(request.job, None)
        except Exception as error:
            return told("candidate", error)
        return Done()
