"""The jobs of one measuring process: comparisons whose two sides are loaded, agree, and can be timed."""

import dataclasses
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.export

from autograder.measuring.fork_server import ForkServer
from autograder.measuring.verdict import CONFIRM, LEAD
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
    NothingNew,
    OtherValues,
    Outcome,
    ProtocolError,
    Reply,
    Request,
    Side,
    Source,
)

from . import agreement
from .cold import Cold
from .contest import calibrate, contest, time_block
from .inputs import AS_GIVEN, Fresh, Supply, bytes_in, new_draw
from .limits import measure_limits
from .refusal import Refused, on_behalf_of
from .sides import Guest, Local, Remote, Timed, artefact, build
from .yardstick import Yardstick

KEPT = 6
LOOKS = 4  # calls that are made to see whether a result comes again


@dataclass
class Job:
    """A comparison whose sides agree; `shares` is by how much each result may be off, see `agreement.strict`.

    The sides of a cold comparison are both `Cold`. `exact` are the baseline's results in double precision on the inputs
    of a draw, None where they cannot be had; it is None itself where the notebook has to send a reference first.
    """

    baseline: Local | Cold
    candidate: Local | Remote | Cold
    shares: list[float]
    exact: Callable[[int], list | None] | None
    per_call: list[float] = field(default_factory=list)  # nanoseconds, baseline and candidate

    def calibrate(self) -> None:
        """Find out how long a call of each side takes. A cold one is known from its load: all its calls are alike."""
        if isinstance(self.baseline, Cold):
            return
        self.per_call = [_per_call(self.baseline), _per_call(self.candidate)]

    def check(self, got: list, want: list, draw: int) -> None:
        """Compare the results of a pair, whose inputs were those of `draw`. Raises `Refused`.

        How much rounding there is depends on the numbers: if these need more room than the arguments as given, they
        get what the baseline itself gets wrong on them.
        """
        with on_behalf_of("candidate"):
            refusal = agreement.disagreement(got, want, self.shares)
            if isinstance(refusal, OtherValues):
                if self.exact is None:
                    raise Refused(NeedsReference())
                derived = agreement.derived(got, want, self.exact(draw))
                self.shares = list(map(max, self.shares, derived))
                refusal = agreement.other_values(got, want, self.shares)
            if isinstance(refusal, OtherValues):
                refusal = dataclasses.replace(refusal, on="new", repeats=self._repeats())
            if refusal:
                raise Refused(refusal)

    def _repeats(self) -> bool:
        """Whether the candidate returns the same for two of a few new sets of inputs, and the baseline does not."""
        draws = [new_draw() for _ in range(LOOKS)]
        pairs = list(itertools.combinations(range(LOOKS), 2))
        same = []
        for side in (self.baseline, self.candidate):
            with on_behalf_of(side.role):
                results = [_results(side, draw) for draw in draws]
            same.append({(i, j) for i, j in pairs if agreement.identical(results[i], results[j])})
        return bool(same[1] - same[0])


def _results(side: Timed, draw: int) -> list:
    """What one call returns."""
    side.prepare(1, draw)
    side.run()
    return side.result()


def _per_call(side: Timed) -> float:
    with on_behalf_of(side.role):
        if isinstance(side, Remote):
            side.overhead = 0
            side.overhead = min(time_block(side, 0, AS_GIVEN)[0] for _ in range(7))
        return calibrate(side)


