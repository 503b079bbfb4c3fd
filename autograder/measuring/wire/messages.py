"""What the notebook, the measuring process and its guest say to each other: every message, with all its fields.

The notebook asks the measuring process, and the measuring process asks its guest; each request has one reply. A side
of a comparison is "baseline" or "candidate". A `job` names a comparison in the process that has loaded it. Times are
in nanoseconds of T* (see `worker.clock`) where nothing else is said, sizes in bytes.

Arrays travel as raw bytes and functions as artefacts of `jax.export` or as pickled code: whoever reads a message runs
what it holds. So the pipes lead to processes of our own only.
"""

from dataclasses import dataclass
from typing import IO, Any, Literal, TypeVar

from . import frames
from .codec import ProtocolError as ProtocolError
from .codec import decode, encode

Side = Literal["baseline", "candidate"]
T = TypeVar("T")

# --- what messages are made of -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    """A Python number."""

    value: bool | int | float


@dataclass(frozen=True)
class Complex:
    """A Python complex number."""

    real: float
    imag: float


@dataclass(frozen=True)
class Array:
    """An array: `data` in C order. Of typed random keys, the words that `key`, their implementation, reads."""

    kind: Literal["jax", "numpy", "key"]
    key: str | None
    dtype: str
    shape: list[int]
    weak: bool
    data: bytes


Leaf = Number | Complex | Array


@dataclass(frozen=True)
class Inputs:
    """The leaves of the arguments, and the settings of JAX under which the functions are called."""

    leaves: list[Leaf]
    x64: bool
    precision: str | None  # jax_default_matmul_precision


@dataclass(frozen=True)
class Artefact:
    """A jitted function as `jax.export` serialises it; it takes the leaves numbered in `slots`."""

    code: bytes
    slots: list[int]


@dataclass(frozen=True)
class Source:
    """Any other function, pickled together with its arguments, whose leaves are `arrays.Slot`s."""

    code: bytes
    own_process: bool  # run it in the guest, with inputs of its own for each call


@dataclass(frozen=True)
class Reference:
    """The baseline in double precision, as an artefact; None where it cannot be exported."""

    code: bytes | None


@dataclass(frozen=True)
class Rate:
    """A measured rate: the median, and the range of the middle half of its blocks."""

    median: float
    low: float
    high: float


# --- from the notebook to the measuring process --------------------------------------------------------------------


@dataclass(frozen=True)
class Load:
    """Make both sides ready, and compare their results. Answered by Loaded, NeedsReference or a refusal.

    Of a `cold` comparison each call will be the first one of a new process; both sides are Sources then.
    """

    job: str
    inputs: Inputs
    baseline: Artefact | Source
    candidate: Artefact | Source
    reference: Reference | None
    cold: bool = False


@dataclass(frozen=True)
class Contest:
    """Time the sides of a job against each other, `budget` seconds long.

    Answered by Outcome, Forgotten, NeedsReference or a refusal. Without a `bar` the ratio alone is estimated.
    `calibrate` asks first how long a call takes, as after a Load.
    `confirms`: another process has an answer, and a smaller lead is enough.
    `full_speed`: what a plain loop took at its fastest on this core (see `worker.yardstick`), 0 where that is unknown.
    """

    job: str
    bar: float | None
    budget: float
    calibrate: bool = False
    confirms: bool = False
    full_speed: float = 0.0


@dataclass(frozen=True)
class MeasureLimits:
    """Measure this machine's limits on data of `size` bytes, for about `seconds`. Answered by Limits."""

    size: int
    seconds: float


# --- and back ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Start:
    """The first message to a measuring process that was forked: what another one is started with."""

    core: int  # the number of its core; -1 for any
    variables: dict[str, str]  # its environment
    folder: str
    programs: str  # the folder in which JAX finds what it has compiled before; empty: none
    keeps: bool  # whether what is not found there is kept there


@dataclass(frozen=True)
class Ready:
    """The first message of a new process."""

    jax: str  # its version


@dataclass(frozen=True)
class Loaded:
    """Both sides are ready and agree. `taken` and `returned` are the sizes of the arguments and of the results."""

    first_call: dict[str, float]  # seconds, by side
    device: str
    platform: str
    results: list[str]
    taken: int
    returned: int


