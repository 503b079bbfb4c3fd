"""The jobs of one measuring process: comparisons whose two sides are loaded, agree, and can be timed."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.export

from autograder.measuring.wire import arrays
from autograder.measuring.wire.messages import (
    Artefact,
    Contest,
    Drop,
    Failed,
    Forgotten,
    Inputs,
    Load,
    Loaded,
    MeasureLimits,
    NeedsReference,
    Outcome,
    Reply,
    Request,
    Source,
)

from . import agreement
from .contest import calibrate, contest, time_block
from .inputs import bytes_in
from .limits import measure_limits
from .refusal import Refused, on_behalf_of
from .sides import Guest, Local, Remote, artefact, build

KEPT = 6
LARGE = 1_000_000  # bytes that take longer to compare than to compute


@dataclass
class Job:
    """A comparison whose sides agree. `allowed` is by result, `returned` the bytes of the results."""

    baseline: Local
    candidate: Local | Remote
    allowed: list[float]
    returned: int
    per_call: list[float] = field(default_factory=list)  # nanoseconds, baseline and candidate

    def calibrate(self) -> None:
        """Find out how long a call of each side takes."""
        self.per_call = [_per_call(self.baseline), _per_call(self.candidate)]

    def check(self) -> Callable[[list, list], None]:
        """What a contest asks about the results of each pair."""
        pairs = itertools.count(1)
        large = bytes_in(self.baseline.leaves) + self.returned > LARGE

        def check(got: list, want: list) -> None:
            # An artefact computes the same from the same inputs; code that may remember is checked every time.
            if large and next(pairs) > 2 and isinstance(self.candidate, Local):
                return
            with on_behalf_of("candidate"):
                if refusal := agreement.disagreement(got, want, self.allowed):
                    raise Refused(refusal)

        return check


def _per_call(side: Local | Remote) -> float:
    with on_behalf_of(side.role):
        if isinstance(side, Remote):
            side.overhead = 0
            side.overhead = min(time_block(side, 0, 1.0)[0] for _ in range(7))
        return calibrate(side)


class Jobs:
    """Answers the requests of the notebook. `script` and `arguments` start a guest like this process."""

    def __init__(self, script: str, arguments: list[str]):
        self._start_guest = lambda: Guest(script, arguments)
        self._guest: Guest | None = None
        self._jobs: dict[str, Job] = {}

    def answer(self, request: Request) -> Reply:
        """The reply to one request."""
        try:
            match request:
                case Load():
                    return self._load(request)
                case Contest():
                    return self._contest(request)
                case MeasureLimits():
                    return measure_limits(request.size, request.seconds)
        except Refused as refused:
            return refused.reply
        except Exception as error:
            return Failed(f"{type(error).__name__}: {error}"[:2000])

    def close(self) -> None:
        """End the guest, whatever it is doing."""
        if self._guest is not None:
            self._guest.close()

    def rehearse(self) -> tuple[Reply, Reply, Reply]:
        """Compare, time and drop a function and itself: what happens once in a process happens before anyone waits."""
        twice, ones = jax.jit(lambda x: x + x), jax.numpy.ones(8)
        inputs = Inputs([arrays.encode(ones)], x64=False, precision=None)
        side = Artefact(bytes(jax.export.export(twice)(ones).serialize()), slots=[0])
        loaded = self.answer(Load("rehearsal", inputs, side, side, reference=None))
        outcome = self.answer(Contest("rehearsal", bar=None, budget=0))
        limits = self.answer(MeasureLimits(4096, seconds=0.08))
        self._jobs.pop("rehearsal", None)
        return loaded, outcome, limits

    def _load(self, load: Load) -> Loaded | NeedsReference:
        """Make both sides ready, call each once on the arguments as given, and compare the results."""
        while len(self._jobs) >= KEPT:
            self._drop(next(iter(self._jobs)))
        with on_behalf_of("baseline"):
            baseline = build("baseline", load.baseline, load.inputs)
            slow, want = _first_call(baseline)
        with on_behalf_of("candidate"):
            candidate = self._candidate(load)
            fast, got = _first_call(candidate)
            if structure := agreement.other_structure(got, want):
                raise Refused(structure)
            allowed = agreement.strict(got, want)
            if agreement.other_values(got, want, allowed):
                if isinstance(load.baseline, Artefact) and load.reference is None:
                    return NeedsReference()
                allowed = agreement.derived(got, want, _reference(load, baseline))
                if values := agreement.other_values(got, want, allowed):
                    raise Refused(values)
        returned = bytes_in(want)
        self._jobs[load.job] = job = Job(baseline, candidate, allowed, returned)
        job.calibrate()
        return Loaded(
            first_call={"baseline": slow, "candidate": fast},
            device=jax.devices()[0].device_kind,
            platform=jax.default_backend(),
            results=[agreement.leaf_type(leaf) for leaf in want],
            taken=bytes_in(baseline.leaves),
            returned=returned,
        )

    def _candidate(self, load: Load) -> Local | Remote:
        """The candidate, which may run in the guest. A baseline never does: what is right is computed here."""
        if not (isinstance(load.candidate, Source) and load.candidate.own_process):
            return build("candidate", load.candidate, load.inputs)
        if self._guest is None or self._guest.process.poll() is not None:
            self._guest = self._start_guest()
        return Remote(self._guest, load.job, load.candidate, load.inputs)

    def _contest(self, request: Contest) -> Outcome | Forgotten:
        """Run the rule at one bar; the results are compared for every pair."""
        job = self._jobs.get(request.job)
        if job is None:
            return Forgotten(request.job)
        if request.calibrate:
            job.calibrate()
        return contest(job.baseline, job.candidate, request.bar, job.per_call, request.budget, job.check())

    def _drop(self, job: str) -> None:
        side = self._jobs.pop(job).candidate
        if isinstance(side, Remote):
            side.clock.close()
            if side.guest.process.poll() is None:
                side.guest.ask(Drop(job))


def _first_call(side: Local | Remote) -> tuple[float, list]:
    """(seconds of the first call, the results of that call)."""
    nanoseconds, _ = time_block(side, 1, 1.0)
    return nanoseconds / 1e9, side.result()


def _reference(load: Load, baseline: Local) -> list | None:
    """The baseline's results in double precision, or None where they cannot be had."""
    try:
        with jax.enable_x64(True):
            values = arrays.wide(baseline.leaves)
            if isinstance(load.baseline, Source):
                out = baseline.call(*baseline.arrange(values))
            elif load.reference and load.reference.code:
                out = artefact(load.reference.code)(*values)
            else:
                return None
            out = jax.tree.leaves(jax.block_until_ready(out))
            return out if all(agreement.is_double(leaf) for leaf in out) else None
    except Exception:  # a baseline that fixes its dtypes need not run in double precision
        return None
