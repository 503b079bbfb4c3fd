"""A side: one of the two functions of a comparison, ready to be called in blocks.

`Local` runs in this process. `Remote` stands for a function in a process of its own, the guest, with the clock
outside it: the guest is told "prepare" and "run", answers when it has done so, and the bench takes the time
between the two messages. Both processes share one core, so T* takes out the run delay of both.

Both kinds have `prepare(calls, scale)` (not timed), `run()` (timed), `result()`, `watch(calls, scale)`, `scales()`,
`most_calls(calls)`, `clock` and `overhead` (nanoseconds of a block without a call).
"""

import os
import subprocess
import sys
import threading

import jax
import jax.export

from autograder.measuring.wire import arrays, functions
from autograder.measuring.wire.messages import receive, send
from autograder.not_begun import NotBegun, unwritten

from .clock import Clock, workers

_KEPT_BYTES = 32_000_000
_COPIED_BYTES = 256_000_000


class Raised(Exception):
    """A side raised an exception of type `kind` with the message `text`."""

    def __init__(self, kind: str, text: str):
        super().__init__(f"{kind}: {text}")
        self.kind, self.text = kind, text


def told(error: Exception) -> list[str]:
    """An exception as a message tells it, its type and its text; for a stub that nobody filled in, its name."""
    if name := unwritten(error):
        return [NotBegun.__name__, name]
    return [type(error).__name__, str(error)[:2000]]


def clock(*helpers: tuple[int, int]) -> Clock:
    """T*; beside an accelerator the wall clock, because the device works on while its threads wait for a core."""
    return Clock(*helpers, wall_only=jax.default_backend() != "cpu")


class Local:
    """A function that is called in this process. `arrange` makes its arguments from the leaves."""

    overhead = 0

    def __init__(self, call, leaves: list, arrange=tuple, fresh_each_call: bool = False):
        self.call, self.leaves, self.arrange, self.fresh_each_call = call, leaves, arrange, fresh_each_call
        self.clock = clock()
        self.process = os.getpid()
        self._variants: dict[float, list] = {}
        self._batch: list[tuple] = []
        self._out = None

    def _inputs(self, scale: float) -> list:
        if scale not in self._variants:
            self._variants[scale] = jax.block_until_ready(arrays.scaled(self.leaves, scale))
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
        room = _KEPT_BYTES // max(1, arrays.size(self.leaves))
        return arrays.SCALES[1 : 1 + max(2, room)]

    def prepare(self, calls: int, scale: float) -> None:
        inputs = self._inputs(scale)
        if self.fresh_each_call:
            self._batch = [self.arrange(jax.block_until_ready(arrays.copied(inputs))) for _ in range(calls)]
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
        return max(1, min(calls, _COPIED_BYTES // max(1, arrays.size(self.leaves))))


def build(header: dict, side: str, blobs: list[bytes]) -> Local:
    """The side that a "load" message describes. Its blobs are the leaves, the baseline and the candidate."""
    jax.config.update("jax_enable_x64", header["x64"])
    jax.config.update("jax_default_matmul_precision", header["precision"])
    count = len(header["leaves"])
    leaves = [arrays.decode(meta, blob) for meta, blob in zip(header["leaves"], blobs, strict=False)]
    spec, code = header[side], blobs[count + (side == "candidate")]
    if spec["how"] == "artefact":
        leaves = [jax.device_put(leaves[i]) if arrays.is_array(leaves[i]) else leaves[i] for i in spec["slots"]]
        return Local(artefact(code), leaves)
    fn, template = functions.loads(code)

    def arrange(values):
        return jax.tree.map(lambda x: values[x.index] if isinstance(x, arrays.Slot) else x, template)

    return Local(fn, leaves, arrange, fresh_each_call=spec["guest"])


def artefact(code: bytes):
    """A serialised `jax.export.Exported` as a jitted function of its flat arguments."""
    return jax.jit(jax.export.deserialize(bytearray(code)).call)


class Guest:
    """The process in which candidates run that do not travel as artefacts."""

    def __init__(self, script: str, arguments: list[str]):
        command = [sys.executable, "-P", script, "--guest", *arguments]
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null)
        receive(self.process.stdout)

    def ask(self, header: dict, *blobs: bytes) -> tuple[dict, list[bytes]]:
        try:
            send(self.process.stdin, header, *blobs)
            answer, back = receive(self.process.stdout)
        except (OSError, EOFError):
            self.close()
            raise Raised("SystemExit", "its process ended without an answer") from None
        if "raised" in answer:
            raise Raised(*answer["raised"])
        return answer, back

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Remote:
    """A `Local` in the guest."""

    fresh_each_call = True
    most_calls, scales, watch = Local.most_calls, Local.scales, Local.watch

    def __init__(self, guest: Guest, header: dict, blobs: list[bytes], leaves: list):
        self.guest, self.job, self.leaves, self.overhead = guest, header["job"], leaves, 0
        self.process = guest.process.pid
        self.clock = clock((self.process, self.process))
        guest.ask({**header, "op": "load"}, *blobs)

    def _ask(self, op: str, **values) -> tuple[dict, list[bytes]]:
        return self.guest.ask({"op": op, "job": self.job, **values})

    def prepare(self, calls: int, scale: float) -> None:
        self._ask("prepare", calls=calls, scale=scale)

    def run(self) -> None:
        self._ask("run")

    def result(self) -> list:
        answer, blobs = self._ask("result")
        return [arrays.decode(meta, blob) for meta, blob in zip(answer["leaves"], blobs, strict=True)]


def serve(sides: dict[str, Local], header: dict, blobs: list[bytes]) -> tuple[dict, list[bytes]]:
    """What the guest does with one message."""
    try:
        match header["op"]:
            case "load":
                sides[header["job"]] = build(header, "candidate", blobs)
            case "prepare":
                sides[header["job"]].prepare(header["calls"], header["scale"])
            case "run":
                sides[header["job"]].run()
            case "result":
                encoded = [arrays.encode(leaf) for leaf in sides[header["job"]].result()]
                return {"leaves": [meta for meta, _ in encoded]}, [blob for _, blob in encoded]
            case "drop":
                sides.pop(header["job"], None)
    except Exception as error:
        return {"raised": told(error)}, []
    return {}, []
