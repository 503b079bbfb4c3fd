"""What XLA was given and what it made of it: HLO text, parsed, and the compiler's own estimates.

A function is lowered and compiled by `jax.stages`, and asked for its text, costs and memory. The parser reads the text
of both stages, "lowered" (before optimisation) and "optimized" (what runs).

ops          Operations wherever they are, inside fusions and loop bodies too. Bookkeeping that computes nothing
             (`BOOKKEEPING`) and the instructions that only hold others (`fusion`, `call`) are not counted, nor is the
             scalar function of a `reduce`, `sort` or `scatter`.
fusions      `fusion` instructions: on CPU and GPU, about one compiled loop or kernel each. An operation on its own
             may be wrapped in one.
bytes, flops XLA's estimate for the whole module; flops leave out transcendentals. **The body of a loop is counted
             once**, however often it runs: see `loops`. Over a loop, use the FLOPs of the jaxpr.
temp_bytes   Scratch memory that the module asks for besides arguments and results.

All of these differ by backend and by version of XLA. Compare them with a reference compiled in the same process.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import jax
from jax.extend.core import jaxpr_as_fun

from autograder.jax_internals import estimates, is_jitted, trace_jitted
from autograder.wording import array_type

from .fresh_caches import fresh_caches
from .read_jaxpr import all_arrays, trace
from .trace_log import trace_log
from .watch_functions import function_name, observer_of

Stage = Literal["lowered", "optimized"]

BOOKKEEPING = frozenset(
    {
        "add-dependency",
        "after-all",
        "async-done",
        "async-start",
        "async-update",
        "bitcast",
        "constant",
        "copy",
        "copy-done",
        "copy-start",
        "domain",
        "get-tuple-element",
        "parameter",
        "tuple",
    }
)
HOLDERS = frozenset({"async-start", "call", "fusion"})
COLLECTIVES = frozenset(
    {
        "all-gather",
        "all-reduce",
        "all-to-all",
        "collective-broadcast",
        "collective-permute",
        "ragged-all-to-all",
        "reduce-scatter",
    }
)


@dataclass(frozen=True)
class Instruction:
    """`%name = type opcode(operands), attributes`. `called` are (role, computation) pairs: ("body", "region_0")."""

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    attributes: str
    root: bool

    @cached_property
    def called(self) -> tuple[tuple[str, str], ...]:
        return tuple(_called(self.attributes))

    @property
    def origin(self) -> str:
        """Where it comes from, in JAX's words: "jit(norm)/reduce_sum"; "" if XLA does not say."""
        match = re.search(r'op_name="([^"]*)"', self.attributes)
        return match[1] if match else ""

    @property
    def trip_count(self) -> int | None:
        """How often a `while` runs its body, when XLA found out."""
        match = re.search(r'"known_trip_count":\{"n":"(\d+)"', self.attributes)
        return int(match[1]) if match else None


@dataclass(frozen=True)
class Module:
    """One HLO module: its computations by name, and the name of the entry."""

    name: str
    entry: str
    computations: dict[str, tuple[Instruction, ...]] = field(repr=False)

    def walk(self, computation: str | None = None) -> Iterator[Instruction]:
        """Every instruction reached from the entry, the contents of fusions, calls, loops and branches included."""
        for instruction in self.computations.get(computation or self.entry, ()):
            yield instruction
            for role, called in instruction.called:
                if role != "to_apply" or instruction.opcode == "call":
                    yield from self.walk(called)

    @property
    def ops(self) -> Counter[str]:
        return Counter(filter(None, (operation(i) for i in self.walk())))

    @property
    def fusions(self) -> int:
        return sum(instruction.opcode == "fusion" for instruction in self.walk())

    @property
    def collectives(self) -> Counter[str]:
        return Counter({name: count for name, count in self.ops.items() if name in COLLECTIVES})

    @property
    def loops(self) -> bool:
        return "while" in self.ops


