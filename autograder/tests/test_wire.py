"""What the notebook and the measuring process say to each other: it arrives as it was, or is refused by name."""

import dataclasses
import io
import json
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import autograder.measuring
from autograder.measuring import bench
from autograder.measuring.wire import messages
from autograder.measuring.wire.codec import ProtocolError, decode, encode
from autograder.measuring.wire.messages import (
    Array,
    Artefact,
    Complex,
    Contest,
    Inputs,
    Limits,
    Load,
    Loaded,
    NothingNew,
    Number,
    OtherValues,
    Outcome,
    Prepare,
    Rate,
    Reference,
    Result,
    Run,
    SideRaised,
    Source,
    receive,
    send,
)

ARRAY = Array("jax", None, "float32", [2], False, b"\0\1\2\3\4\5\6\7")
LEAVES = [
    ARRAY,
    Number(3),
    Number(True),
    Number(-0.5),
    Complex(1.0, 2.0),
    Array("key", "fry", "uint32", [0], False, b""),
]
EXAMPLES = [
    Load("j", Inputs(LEAVES, True, None), Artefact(b"code", [0, 2]), Source(b"other", True), Reference(None)),
    Load("j", Inputs([], False, "highest"), Source(b"", False), Artefact(b"", []), None),
    Load("j", Inputs([], False, None), Source(b"a", False), Source(b"b", False), None, cold=True),
    Contest("j", None, 1.5),
    Contest("j", 2, 0, calibrate=True),
    Loaded({"baseline": 1.0, "candidate": 0.5}, "cpu", "cpu", ["float32[2]"], 8, 8),
    Outcome("pass", [1.0], [2.0], [0.0], 0.1),
    Outcome(None, [], [], [], 0.0),
    Outcome(None, [1.0], [2.0], [0.0], 0.1, put_aside=1, full_speed=8e4),
    OtherValues(0, [1, 2], 3, 4, "1", "2", "0"),
    OtherValues(0, [], 1, 1, "1", "2", "0", on="new", repeats=True),
    Prepare("j", 3, 2**62),
    NothingNew(),
    Limits("cpu", Rate(1.0, 0.5, 2.0), Rate(1.0, 0.5, 2.0), Rate(1.0, 0.5, 2.0)),
    Result(LEAVES),
]
EVERY = messages.Request | messages.Reply | messages.GuestRequest | messages.GuestReply


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was(message):
    stream = io.BytesIO()
    send(stream, message)
    send(stream, Run())
    stream.seek(0)
    arrived = receive(stream, EVERY)
    assert arrived == message and type(arrived) is type(message)
    assert receive(stream, EVERY) == Run()
    with pytest.raises(EOFError):
        receive(stream, EVERY)


def test_half_a_message_is_the_end():
    stream = io.BytesIO()
    send(stream, EXAMPLES[0])
    with pytest.raises(EOFError):
        receive(io.BytesIO(stream.getvalue()[:-1]), EVERY)


def text_of(example, /, **changes):
    fields = json.loads(encode(example)[0]) | changes
    return [json.dumps({name: value for name, value in fields.items() if value is not ...}).encode(), b"bytes"]


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        (text_of(Contest("j", 2.0, 1.5), message="Dance"), "message: expected .*Contest.*, got Dance"),
        (text_of(Contest("j", 2.0, 1.5), message=["Contest"]), "message: expected .*Contest.*, got "),
        (text_of(Contest("j", 2.0, 1.5), bar=...), "Contest misses bar"),
        (text_of(Contest("j", 2.0, 1.5), tempo=3), "Contest has no field tempo"),
        (text_of(Contest("j", 2.0, 1.5), bar="2"), "Contest.bar: expected float or NoneType, got '2'"),
        (text_of(Contest("j", 2.0, 1.5), budget=True), "Contest.budget: expected float, got True"),
        (text_of(Contest("j", 2.0, 1.5), job=None), "Contest.job: expected str, got None"),
        (text_of(SideRaised("candidate", "E", ""), side="judge"), r"SideRaised.side: expected typing.Literal.*'judge'"),
        (text_of(Outcome(None, [], [1.0], [], 0.0), candidate=[1.0, "2"]), r"Outcome.candidate\[1\]: expected float"),
        (text_of(Outcome(None, [], [], [], 0.0), others={}), r"Outcome.others: expected list\[float\], got {}"),
        (text_of(Loaded({}, "", "", [], 0, 0), first_call={"baseline": None}), r"Loaded.first_call\['baseline'\]"),
        (
            text_of(Limits("", *[Rate(1.0, 1.0, 1.0)] * 3), dispatch={"message": "Run"}),
            "Limits.dispatch: .*Rate, got Run",
        ),
        (text_of(Reference(b"x"), code=2), "Reference.code: expected bytes or NoneType, got 2"),
        (text_of(Reference(b"x"), code=0), "Reference.code: expected bytes or NoneType, got 0"),
        ([b"[]"], r"message: expected .*, got \[\]"),
        ([b"Dance"], "message: expected .*, got b'Dance'"),
        ([b"Contest"], "message: expected .*, got b'Contest'"),
        ([b"\xff"], r"message: expected .*, got b'\\xff'"),
        ([], "message: expected .*, got b''"),
    ],
)
def test_what_is_not_declared_is_refused_by_message_and_field(parts, says):
    with pytest.raises(ProtocolError, match=says):
        decode(parts, EVERY | Reference)