@dataclass(frozen=True)
class NeedsReference:
    """The results differ by more than rounding usually does: send the Load again, with the reference."""


@dataclass(frozen=True)
class Forgotten:
    """The job was loaded too long ago, or never: send its Load (again)."""

    job: str


@dataclass(frozen=True)
class Outcome:
    """What a contest saw: one entry a pair, the times for one call. `answer` is None where the rule has none."""

    answer: Literal["pass", "fail"] | None
    baseline: list[float]
    candidate: list[float]
    others: list[float]  # share of the time in which others had the core
    seconds: float  # that the contest took
    put_aside: int = 0  # pairs that the rule did not see, because the core ran slowly
    full_speed: float = 0.0  # what a plain loop took at least, 0 where none was timed


@dataclass(frozen=True)
class Limits:
    """This machine's limits: bytes, operations and calls in a second."""

    device: str
    bandwidth: Rate
    arithmetic: Rate
    dispatch: Rate


@dataclass(frozen=True)
class OtherStructure:
    """A refusal: the results differ in number, shape or kind."""

    what: str


@dataclass(frozen=True)
class OtherValues:
    """A refusal: `wrong` of the `of` values of one result disagree, worst at `index`.

    `on` is the arguments as they were given, or new ones, made when those had been answered well. `repeats` says that
    the candidate was seen to return one and the same result for two sets of inputs that have different ones.
    """

    result: int
    index: list[int]
    wrong: int
    of: int
    got: str
    want: str
    allowed: str
    on: Literal["given", "new"] = "given"
    repeats: bool = False


@dataclass(frozen=True)
class NothingNew:
    """A refusal: the candidate is code, and nothing in its arguments can be new from call to call."""


@dataclass(frozen=True)
class SideRaised:
    """A refusal: a side raised an exception of type `kind`."""

    side: Side
    kind: str
    text: str


@dataclass(frozen=True)
class Failed:
    """The process itself raised an exception."""

    text: str


# --- from the measuring process to its guest -----------------------------------------------------------------------


@dataclass(frozen=True)
class LoadCandidate:
    """Make the candidate ready. This, Prepare, Run and Drop are answered by Done or SideRaised."""

    job: str
    inputs: Inputs
    candidate: Source


@dataclass(frozen=True)
class Prepare:
    """Make the inputs of so many calls, those of a `draw`. Run and GetResult are about the job that was prepared last.

    The same draw makes the same inputs in both processes; 0 stands for the arguments as they were given.
    """

    job: str
    calls: int
    draw: int


@dataclass(frozen=True)
class Run:
    """Call the candidate on what was prepared. The time until the reply is what is measured."""


@dataclass(frozen=True)
class GetResult:
    """Answered by Result, OtherStructure or SideRaised."""


@dataclass(frozen=True)
class Drop:
    """Forget a job."""

    job: str


# --- and back ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Done:
    """It is done."""


@dataclass(frozen=True)
class Result:
    """What the call of the candidate that is checked returned."""

    leaves: list[Leaf]


Request = Load | Contest | MeasureLimits
Refusal = OtherStructure | OtherValues | NothingNew | SideRaised
Reply = Ready | Loaded | NeedsReference | Forgotten | Outcome | Limits | Refusal | Failed
GuestRequest = LoadCandidate | Prepare | Run | GetResult | Drop
GuestReply = Ready | Done | Result | OtherStructure | SideRaised | Failed
Message = Start | Request | Reply | GuestRequest | GuestReply


def send(stream: IO[bytes], message: Message) -> None:
    """Write one message. Raises OSError when the other side is gone."""
    frames.write(stream, encode(message))


def receive(stream: IO[bytes], declared: Any) -> Any:
    """Read one message of the `declared` kind, `Request` for one. Raises EOFError when the other side is gone.

    Raises `ProtocolError` where something else has arrived; the message has then been read.
    """
    return decode(frames.read(stream), declared)


def expect(reply: Reply | GuestReply, kind: type[T]) -> T:
    """The reply to a request that has this kind of reply. Raises `ProtocolError` for any other."""
    if not isinstance(reply, kind):
        raise ProtocolError(f"expected {kind.__name__}, got {reply}")
    return reply