def operation(instruction: Instruction) -> str | None:
    """The operation that counts, or None. An asynchronous `all-reduce-start`/`-done` pair is one `all-reduce`."""
    opcode = instruction.opcode
    if opcode.removesuffix("-start") in COLLECTIVES:
        return opcode.removesuffix("-start")
    if opcode in BOOKKEEPING | HOLDERS or opcode.removesuffix("-done") in COLLECTIVES - {opcode}:
        return None
    return opcode


# --- the compiler's answers ---


@dataclass(frozen=True)
class Hlo:
    """A function at one stage. `bytes`, `flops` and `temp_bytes` are None where this backend gives no estimate."""

    stage: Stage
    module: Module
    text: str = field(repr=False)
    bytes: int | None
    flops: int | None
    temp_bytes: int | None


def hlo(fn: Callable, *args: Any, stage: Stage = "optimized") -> Hlo:
    """Lower `fn(*args)`, and compile it for stage "optimized". A plain function is jitted first.

    Done in `fresh_caches()`: the next call of `fn` neither gains nor loses a trace or a compilation by it.
    """
    if stage not in ("lowered", "optimized"):
        raise ValueError(f'stage is "lowered" or "optimized", not {stage!r}')
    with fresh_caches():
        lowered = trace_jitted(*_to_be_lowered(fn, args)).lower()
        program = lowered if stage == "lowered" else lowered.compile()
        text = lowered.as_text("hlo") if stage == "lowered" else program.as_text()
        figures = estimates(program)
    return Hlo(stage, parse(text), text, **figures._asdict())


def _to_be_lowered(fn: Callable, args: tuple) -> tuple[Any, ...]:
    """A jitted function and its arguments. Of a function of another process that has static arguments it is the program
    that it has for them, and the types of the others."""
    if observer_of(fn) is None or all_arrays(args):
        return fn if is_jitted(fn) else jax.jit(fn), *args
    program = trace(fn, *args)
    types = [jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type) for aval in program.in_avals]

    def run(*values: Any) -> list[Any]:
        return jaxpr_as_fun(program)(*values)

    run.__name__ = run.__qualname__ = function_name(fn)
    return jax.jit(run), *types


def modules_built(fn: Callable, *args: Any) -> list[str]:
    """The names of the XLA modules that a call `fn(*args)` builds when nothing has been compiled yet, in order.

    A jitted function is compiled and not run. A plain one is run: every eager operation builds a module of its own,
    `jit(add)`, and equal ones build it once. Both happen in `fresh_caches()`, so the answer is the same every time
    (a count of compilations in an ordinary second call is 0).
    """
    with fresh_caches(), trace_log() as log:
        if is_jitted(fn):
            trace_jitted(fn, *args).lower().compile()
        else:
            jax.block_until_ready(fn(*args))
    return log.modules


# --- the parser ---

_HEADER = re.compile(r"(?P<entry>ENTRY )?%?(?P<name>[^\s(]+) (\(.*\) -> .* )?\{$")
_ASSIGNMENT = re.compile(r"\s+(?P<root>ROOT )?%?(?P<name>\S+) = (?P<rest>.*)$")
_OPCODE = re.compile(r" ?(?P<opcode>[a-z][\w-]*)(?=\()")
_ROLE = r"calls|to_apply|body|condition|true_computation|false_computation|branch_computations|called_computations"
_CALLED = re.compile(rf"\b({_ROLE})=(\{{[^}}]*\}}|%?[\w.-]+)")


def parse(text: str) -> Module:
    """Read an HLO module. Lines that are no instruction (source tables, long constants) are passed over."""
    name, entry = "", ""
    computations: dict[str, list[Instruction]] = {}
    current: list[Instruction] | None = None
    for line in text.splitlines():
        if line.startswith("HloModule "):
            name = line.split()[1].rstrip(",")
        elif line.startswith("}"):
            current = None
        elif not line[:1].isspace() and (header := _HEADER.match(line)):
            current = computations[header["name"]] = []
            entry = header["name"] if header["entry"] else entry
        elif current is not None and (instruction := _instruction(line)):
            current.append(instruction)
    if not entry:
        raise ValueError("this is no HLO text: it has no ENTRY computation")
    return Module(name, entry, {key: tuple(value) for key, value in computations.items()})