def test_a_reply_is_no_request():
    with pytest.raises(ProtocolError, match="expected Load or Contest or MeasureLimits, got Ready"):
        decode(encode(messages.Ready("1")), messages.Request)


def test_a_reply_of_another_kind_than_the_request_asks_for_is_refused():
    assert messages.expect(Result(LEAVES), Result) == Result(LEAVES)
    with pytest.raises(ProtocolError, match=r"expected Result, got Done\(\)"):
        messages.expect(messages.Done(), Result)


def test_all_that_is_declared_can_be_checked():
    """The codec knows these kinds of fields; another one would be refused whatever it holds."""
    known = {bool, int, float, str, bytes, type(None)}

    def kinds(declared):
        if typing.get_origin(declared) is typing.Literal:
            return set()
        if inner := typing.get_args(declared):
            return set().union(*map(kinds, inner))
        if dataclasses.is_dataclass(declared):
            return set().union(*map(kinds, typing.get_type_hints(declared).values()))
        return {declared}

    assert kinds(EVERY) <= known


def test_a_process_that_is_asked_nonsense_says_so_and_goes_on():
    try:
        process = bench.current()
        process.wait_until_ready()
        with pytest.raises(RuntimeError, match=r"the measuring process failed: Contest.bar: expected float .* '2'"):
            process.ask(Contest("j", "2", 1.0), limit=60)
        assert process.ask(Contest("j", 2.0, 1.0), limit=60) == messages.Forgotten("j")
    finally:
        bench.stop()


# --- which process reads which module ------------------------------------------------------------------------------

MEASURING = "autograder.measuring"
SHARED = {MEASURING, *(f"{MEASURING}.{name}" for name in ("verdict", "fork_server", "programs", "wire"))}
SHARED |= {f"{MEASURING}.wire.{name}" for name in ("arrays", "codec", "frames", "functions", "messages")}
HERE = Path(autograder.measuring.__file__).parent

SERVE_NOBODY = """
import importlib.util, os, sys

def end(code):
    open(sys.argv[2], "w").write("\\n".join(sys.modules))
    leave(code)

leave, os._exit = os._exit, end
spec = importlib.util.spec_from_file_location("main", sys.argv[1])
main = importlib.util.module_from_spec(spec)
spec.loader.exec_module(main)
main.main(sys.argv[3:] + ["-1"])
end(0)
"""
ASK = """
import sys
from autograder import roofline, speedup
open(sys.argv[2], "w").write("\\n".join(sys.modules))
"""


def modules_of(program, tmp_path, *arguments) -> set[str]:
    """What is imported when the program has ended; its input is at its end from the start."""
    found = tmp_path / "modules"
    command = [sys.executable, "-c", program, str(HERE / "worker" / "main.py"), str(found), *arguments]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return set(found.read_text().splitlines())


def below(name, modules) -> set[str]:
    return {module for module in modules if f"{module}.".startswith(f"{name}.")}


GUEST = {f"{MEASURING}.worker{name}" for name in ("", ".sides", ".inputs", ".clock", ".refusal")}
OWN = ("jobs", "contest", "agreement", "limits", "product", "cold", "yardstick")
WORKER = GUEST | {f"{MEASURING}.worker.{name}" for name in OWN}


@pytest.mark.parametrize(
    ("arguments", "expected"), [([], WORKER), (["--guest"], GUEST)], ids=["measuring process", "guest"]
)
def test_the_measuring_process_reads_its_own_modules_and_the_shared_ones(tmp_path, arguments, expected):
    modules = modules_of(SERVE_NOBODY, tmp_path, *arguments)
    own = below(f"{MEASURING}.worker", modules)
    assert own == expected
    assert below(MEASURING, modules) - own == SHARED - ({f"{MEASURING}.verdict"} if arguments else set())
    assert not modules & {"autograder.doors", "autograder.checks", "autograder.instruments"}
    assert not modules & {"matplotlib", "nbgrader", "IPython", "pytest", "lazy_loader"}


def test_the_notebook_reads_its_own_modules_and_the_shared_ones(tmp_path):
    modules = below(MEASURING, modules_of(ASK, tmp_path))
    assert not below(f"{MEASURING}.worker", modules)
    own = {f"{MEASURING}.{path.stem}" for path in HERE.glob("*.py") if path.stem != "__init__"}
    assert modules == own | SHARED