class Jobs:
    """Answers the requests of the notebook. `new_guest` makes a guest, by the `server` where there is one."""

    def __init__(self, new_guest: Callable[[], Guest], server: ForkServer | None = None):
        self._new_guest, self._server = new_guest, server
        self._guest: Guest | None = None
        self._jobs: dict[str, Job] = {}
        self._yardstick = Yardstick()

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
        """End the guest and the fork server, whatever they are doing."""
        for process in (self._guest, self._server):
            if process is not None:
                process.close()

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
        remembers = isinstance(load.candidate, Source) and load.candidate.own_process
        with on_behalf_of("baseline"):
            here = build("baseline", load.baseline, load.inputs, fresh=remembers)
            baseline = self._cold("baseline", load) if load.cold else here
            slow, want = _first_call(baseline)
        with on_behalf_of("candidate"):
            candidate = self._cold("candidate", load) if load.cold else self._candidate(load, here.supply)
            fast, got = _first_call(candidate)
            if structure := agreement.other_structure(got, want):
                raise Refused(structure)
            shares, exact = agreement.strict(got, want), _exact(load, here)
            if agreement.other_values(got, want, shares):
                if exact is None:
                    return NeedsReference()
                shares = agreement.derived(got, want, exact(AS_GIVEN))
                if values := agreement.other_values(got, want, shares):
                    raise Refused(values)
        if isinstance(baseline.supply, Fresh) and not baseline.supply.new:
            raise Refused(NothingNew())
        self._jobs[load.job] = job = Job(baseline, candidate, shares, exact, [slow * 1e9, fast * 1e9])
        job.calibrate()
        return Loaded(
            first_call={"baseline": slow, "candidate": fast},
            device=jax.devices()[0].device_kind,
            platform=jax.default_backend(),
            results=[agreement.leaf_type(leaf) for leaf in want],
            taken=bytes_in(here.leaves),
            returned=bytes_in(want),
        )

    def _candidate(self, load: Load, supply: Supply) -> Local | Remote:
        """The candidate, which may run in the guest. A baseline never does: what is right is computed here."""
        if not (isinstance(load.candidate, Source) and load.candidate.own_process):
            return build("candidate", load.candidate, load.inputs, fresh=False)
        if self._guest is None or self._guest.process.poll() is not None:
            self._guest = self._new_guest()
        return Remote(self._guest, load.job, load.candidate, load.inputs, supply)

    def _cold(self, role: Side, load: Load) -> Cold:
        """A side of a comparison of first calls."""
        function = load.baseline if role == "baseline" else load.candidate
        if not isinstance(function, Source):
            raise ProtocolError("a first call is made from source: a compiled artefact has nothing left to compile")
        return Cold(role, function, load.inputs, self._new_guest)

    def _contest(self, request: Contest) -> Outcome | Forgotten:
        """Run the rule at one bar; the results are compared for every pair."""
        job = self._jobs.get(request.job)
        if job is None:
            return Forgotten(request.job)
        if request.calibrate:
            job.calibrate()
        sides = job.baseline, job.candidate
        lead = CONFIRM if request.confirms else LEAD
        # First calls run in other processes, and take too long for a moment's speed to say anything.
        slow = (lambda: False) if isinstance(job.baseline, Cold) else self._yardstick.slow
        self._yardstick.begin(request.full_speed)
        outcome = contest(*sides, request.bar, job.per_call, request.budget, job.check, slow, lead)
        return dataclasses.replace(outcome, full_speed=self._yardstick.lowest)

    def _drop(self, job: str) -> None:
        dropped = self._jobs.pop(job)
        for side in (dropped.baseline, dropped.candidate):
            if isinstance(side, Cold):
                side.close()
            if isinstance(side, Remote):
                side.clock.close()
                if side.guest.process.poll() is None:
                    side.guest.ask(Drop(job))


def _first_call(side: Timed) -> tuple[float, list]:
    """(seconds of the first call, the results of that call)."""
    nanoseconds, _ = time_block(side, 1, AS_GIVEN)
    return nanoseconds / 1e9, side.result()


def _exact(load: Load, baseline: Local) -> Callable[[int], list | None] | None:
    """`Job.exact`. A Source runs in double precision as it is; an artefact needs the reference for that."""
    if isinstance(load.baseline, Artefact) and load.reference is None:
        return None

    def exact(draw: int) -> list | None:
        try:
            with jax.enable_x64(True):
                if isinstance(load.baseline, Source):
                    call = baseline.call
                elif load.reference and load.reference.code:
                    call = artefact(load.reference.code)
                else:
                    return None
                inputs = baseline.supply.block(1, draw, lambda values: baseline.arrange(arrays.wide(values)))
                out = jax.tree.leaves(jax.block_until_ready(call(*inputs.calls[0])))
                return out if all(agreement.is_double(leaf) for leaf in out) else None
        except Exception:  # a baseline that fixes its dtypes need not run in double precision
            return None

    return exact