def _instruction(line: str) -> Instruction | None:
    assignment = _ASSIGNMENT.match(line)
    if not assignment:
        return None
    rest = assignment["rest"]
    end = _closing(rest, 0) if rest.startswith("(") else rest.find(" ")  # a tuple type holds blanks
    opcode = _OPCODE.match(rest, end)
    if not opcode:
        return None
    close = _closing(rest, opcode.end())
    return Instruction(
        name=assignment["name"],
        type=rest[:end],
        opcode=opcode["opcode"],
        operands=tuple(_operands(opcode["opcode"], rest[opcode.end() + 1 : close - 1])),
        attributes=rest[close:].lstrip(", "),
        root=bool(assignment["root"]),
    )


def _closing(text: str, start: int) -> int:
    """The index just after the bracket that closes the one at `start`."""
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] in "([{") - (text[index] in ")]}")
        if depth == 0:
            return index + 1
    return len(text)


def _operands(opcode: str, text: str) -> Iterator[str]:
    if opcode in ("constant", "parameter"):  # a value or a number, no names
        yield text
        return
    depth, begin = 0, 0
    for index, character in enumerate(text + ","):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and character == ",":
            words = text[begin:index].split()  # the type may come first
            if words:
                yield words[-1].removeprefix("%")
            begin = index + 1


def _called(attributes: str) -> Iterator[tuple[str, str]]:
    for role, names in _CALLED.findall(attributes):
        for name in names.strip("{}").split(","):
            yield role, name.strip().removeprefix("%")


# --- types ---

_DTYPES = {"pred": "bool", "bf16": "bfloat16", "c64": "complex64", "c128": "complex128"}
_LETTERS = {"f": "float", "s": "int", "u": "uint"}


def type_name(hlo_type: str) -> str:
    """`f32[8,4]{1,0}` in JAX's words: `float32[8,4]`. A tuple stays a tuple."""
    arrays = r"(?<![\w.])([a-z]\w*)\[([^\]]*)\](\{[^}]*\})?"
    return re.sub(arrays, lambda found: array_type(_dtype(found[1]), found[2].split(",")), hlo_type)


def _dtype(name: str) -> str:
    if name in _DTYPES:
        return _DTYPES[name]
    if match := re.fullmatch(r"([fsu])(\d+)", name):
        return _LETTERS[match[1]] + match[2]
    if match := re.fullmatch(r"f(\d+)(e\w+)", name):  # f8e4m3fn
        return f"float{match[1]}_{match[2]}"
    return name


def tuple_types(hlo_type: str) -> list[str]:
    """The parts of a tuple type; any other type is its own only part."""
    if not hlo_type.startswith("("):
        return [hlo_type]
    parts, depth, begin = [], 0, 1
    for index, character in enumerate(hlo_type):
        if depth == 1 and character in ",)":
            parts.append(hlo_type[begin:index].strip())
            begin = index + 1
        depth += (character in "([{") - (character in ")]}")
    return [part for part in parts if part]


def tidy(text: str) -> str:
    """HLO text for reading: without source tables, metadata, and what the backend notes for itself."""
    lines: list[str] = []
    keep = True
    for line in text.splitlines():
        if line.startswith("HloModule"):
            keep = True
            line = line.split(",")[0]
        elif re.match(r"(FileNames|FunctionNames|FileLocations|StackFrames)$", line):
            keep = False
        elif _HEADER.match(line):
            keep = True
        if keep and (line.strip() or (lines and lines[-1].strip())):
            lines.append(re.sub(r", (metadata|backend_config|frontend_attributes)=\{.*$", "", line))
    return "\n".join(lines)
