"""The link between the box and the judge, without a kernel: values, calls either way, and a box that is hostile."""

import enum
import json
import socket
import struct
import sys
import threading
import traceback
from collections import Counter, OrderedDict
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import io_callback
from jax.extend.core import jaxpr_as_fun

from autograder import assert_allclose, assert_hlo, assert_max_traces, show_hlo, show_jaxpr, trace_log
from autograder.doors.judge import candidates, names, peer, programs, sources
from autograder.doors.judge.errors import AnswerStopped
from autograder.doors.judge.lent import Things, may_be_lent, may_be_read
from autograder.doors.judge.link import LARGEST_TEXT, Link, LinkBroken
from autograder.doors.judge.peer import Peer
from autograder.doors.judge.values import CannotCross, Pack, Unpack, Unreadable
from autograder.failure import CheckFailed
from autograder.instruments import watch_functions
from autograder.instruments.trace_log import TraceLog
from autograder.jax_internals import COMPILE_EVENT, is_jitted, is_tracer
from autograder.measuring.wire import functions
from autograder.not_begun import STUB, NotBegun

pytestmark = pytest.mark.once


class Point(NamedTuple):
    x: object
    y: object


class Suit(enum.Enum):
    SPADE = 1


class Box:
    def __init__(self, inside):
        self.inside = inside


for kind in (Point, Suit, Box):
    kind.__module__ = "__main__"  # as a locked cell makes them
COURSE = {"Point": Point, "Suit": Suit, "Box": Box}


def refuse(value, pack):
    raise CannotCross(type(value).__name__)


def crossed(value):
    packer = Pack(refuse, COURSE)
    form = json.loads(json.dumps(packer.pack(value)))
    return Unpack(packer.parts, refuse, names.harmless, COURSE).unpack(form)


PLAIN = [None, True, 0, -1, 2**70, 1.5, -0.0, float("inf"), 2j, "ü\ud800", b"\x00\xff", [1, [2]], (), {1: (2,)}]
PLAIN += [{1, 2}, frozenset({3}), slice(1, None), range(0, 9, 2), Ellipsis, np.dtype("float32"), jnp.dtype("bfloat16")]
PLAIN += [int, np.float32, jnp.sin, np.add, jax.lax.add, ValueError, Suit.SPADE, Point(1, [2.0]), Point, abs, len]
PLAIN += [Counter({"sin": 2, "add": 1}), OrderedDict([("b", 1), ("a", 2)]), jax.P("x", None, ("y", "z")), jax.P()]
PLAIN += [SimpleNamespace(), SimpleNamespace(rate=2, inside=SimpleNamespace(_names=("a",)))]


@pytest.mark.parametrize("value", PLAIN, ids=range(len(PLAIN)))
def test_a_plain_value_comes_out_as_it_went_in(value):
    found = crossed(value)
    assert type(found) is type(value) and repr(found) == repr(value)


ARRAYS = [np.arange(6.0).reshape(2, 3), np.float32(2), np.array(["a", "bc"]), np.zeros((0, 3), np.int8), np.array(True)]
ARRAYS += [jnp.arange(3), jnp.asarray(2.0), jnp.ones(2, jnp.bfloat16), jnp.zeros((2, 0)), jnp.ones(3, jnp.int4)]
ARRAYS += [jax.jit(lambda: jnp.ones(3) * 1)(), jnp.full(3, 1.0), jax.lax.full((2,), 1.0) + 0]


@pytest.mark.parametrize("value", ARRAYS, ids=lambda v: f"{type(v).__name__} {v.dtype}{list(v.shape)}")
def test_an_array_keeps_its_type_shape_dtype_and_weakness(value):
    found = crossed(value)
    assert type(found) is type(value) and found.shape == value.shape and found.dtype == value.dtype
    assert getattr(found, "weak_type", None) == getattr(value, "weak_type", None)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(value))


def test_weak_arrays_random_keys_double_precision_and_objects():
    assert crossed(jax.jit(lambda x: jnp.zeros(3, int) + x)(1.0)).weak_type
    key = jax.random.key(3)
    assert jax.random.key_data(crossed(key)).tolist() == jax.random.key_data(key).tolist()
    with jax.enable_x64(True):
        wide = jnp.ones(2, jnp.float64)
    assert crossed(wide).dtype == np.float64
    assert crossed(Box([1])).inside == [1]


def test_what_has_no_form_or_holds_itself_cannot_cross():
    itself: list = []
    itself.append(itself)
    for value in (itself, sys, lambda: 1, np.array([None]), object()):
        with pytest.raises(CannotCross):
            crossed(value)


HOSTILE = [
    {},
    {"is": "nothing"},
    {"is": []},
    {"is": "list"},
    {"is": "dict", "v": [[{"is": "list", "v": []}, 1]]},
    {"is": "array", "dtype": "object", "shape": [1], "part": 0},
    {"is": "array", "dtype": "float32", "shape": [9], "part": 0},
    {"is": "array", "dtype": "float32", "shape": [-1], "part": 0},
    {"is": "array", "dtype": "float32", "shape": [1], "part": 7},
    {"is": "array", "dtype": "float32", "shape": [True], "part": 0},
    {"is": "jax", "dtype": "U1", "shape": [1], "part": 0, "weak": 0},
    {"is": "named", "v": ["builtins", "exec"]},
    {"is": "named", "v": ["builtins", "getattr"]},
    {"is": "named", "v": ["os", "system"]},
    {"is": "named", "v": ["numpy", "load"]},
    {"is": "named", "v": ["jax.numpy", "load"]},
    {"is": "named", "v": ["numpy", "ctypeslib"]},
    {"is": "named", "v": ["jax.numpy", "__builtins__"]},
    {"is": "named", "v": ["jax", "config"]},
    {"is": "named", "v": ["operator", "attrgetter"]},
    {"is": "named", "v": ["builtins", "type"]},
    {"is": "named", "v": ["jax", "pure_callback"]},
    {"is": "course", "v": "exec"},
    {"is": "member", "of": "Suit", "v": "__class__"},
    {"is": "member", "of": "Box", "v": "x"},
    {"is": "fields", "of": "Point", "v": [1]},
    {"is": "fields", "of": ["subprocess", "Popen"], "v": []},
    {"is": "object", "of": "Box", "v": [["__class__", 1]]},
    {"is": "object", "of": "Suit", "v": []},
    {"is": "int", "v": "0x" + "f" * 5000},
    {"is": "partial", "v": [1, {"is": "tuple", "v": []}, {"is": "dict", "v": []}]},
    {"is": "range", "v": [1, "2", 3]},
    {"is": "complex", "v": [1, 2]},
    {"is": "spec", "v": [1.5]},
    {"is": "spec", "v": "x"},
    {"is": "mesh", "names": ["i"], "shape": [1], "types": ["Auto"], "devices": [10**6]},
    {"is": "mesh", "names": ["i"] * 17, "shape": [1] * 17, "types": ["Auto"] * 17, "devices": [0]},
    {"is": "sharding", "mesh": 1, "spec": 2},
    {"is": "spread", "layout": 3, "dtype": "float32", "shape": [1], "parts": [0], "weak": False},
    {"is": "jax", "dtype": "float32", "shape": [1], "part": 0, "weak": False, "device": 10**6},
    {"is": "namespace"},
    {"is": "namespace", "v": [["__array_interface__", 1]]},
    {"is": "namespace", "v": [["__class__", 1]]},
    {"is": "namespace", "v": [["not a name", 1]]},
    {"is": "namespace", "v": [[1, 1]]},
    {"is": "namespace", "v": [["exec", {"is": "named", "v": ["builtins", "exec"]}]]},
]


@pytest.mark.parametrize("form", HOSTILE, ids=json.dumps)
def test_what_no_honest_box_would_send_is_unreadable(form):
    with pytest.raises(Unreadable):
        Unpack([b"\0\0\0\0"], refuse, names.harmless, COURSE).unpack(form)


def test_endless_nesting_is_unreadable():
    form: object = 1
    for _ in range(500):
        form = {"is": "list", "v": [form]}
    with pytest.raises(Unreadable):
        Unpack([], refuse, names.harmless, COURSE).unpack(form)


@pytest.mark.parametrize(
    "data",
    [b"", b"\0\0\0\0", b"\xff\xff\xff\xff", struct.pack(">I2Q", 2, 5, 2**60) + b"hello",
     struct.pack(">IQ", 1, LARGEST_TEXT + 1), struct.pack(">IQ", 1, 4) + b"null", struct.pack(">IQ", 1, 3) + b"{a}",
     struct.pack(">IQ", 1, 200_000) + b"[" * 200_000],
)  # fmt: skip
def test_what_is_no_message_breaks_the_link(data):
    ours, theirs = socket.socketpair()
    threading.Thread(target=lambda: (theirs.sendall(data), theirs.close())).start()
    with pytest.raises(LinkBroken):
        Link(ours).receive()


# --- two ends ---


@pytest.fixture
def rooms():
    """The judge's end; `rooms.box` are the names of the box, which serves in a thread of its own."""
    ours, theirs = socket.socketpair()
    box = dict(COURSE)
    serving = Peer(Link(theirs), Things(), COURSE, box, judge=False)
    thread = threading.Thread(target=serving.serve, daemon=True)
    thread.start()
    judge = Peer(Link(ours), Things(), COURSE, dict(COURSE), judge=True)
    judge.box = box
    yield judge
    judge.close()
    thread.join(10)
    assert not thread.is_alive()


def of_the_box(rooms, **things):
    rooms.box.update(things)
    found = [value for (value,) in rooms.ask_names(list(things))]
    return found[0] if len(found) == 1 else found


def notebook(fn):
    """As a function of a cell."""
    fn.__module__ = "__main__"
    return fn


def test_a_function_is_called_in_the_box_and_looks_like_itself(rooms, capsys):
    def double(x: float, times=2):
        """Doubles."""
        print("doubling")
        return x * times

    stand_in = of_the_box(rooms, double=double)
    assert stand_in is not double and stand_in.__doc__ == "Doubles." and stand_in.__name__ == "double"
    assert str(__import__("inspect").signature(stand_in)) == "(x, times=2)"
    assert stand_in(3) == 6 and stand_in(x="a", times=3) == "aaa"
    assert of_the_box(rooms, double=double) is stand_in
    assert rooms.ask_names(["nothing"]) == [[]]
    assert capsys.readouterr().out.count("doubling") == 2


def test_what_a_function_changes_of_its_arguments_is_changed_here(rooms):
    def change(values, table, array, box):
        values.append(4)
        values[0].append(9)
        table.pop("a")
        array[0] = 7
        box.inside = 5

    values, table, array, box = [[1], 2], {"a": 1, "b": 2}, np.zeros(2), Box(1)
    inner = values[0]
    of_the_box(rooms, change=change)(values, table, array, box)
    assert (values, table, array.tolist(), box.inside) == ([[1, 9], 2, 4], {"b": 2}, [7, 0], 5) and values[0] is inner
    donate = of_the_box(rooms, donate=jax.jit(lambda x: x + 1, donate_argnums=0))
    x = jnp.ones(4)
    assert donate(x).tolist() == [2] * 4 and x.is_deleted()


def test_of_a_deleted_array_type_and_shape_are_left(rooms):
    def gone(dtype, *shape):
        array = jax.random.key(0) if dtype == "key" else jnp.zeros(shape, dtype)
        array.delete()
        return array

    gone = of_the_box(rooms, gone=gone)
    for dtype, shape in (("float32", (2, 3)), ("bfloat16", ()), ("int4", (5,))):
        array = gone(dtype, *shape)
        assert (array.is_deleted(), array.dtype, array.shape) == (True, jnp.dtype(dtype), shape)
    assert gone("key").is_deleted()
    with jax.enable_x64(True):
        wide = gone("float64", 1)
    assert wide.is_deleted() and wide.dtype == np.float64
    too_large = Unpack([], refuse, names.harmless, COURSE).unpack({"is": "deleted", "dtype": "int8", "shape": [2**40]})
    assert too_large.is_deleted() and too_large.shape == ()


def test_a_namespace_crosses_by_its_attributes_and_lends_its_functions(rooms):
    seen = []

    def use(machine):
        machine.done = machine.run(machine.rate)
        machine.rates.append(9)
        return SimpleNamespace(again=lambda x: machine.run(x) + 1, rate=7)

    rates = [1]
    machine = SimpleNamespace(run=notebook(lambda x: seen.append(x) or 2 * x), rate=3, rates=rates)
    found = of_the_box(rooms, use=use)(machine)
    assert (machine.done, rates, type(found), found.rate) == (6, [1, 9], SimpleNamespace, 7) and machine.rates is rates
    assert found.again(5) == 11 and seen == [3, 5]
    itself = SimpleNamespace()
    itself.itself = itself
    assert of_the_box(rooms, itself=itself).itself is of_the_box(rooms, itself=itself)


def test_a_function_of_the_check_is_called_back_and_its_own_error_comes_home(rooms):
    class Mine(Exception):
        pass

    seen, mine = [], Mine("mine")

    @notebook
    def note(x):
        seen.append(x)
        if x > 2:
            raise mine
        return x + 1

    def use(f, x):
        return f(f(x))

    stand_in = of_the_box(rooms, use=use)
    assert stand_in(note, 1) == 3 and seen == [1, 2]
    with pytest.raises(Mine) as caught:
        stand_in(note, 5)
    assert caught.value is mine
    assert of_the_box(rooms, same=lambda f: f)(note) is note


def test_a_closure_a_generator_and_an_object_of_the_answer_stay_there(rooms):
    class Account:
        rate = 2

        def __init__(self):
            self._secret = 1

        def __len__(self):
            return 3

        def pay(self, x):
            return x * self.rate

    def make(n):
        return lambda x: x + n

    def count():
        yield from range(3)

    make, count, account = of_the_box(rooms, make=make, count=count, account=Account())
    assert make(3)(4) == 7 and list(count()) == [0, 1, 2]
    assert account.pay(4) == 8 and account.rate == 2 and len(account) == 3 and type(account).__name__ == "Account"
    with pytest.raises(AttributeError):
        account._secret  # noqa: B018


def test_what_cannot_cross_and_what_is_only_a_handle_is_noted(rooms):
    class Own:
        size = 3

    give, takes, pairs = of_the_box(rooms, give=lambda *_: Own(), takes=lambda x: x, pairs=lambda: iter([1]))
    assert (takes(3), takes([1.0]), rooms.uncrossed) == (3, [1.0], "")
    given = give()
    assert rooms.uncrossed == "an object of type Own"
    rooms.begin_check()
    assert rooms.uncrossed == "" and given.size == 3 and rooms.uncrossed == "an object of type Own"
    rooms.begin_check()
    with pytest.raises(AnswerStopped, match="CannotCross: module"):
        takes(sys)
    assert "module" in rooms.uncrossed
    rooms.begin_check()
    pairs()
    assert rooms.uncrossed == "an object of type list_iterator"


def test_errors_cross_by_name_and_a_stub_is_not_begun(rooms):
    def stub():
        raise NotImplementedError(STUB)

    def fails(kind):
        raise kind("no", 1)

    class Own(Exception):
        def _render_traceback_(self):
            return []

    def own():
        raise Own("quiet")

    def leaves():
        raise SystemExit

    stub, fails, own, leaves = of_the_box(rooms, stub=stub, fails=fails, own=own, leaves=leaves)
    with pytest.raises(NotBegun, match="stub is not begun"):
        stub()
    with pytest.raises(KeyError) as caught:
        fails(KeyError)
    assert caught.value.args == ("no", 1)
    for quiet in (own, leaves):
        with pytest.raises(AnswerStopped):
            quiet()
    with pytest.raises(AnswerStopped):
        of_the_box(rooms, same=lambda x: x)(sys)


def test_an_error_arises_where_it_arose(rooms, request):
    """Whose frame is the innermost one, and whether the notebook has a `raise` on the way."""

    def by_jax(x):
        return 1 if x > 0 else 2

    def own(x):
        raise jax.errors.TracerBoolConversionError(x)

    def again(x):
        try:
            return bool(x)
        except Exception as error:
            raise error

    def plain(x):
        return [][0]

    request.addfinalizer(lambda: jax.config.update("jax_traceback_filtering", "auto"))
    jax.config.update("jax_traceback_filtering", "off")  # otherwise frames of JAX's may be hidden, in either kernel
    rooms.box.update(jax=jax)
    own, again = (FunctionType(fn.__code__, rooms.box) for fn in (own, again))
    found = []
    for stand_in in of_the_box(rooms, by_jax=by_jax, own=own, again=again, plain=plain):
        with pytest.raises(Exception) as caught:
            jax.jit(stand_in)(1.0)
        frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
        notebooks = any(frame.f_globals is rooms._notebook for frame in frames)
        found.append((type(caught.value).__name__, frames[-1].f_globals.get("__name__"), notebooks))
    bool_error, here = "TracerBoolConversionError", "autograder.doors.judge.peer"
    assert found == [(bool_error, "jax", False), (bool_error, None, True), (bool_error, "jax", True),
                     ("IndexError", here, False)]  # fmt: skip


@pytest.mark.parametrize(
    "arose", [3, [3], [["jax"]], ["os"], ["jax", "jax", "notebook", "jax"], {"jax": 1}, ["_shell"]]
)
def test_no_error_arises_elsewhere(arose):
    judge = hostile([{"error": {"module": "builtins", "name": "KeyError", "text": "x", "arose": arose}}])
    with pytest.raises(KeyError) as caught:
        judge.ask_thing(1, "call", (), {})
    names_of = {frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(caught.value.__traceback__)}
    assert names_of <= {__name__, "jax", peer.__name__, "autograder.doors.judge.errors"}


def test_settings_of_jax_go_along(rooms):
    ones = of_the_box(rooms, ones=lambda: jnp.ones(2, float))
    with jax.enable_x64(True):
        assert ones().dtype == np.float64
    assert ones().dtype == np.float32


# --- a box that is hostile ---


def hostile(rooms_messages):
    """The judge's end of a link on which these messages arrive, whatever is asked."""
    ours, theirs = socket.socketpair()
    for message in rooms_messages:
        Link(theirs).send(message, [])
    judge = Peer(Link(ours), Things(), COURSE, dict(COURSE), judge=True)
    judge._other = theirs
    return judge


REPLIES = [
    {},
    {"value": {"is": "yours", "number": 1}},
    {"value": {"is": "lent", "number": "1"}},
    {"error": 3},
    {"error": {}},
    {"value": {"is": "list", "v": []}, "after": [3]},
    {"error": {"module": "builtins", "name": "exec", "text": "x"}},
    {"error": {"module": "builtins", "name": "KeyboardInterrupt", "text": "x"}},
    {"error": {"yours": 77}},
]


@pytest.mark.parametrize("reply", REPLIES, ids=json.dumps)
def test_no_reply_makes_more_than_an_error(reply):
    judge = hostile([{"values": [[{"is": "lent", "number": 1}]]}, reply])
    ((thing,),) = judge.ask_names(["f"])
    with pytest.raises(Exception) as caught:
        for _ in range(2):
            assert judge.ask_thing(1, "call", (), {}) is not None
            thing()
    assert isinstance(caught.value, Exception)


def test_the_box_can_ask_for_nothing_but_what_was_lent():
    """Each question is answered with an error, and the check goes on."""

    class Mine:
        shown, _hidden = 1, 2

    Mine.__module__ = "__main__"

    @notebook
    def call(x):
        return x

    def ask(number, what, *args):
        return {"ask": "thing", "number": number, "what": what, "args": {"is": "tuple", "v": list(args)},
                "keywords": {"is": "dict", "v": []}}  # fmt: skip

    questions = [ask(1, "attribute", name) for name in ("__globals__", "__code__", "_hidden", "f_globals", "", 3)]
    questions += [ask(2, "attribute", name) for name in ("_hidden", "__class__", "__dict__", "mro")]
    questions += [ask(2, what) for what in ("call", "repr", "enter", "exit", "add", "__call__", None)]
    questions += [ask(77, "call"), ask("1", "call"), ask(True, "call"), ask(None, "attribute", "x"), {"ask": "names"}]
    questions += [{"ask": "exec"}, {"ask": "thing"}, {"ask": "names", "args": {"is": "tuple", "v": []}, "keywords": 3}]
    judge = hostile([*questions, {"value": 5}])
    assert judge.ask_thing(9, "call", (call, Mine()), {}) == 5
    answers = [Link(judge._other).receive()[0] for _ in range(len(questions) + 1)][1:]
    assert [answer for answer in answers if "error" not in answer] == []


def test_calls_without_end_are_stopped(rooms):
    @notebook
    def again(f):
        return f(again, f)

    with pytest.raises(RecursionError):
        of_the_box(rooms, f=lambda back, f: back(f))(again, rooms._things.borrowed[1])


def test_only_things_of_the_notebook_are_lent():
    for thing in (np.random.default_rng(0), open, getattr, np.load, jax.jit(np.sin), threading.Lock(), [].sort):
        assert not may_be_lent(thing) or names.name_of(thing)
    assert may_be_lent([].append) and may_be_lent(notebook(lambda: 1))


# --- programs and code ---

FLOAT = {"shape": [], "dtype": "float32", "weak": True}
NOTHING: dict = {"consts": [], "constants": [], "inputs": [FLOAT], "equations": [], "outputs": [0]}


def loss(w, x):
    @jax.checkpoint
    def layer(h, _):
        return jax.nn.relu(h @ w) + jax.nn.gelu(h), h.sum()

    last, sums = jax.lax.scan(layer, x, None, length=2)
    return jnp.where(last > 0, last, -last).mean() + jax.lax.cond(sums[0] > 0, jnp.sin, jnp.cos, sums[1])


def test_what_jax_traces_is_the_answers_own_program(rooms):
    f, w, x = of_the_box(rooms, loss=notebook(loss)), jnp.eye(3) * 0.5, jnp.arange(6.0).reshape(2, 3)
    for wrap in (jax.jit, jax.grad, jax.value_and_grad, lambda f: jax.vmap(f, (None, 0))):
        for here, there in zip(*(jax.tree.leaves(wrap(g)(w, x)) for g in (f, loss)), strict=True):
            np.testing.assert_allclose(here, there, rtol=1e-5)
    names_of = [[str(eqn.primitive) for eqn in jax.make_jaxpr(g)(w, x).eqns] for g in (f, loss)]
    assert names_of[0] == names_of[1] and rooms.programs >= 4  # JAX keeps what it has traced


def test_a_tracer_that_an_answer_has_kept_arrives_as_one(rooms):
    kept = []
    keep = jax.jit(notebook(lambda x: [kept.append(x), 2 * x][1]))
    keep, what = of_the_box(rooms, keep=keep, what=lambda: {"kept": kept[0]})
    assert keep(np.ones(3, np.float16)).tolist() == [2, 2, 2]
    found = what()["kept"]
    assert is_tracer(found) and (found.shape, found.dtype) == ((3,), np.float16)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        found + 1
    with pytest.raises(CheckFailed, match="the table is a tracer of float16"):
        assert_allclose(found, np.ones(3, np.float16), name="the table")
    rooms.box["kept"] = kept
    assert rooms.ask_names(["kept"]) == [[]]


@pytest.mark.parametrize("form", [{}, {"shape": [-1], "dtype": "float32"}, {"shape": [1]}, {"shape": [1], "key": 3}])
def test_what_is_no_type_is_no_tracer(form):
    judge = hostile([{"value": {"is": "left"} | form}])
    with pytest.raises(Unreadable):
        judge.ask_thing(1, "call", (), {})


def test_a_reduction_by_a_function_of_its_own_crosses(rooms):
    def both(x, y):
        return x[0] + y[0], jnp.maximum(x[1], y[1] * 2)

    def sums(x):
        most = jax.lax.reduce(x, np.float32(1), lambda a, b: a * b + a, (0,))
        return most, jax.lax.reduce((x, 2 * x), (np.float32(0), np.float32(-1)), both, (0, 1))

    f, x = of_the_box(rooms, sums=notebook(sums)), jnp.arange(6.0).reshape(2, 3)
    for here, there in zip(*(jax.tree.leaves(jax.jit(g)(x)) for g in (f, sums)), strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-6)
    names_of = [[str(eqn.primitive) for eqn in jax.make_jaxpr(g)(x).eqns] for g in (f, sums)]
    assert names_of[0] == names_of[1] and names_of[0].count("reduce") == 2


def solved(x, scale):
    """By conjugate gradients, and by a search of its own for an equation that is not symmetric."""
    tilted = jnp.eye(3) + jnp.float32([[0, 1, 0], [0, 0, 1], [0, 0, 0]]) * scale

    def search(matrix, b):
        return jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, b - (matrix(s[1]) - s[1])), (0, b))[1]

    symmetric = jax.scipy.sparse.linalg.cg(lambda v: (2 + scale) * v, jnp.sin(x))[0]
    return (symmetric * jax.lax.custom_linear_solve(lambda v: tilted @ v, x, search, search)).sum()


def test_a_linear_equation_that_is_solved_in_a_program_has_its_derivatives(rooms):
    f, x = of_the_box(rooms, f=notebook(solved)), jnp.arange(3.0)
    scale = jnp.float32([0.5, 2])
    for wrap in (jax.jit, jax.grad, lambda f: jax.grad(f, 1), jax.jacfwd):
        wrap = lambda f, wrap=wrap: jax.vmap(wrap(f), (None, 0))  # noqa: E731
        np.testing.assert_allclose(wrap(f)(x, scale), wrap(solved)(x, scale), rtol=1e-5)
    assert show_jaxpr(f, x, 0.5).primitives == show_jaxpr(solved, x, 0.5).primitives


def search(x):
    """The cube root, which has no way back of its own; x: float32[]."""
    return jax.lax.fori_loop(0, jnp.where(x > 0, 40, 41), lambda _, y: y - (y - x / y**2) / 3, x)


@jax.custom_jvp
def root(x):
    return search(x)


@root.defjvp
def root_rule(primals, tangents):
    y = root(*primals)
    return y, tangents[0] / (3 * y**2)


@jax.custom_vjp
def root_back(x, times):
    return search(x) * times


def root_back_there(x, times):
    return root_back(x, times), (x, times)


def root_back_again(kept, slope):
    x, times = kept
    return slope * times / (3 * root_back(x, 1) ** 2), None


root_back.defvjp(root_back_there, root_back_again)
DERIVATIVES = [2 ** (1 / 3), 2 ** (-2 / 3) / 3, -(2 ** (-5 / 3)) * 2 / 9, 2 ** (-8 / 3) * 10 / 27]


def root_by_jax(x):
    return jax.lax.custom_root(lambda y: y**3 - x, x, lambda f, y: search(x), lambda g, y: y / g(1.0))


@pytest.mark.parametrize(
    "fn", [lambda x: root(x), lambda x: root_back(x, 3) / 3, root_by_jax], ids=["jvp", "vjp", "root"]
)
def test_a_rule_of_differentiation_is_asked_for_as_often_as_jax_differentiates(rooms, fn):
    here, found = of_the_box(rooms, fn=notebook(fn)), []
    for expected in DERIVATIVES:
        found.append(jax.jit(here)(2.0))
        np.testing.assert_allclose(found[-1], expected, rtol=1e-5)
        here = jax.grad(here)
    asked = rooms.programs
    jax.make_jaxpr(jax.vmap(of_the_box(rooms, fn=fn)))(jnp.ones(2))
    assert rooms.programs == asked + 1  # without a rule

    def nth(g, n):
        for _ in range(n):
            g = jax.grad(g)
        return float(jax.jit(g)(2.0))

    kept = []  # so that the function stays in the judge
    mine = notebook(lambda x: kept.append(1) or fn(x))
    assert [of_the_box(rooms, nth=nth)(mine, n) for n in range(4)] == [float(value) for value in found] and kept


def test_a_rule_that_is_lent_computes_and_does_nothing_else(rooms):
    rule = programs.Rule(lambda *values: list(values))
    assert may_be_lent(rule) and not may_be_read(rule, "_run") and not may_be_read(rule, "run")


def kept_apart(policy):
    def f(x):
        layer = lambda x: checkpoint_name(jnp.sin(checkpoint_name(jnp.cos(x), "inner")), "outer")  # noqa: E731
        return jax.checkpoint(lambda x: jnp.sin(layer(x) @ layer(x)), policy=policy)(x).sum()

    return notebook(f)


saving = jax.checkpoint_policies
POLICIES = [saving.everything_saveable, saving.nothing_saveable, saving.dots_saveable, None]
POLICIES += [saving.dots_with_no_batch_dims_saveable, saving.save_only_these_names("outer", "inner")]
POLICIES += [saving.save_only_these_names("inner"), saving.save_any_names_but_these("inner")]


@pytest.mark.parametrize("policy", POLICIES, ids=range(len(POLICIES)))
def test_a_checkpoint_keeps_what_it_kept(rooms, policy):
    f, own, x = of_the_box(rooms, f=kept_apart(policy)), kept_apart(policy), jnp.eye(3)
    gradients = [show_jaxpr(jax.grad(g), x).primitives for g in (f, own)]
    assert gradients[0] == gradients[1]
    np.testing.assert_allclose(jax.grad(f)(x), jax.grad(own)(x), rtol=1e-5)


def test_a_policy_of_ones_own_cannot_cross(rooms):
    f = of_the_box(rooms, f=kept_apart(lambda *_, **__: True))
    with pytest.raises(AnswerStopped, match="a policy of one's own"):
        jax.grad(f)(jnp.eye(3))


def test_a_program_with_a_callback_or_an_effect_cannot_cross(rooms):
    def calls(x):
        return jax.pure_callback(np.sin, x, x)

    def tells(x):
        io_callback(print, None, x)
        return x

    for stand_in in of_the_box(rooms, calls=calls, tells=tells):
        with pytest.raises(AnswerStopped, match="cannot be handed"):
            jax.jit(stand_in)(1.0)


def test_what_is_printed_from_within_a_program_is_seen_and_not_shown(rooms, capsys):
    def prints(x):
        jax.debug.print("{}", x)
        return jax.lax.fori_loop(0, 3, lambda i, y: (jax.debug.callback(print, y), y + i)[1], x)

    stand_in = of_the_box(rooms, prints=prints)
    tape = jax.make_jaxpr(stand_in)(1.0)
    assert str(tape).count("debug_callback[") == 2
    assert jax.jit(stand_in)(1.0) == 4 and jax.jit(jax.vmap(stand_in))(jnp.ones(2)).tolist() == [4, 4]
    assert jax.grad(stand_in)(1.0) == 1
    jax.effects_barrier()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "program",
    [None, {}, {"consts": [], "constants": [], "inputs": [], "equations": [], "outputs": []},
     *({"consts": [], "constants": [], "inputs": [{}], "outputs": [1],
        "equations": [{"inputs": [0], "made": [True], **eqn}]} for eqn in (
        {"do": "pure_callback", "params": {}}, {"do": "outfeed", "params": {}}, {"do": "sin"},
        {"do": ["sin"], "params": {}},
        {"do": "sin", "params": {"accuracy": {"is": "choice", "of": ["os", "system"], "v": "x"}}},
        {"do": "sin", "params": {"x": {"is": "numbers", "of": ["jax._src.core", "Jaxpr"], "v": []}}},
        {"do": "reduce", "body": {}, "dimensions": ["0"]},
        {"do": "jit", "name": 3, "body": {}}, {"do": "scan", "body": {}, "num_consts": -1, "num_carry": 0},
        {"do": "jvp", "name": "f", "body": NOTHING, "rule": None},
        {"do": "jvp", "name": "f", "body": NOTHING, "rule": NOTHING},
        {"do": "jvp", "name": "f", "body": NOTHING, "rule": {"is": "yours", "number": 1}},
        {"do": "jvp", "name": "f", "body": NOTHING, "rule": {"is": "named", "v": ["jax.numpy", "sin"]}},
        {"do": "jvp", "name": "f", "body": NOTHING, "rule": {"is": "lent", "number": 8}},
        {"do": "vjp", "name": "f", "body": NOTHING, "rule": [{"is": "lent", "number": 8}]},
        {"do": "checkpoint", "body": NOTHING, "prevent_cse": True},
        *({"do": "checkpoint", "body": NOTHING, "prevent_cse": True, "policy": policy} for policy in (
            "nothing_saveable", ["nothing_saveable"], ["__class__", []], ["save_from_both_policies", []],
            ["offload_dot_with_no_batch_dims", ["a", "b"]], ["nothing_saveable", ["a"]], [["save"], []],
            ["save_only_these_names", [3]], ["save_only_these_names", "names"])),
        {"do": "name", "name": 3}, {"do": "name"},
        {"do": "solve", "counts": [0, 0, 0], "matrix": {}, "solve": {}, "back": None, "symmetric": True},
        {"do": "solve", "counts": [0, 0, -1, 0], "matrix": {}, "solve": {}, "back": {}, "symmetric": 1},
        {"do": "device_put", "params": {}}, {"do": "custom_linear_solve", "params": {}},
        {"do": "add", "params": {}}, {"do": "cond", "params": {"branches": {"is": "tuple", "v": [3]}}}))],
    ids=json.dumps,
)  # fmt: skip
def test_what_is_no_program_is_an_error(program):
    judge = hostile([{"values": [[{"is": "lent", "number": 1, "about": {"function": True}}]]},
                     {"value": {"is": "traced", "slot": 0}, "program": program}])  # fmt: skip
    ((stand_in,),) = judge.ask_names(["f"])
    with pytest.raises(Exception) as caught:
        jax.jit(stand_in)(1.0)
    assert isinstance(caught.value, Exception)


def test_a_function_of_the_check_runs_in_the_box_unless_the_check_looks_at_what_it_keeps(rooms):
    seen, factor = [], 3.0

    @notebook
    def pure(x):
        return x * factor

    @notebook
    def counts(x):
        seen.append(1)
        return x * factor

    jit_it = of_the_box(rooms, jit_it=lambda f: jax.jit(f)(2.0))
    assert float(jit_it(pure)) == 6 and float(jit_it(counts)) == 6
    assert len(seen) == 1  # traced, here
    assert of_the_box(rooms, where=lambda f: f.__code__.co_name)(pure) == "pure"
    assert of_the_box(rooms, where=lambda f: f.__code__.co_name)(counts) == "made"


def test_the_name_of_an_attribute_is_none_that_a_function_finds_in_its_check():
    def found(fn):
        return sources.captured(FunctionType(fn.__code__, {"shape": [1], "size": 3}), ())

    assert found(lambda x: (x.shape, lambda y: y.shape)) == {}
    assert found(lambda x: x.shape + size) == {"size": 3}  # noqa: F821
    assert found(lambda x: lambda: shape) is None  # noqa: F821


# Each would have run code in the judge, or would have shown and written its memory.
TUPLE, DICT, MEMORY = {"is": "tuple", "v": []}, {"is": "dict", "v": []}, {"is": "named", "v": ["numpy", "ndarray"]}
PARTIAL = {"is": "partial", "v": [{"is": "named", "v": ["jax.numpy", "ones"]}, TUPLE, DICT]}
PARAMETERS = [{"is": "namespace", "v": [["seed", PARTIAL]]}, PARTIAL, {"is": "named", "v": ["jax.numpy", "sin"]}]
PARAMETERS += [{"is": "lent", "number": 1, "about": {}}]


@pytest.mark.parametrize("form", PARAMETERS, ids=["namespace", "partial", "function", "lent"])
@pytest.mark.parametrize("within", [False, True])
def test_a_primitive_is_given_nothing_that_it_could_call(form, within):
    form = {"is": "tuple", "v": [form]} if within else form
    judge = hostile([{"value": None}])
    with pytest.raises(Unreadable):
        programs._param_of(form, programs.Reader({"boxes": []}, judge._unpack([])), [], {})


def test_no_memory_is_named_and_no_partial_writes_to_what_it_is_called_with():
    times = {"is": "partial", "v": [{"is": "named", "v": ["numpy", "multiply"]}, {"is": "tuple", "v": [0, 0]}, DICT]}
    for form in (MEMORY, times):
        judge = hostile([{"value": form}])
        with pytest.raises(Unreadable):
            judge.ask_thing(1, "call", (), {})


def test_an_object_of_an_answer_has_the_methods_of_its_class():
    class Tape:
        def play(self):
            return 1

    Tape.__module__ = "__main__"
    form = {"is": "object", "of": "Tape", "v": [["play", {"is": "named", "v": ["builtins", "len"]}]]}
    with pytest.raises(Unreadable, match="in the place of a method"):
        Unpack([], refuse, names.harmless, {"Tape": Tape}).unpack(form)


def test_a_loop_of_the_check_is_not_ended_by_an_answer(rooms):
    def stops(x):
        raise StopIteration

    f = of_the_box(rooms, stops=notebook(stops))
    with pytest.raises(RuntimeError, match="StopIteration"):
        all(map(f, [1, 2]))


def test_an_object_of_an_answer_equals_no_array(rooms):
    class Always:
        def __eq__(self, other):
            return True

        def __array_ufunc__(self, *what, **more):
            return np.True_

    made = of_the_box(rooms, always=lambda: Always())()
    for left, right in ((made, np.ones(2)), (np.ones(2), made), (made, np.float64(1)), (np.float64(1), made)):
        assert not np.all(left == right) and np.all(left != right)


def test_the_judge_takes_no_code():
    for kind in ("code", "module"):
        judge = hostile([{"value": {"is": kind, "number": 1, "v": "os"}}])
        with pytest.raises(Unreadable):
            judge.ask_thing(1, "call", (), {})


def test_traces_are_counted_where_the_function_runs(rooms):
    step, slow = of_the_box(rooms, step=jax.jit(notebook(lambda x: x + 1)), slow=lambda x: jax.jit(lambda y: y * 2)(x))
    watch_functions.observed_elsewhere.append(rooms._things.observer)
    try:
        with trace_log(step) as log:
            step(1.0)
            log.call(step, 2.0)
        assert log.traces == 1 and log.reasons == ["first call"] and log.rows[0].outcome == "hit"
        with assert_max_traces(step, 1):
            step(1.0), step(2.0)
        with pytest.raises(CheckFailed, match="was traced twice") as caught, assert_max_traces(step, 1):
            step(1.0), step(np.ones(2))
        assert caught.value.happened.startswith("<lambda> was traced")
        with pytest.raises(KeyError), assert_max_traces(slow, 0):
            raise KeyError
    finally:
        watch_functions.observed_elsewhere.clear()


@notebook
def repeated(x, y, times=2):
    for _ in range(times):
        x = jax.nn.relu(x) * y + jax.lax.fori_loop(0, 3, lambda _, z: z / 2, x)
    return {"x": x}


@pytest.mark.parametrize(
    ("made", "numbers", "kind"),
    [
        (jax.jit(repeated), (), "jitted"),
        (jax.jit(repeated, static_argnames="times"), (3,), "jitted"),
        (repeated, (3,), "not jitted"),
        (lambda x, y: {"x": jax.jit(repeated)(x, y)["x"] + 1}, (), "not jitted"),
    ],
)
def test_a_candidate_is_timed_as_its_program_in_the_form_that_it_has(rooms, made, numbers, kind):
    x, y = np.linspace(0, 1, 5, dtype=np.float32), jnp.float32(3)
    stand_in = of_the_box(rooms, made=made)
    here = rooms._things.candidate(stand_in, (x, y, *numbers))
    assert is_jitted(here) == (kind == "jitted")
    static = candidates.static_arguments(made, x, y, *numbers)
    assert static == (None if kind == "not jitted" else [2] if numbers else [])
    if kind == "not jitted":
        here = functions.loads(functions.dumps(here))  # as in the measuring process, in which there is no link
    for more in (0, 1):
        np.testing.assert_allclose(here(x + more, y, *numbers)["x"], made(x + more, y, *numbers)["x"], rtol=1e-6)


def body(_, z):
    return z / 2


jitted_once = jax.jit(lambda x: x * 3)


@pytest.mark.parametrize(
    ("of_one_call", "anew"),
    [
        (lambda x: jitted_once(x) + jax.lax.fori_loop(0, 3, body, x) + jax.lax.cond(x > 1, jnp.sin, jnp.cos, x), False),
        (lambda x: jax.jit(lambda x: x * 3)(x), True),
        (lambda x: jax.lax.fori_loop(0, 3, lambda i, z: z / 2 + x, x), True),
    ],
    ids=["as it was", "jitted in each call", "defined in each call"],
)
def test_what_a_call_defines_or_jits_is_traced_in_each_call(rooms, of_one_call, anew):
    assert set(candidates.traced_anew(of_one_call, 2.0 * np.ones(()))) == {anew}
    x, heard = jnp.float32(2), []
    here = rooms._things.candidate(of_the_box(rooms, f=notebook(of_one_call)), (x,))
    for _ in range(2):
        np.testing.assert_allclose(here(x), of_one_call(x), rtol=1e-6)

    def hear(event, seconds, **more):
        heard.append(event)

    jax.monitoring.register_event_duration_secs_listener(hear)
    try:
        here(x)
    finally:
        jax.monitoring.unregister_event_duration_listener(hear)
    assert (COMPILE_EVENT in heard) == anew


def test_a_candidate_of_the_judges_own_is_what_it_is(rooms):
    assert rooms._things.candidate(repeated, ()) is None


@pytest.mark.parametrize("said", [3, [7], ["0"], [True], {"is": "tuple", "v": [0]}])
def test_what_the_box_says_of_static_arguments_is_read_with_care(said):
    with pytest.raises(Unreadable, match="no arguments"):
        form = said if isinstance(said, dict | int) else {"is": "list", "v": said}
        judge = hostile([{"value": form}])
        candidates.of_this_process(notebook(lambda x: x), (1.0,), judge.ask_instrument)


def test_modules_are_counted_where_the_function_runs(rooms):
    whole, apart = of_the_box(rooms, whole=jax.jit(lambda x: jnp.sin(x) + 1), apart=lambda x: jnp.sin(x) + 1)
    judge = threading.current_thread()  # both kernels are one process here, and only one of the two asks

    def observer(*fn):
        return rooms._things.observer(*fn) if threading.current_thread() is judge else None

    watch_functions.observed_elsewhere.append(observer)
    try:
        assert_hlo(whole, np.ones(3, np.float32), modules=1)
        with pytest.raises(CheckFailed, match="builds 2 XLA modules"):
            assert_hlo(apart, np.ones(3, np.float32), modules=1)
        assert rooms.counted == 2
    finally:
        watch_functions.observed_elsewhere.clear()


def test_without_a_function_all_that_runs_in_the_box_is_counted_and_nothing_that_travels(rooms):
    doubled, facts = of_the_box(rooms, doubled=jax.jit(notebook(lambda x: x * 2)), facts=lambda tape: len(tape.eqns))
    tape = jax.make_jaxpr(lambda x: jax.jit(jnp.sin)(x) + jax.nn.relu(x))(jnp.ones(3))
    watch_functions.observed_elsewhere.append(rooms._things.observer)
    try:
        with trace_log() as log:
            assert facts(tape) == 3
        assert (log.traces, log.modules) == (0, [])
        with trace_log() as log:
            doubled(np.ones(3)), doubled(np.ones(3))
        # Here both kernels are one process, so either log hears it.
        assert log.traces == log.compiles == 2 and "lambda" in log.modules[0] and log.seconds["compile"] > 0
    finally:
        watch_functions.observed_elsewhere.clear()


def test_a_function_with_static_arguments_is_traced_where_it_is_jitted_and_its_program_comes(rooms):
    def power(x, fn, n):
        for _ in range(n):
            x = fn(x) * x
        return x

    plain, jitted = of_the_box(rooms, plain=power, jitted=jax.jit(power, static_argnames=("fn", "n")))
    args, own = (np.ones(4, np.float32), notebook(lambda x: jnp.sin(x) + 1), 3), jax.jit(power, static_argnums=(1, 2))
    watch_functions.observed_elsewhere.append(rooms._things.observer)
    try:
        found = show_jaxpr(jitted, *args)
        assert found.primitives == show_jaxpr(own, *args).primitives and found.flops == show_jaxpr(own, *args).flops
        assert (rooms.programs, rooms.counted) == (1, 0)
        assert show_hlo(jitted, *args).ops == show_hlo(own, *args).ops
        assert show_hlo(jitted, *args).module.name == "jit_power" and rooms.counted == 0
        assert float(jitted(*args)[0]) == float(own(*args)[0])
        with pytest.raises(TypeError):
            show_jaxpr(plain, *args)  # a function is no array
    finally:
        watch_functions.observed_elsewhere.clear()


NO_PROGRAMS = [3, None, {"is": "named", "v": ["jax.numpy", "sin"]}, {"is": "jaxpr", "closed": True}]


@pytest.mark.parametrize("value", NO_PROGRAMS, ids=json.dumps)
def test_what_is_no_program_is_no_trace(value):
    judge = hostile([{"values": [[{"is": "lent", "number": 1}]]}, {"value": value}])
    ((stand_in,),) = judge.ask_names(["f"])
    with pytest.raises(Unreadable):
        judge.ask_instrument("trace", stand_in, 3)


@pytest.mark.parametrize("events", [None, 3, [1], [["f", 1.0]], [["f", "x", 1.0]], {"a": 1}], ids=json.dumps)
def test_events_that_are_none_are_an_error(events):
    class Elsewhere:
        def heard(self, event):
            return events

    with pytest.raises((TypeError, ValueError)):
        TraceLog(elsewhere=Elsewhere()).modules  # noqa: B018


def test_an_object_of_an_answer_equals_nothing_that_a_check_expects(rooms):
    class Always:
        def __eq__(self, other):
            return True

    always = of_the_box(rooms, always=Always())
    assert always != 4 and always != [1] and always == always


# --- what is one object stays one ---


def test_an_array_is_the_same_object_each_time_and_holds_what_the_check_has_written(rooms):
    seen = []

    def remember(array):
        seen.append(array)
        return array

    remember, held, other = of_the_box(rooms, remember=remember), np.zeros(2), np.zeros(2)
    assert remember(held) is held and remember(other) is other
    held += 3
    assert remember(held) is held and [array.tolist() for array in seen] == [[3, 3], [0, 0], [3, 3]]
    assert seen[0] is seen[2] and seen[0] is not seen[1]
    assert remember(np.ones(1)) is not remember(np.ones(1))
    del other
    remember(held)
    assert len(rooms._same._there) == 1


def test_an_array_that_a_function_of_the_check_holds_comes_back_as_itself(rooms):
    kept = np.arange(3)
    call = of_the_box(rooms, call=lambda fn: fn())
    assert call(notebook(lambda: kept)) is kept


def test_what_an_answer_keeps_on_an_object_of_the_check_is_what_it_was_handed(rooms):
    def keep(box, array):
        box.inside = (array,), {"y": array + 1}

    keep, box, array = of_the_box(rooms, keep=keep), Box(1), np.zeros(2)
    keep(box, array)
    assert box.inside[0][0] is array and box.inside[1]["y"].tolist() == [1, 1]


def test_arrays_that_change_their_places_keep_what_is_in_them(rooms):
    one, two = np.zeros(2), np.ones(2)
    both = [one, two]

    def swap(pair):
        pair.reverse()
        pair[0][0] = 7

    of_the_box(rooms, swap=swap)(both)
    assert both[0] is two and both[1] is one and (one.tolist(), two.tolist()) == ([0, 0], [7, 1])


def test_only_an_array_that_was_handed_over_is_written_to():
    def form(number, value):
        return {"is": "array", "dtype": "float64", "shape": [2], "part": 0, "number": number}

    def change(*numbers):
        args = {"is": "tuple", "v": [form(number, 0) for number in numbers]}
        return {"value": form(1, 0), "after": {"is": "tuple", "v": [args, {"is": "dict", "v": []}]}}

    ours, theirs = socket.socketpair()
    judge, box = Peer(Link(ours), Things(), {}, {}, judge=True), Link(theirs)
    judge._things.borrow(1, None, judge._things.ask)
    first, second, other = np.zeros(2), np.zeros(2), np.arange(2.0)
    for args, reply, found in (((first,), change(1), True), ((second,), change(1), False)):
        box.send(reply, [np.ones(2).tobytes()])
        value = judge.ask_thing(1, "call", args, {})
        assert (value is first) is found and value.tolist() == [1, 1]
        first[:] = 0
    assert second.tolist() == [0, 0]
    for number in ("1", [1], None, True, 99, -1):
        box.send({"value": form(number, 0)}, [other.tobytes()])
        assert judge.ask_thing(1, "call", (other,), {}).tolist() == [0, 1]
    judge.close()


def test_a_program_that_stands_in_another_twice_is_one_program(rooms):
    def facts(tape):
        boxes = [eqn.params["jaxpr"] for eqn in tape.eqns if eqn.primitive.name == "jit"]
        return len(boxes), len({id(box) for box in boxes}), len({v for box in boxes for v in box.jaxpr.invars})

    facts = of_the_box(rooms, facts=facts)
    twice, other = jax.jit(lambda v: v * 2), jax.jit(lambda v: v * 2)
    tape = jax.make_jaxpr(lambda v: twice(twice(v)) + other(v))(jnp.ones(3))
    assert facts(tape) == (3, 2, 2)


def test_a_program_is_the_same_object_each_time(rooms):
    def grow(tape):
        tape.eqns.extend(tape.eqns)
        return len(tape.eqns)

    grow, tape = of_the_box(rooms, grow=grow), jax.make_jaxpr(lambda v: v + 1)(1.0)
    assert [grow(tape), grow(tape), grow(jax.make_jaxpr(lambda v: v + 1)(1.0))] == [2, 4, 2]


def test_a_linear_solve_crosses_with_its_programs(rooms):
    def solve(v):
        return jax.lax.custom_linear_solve(lambda w: w * 2, v, lambda _, w: w / 2, lambda _, w: w / 2)

    stand_in = of_the_box(rooms, solve=notebook(solve))
    assert float(jax.jit(stand_in)(3.0)) == 1.5 and float(jax.grad(stand_in)(3.0)) == 0.5
    of_tape = of_the_box(rooms, of_tape=lambda tape: str(tape.eqns[0].params["jaxprs"].solve))
    assert "div" in of_tape(jax.make_jaxpr(solve)(1.0))


# --- callbacks ---


def test_a_callback_of_the_check_runs_in_the_check(rooms):
    order = []

    def looked_on(v):
        return jax.pure_callback(lambda w: (order.append(type(w).__module__), w)[1], v, jax.lax.sin(v))

    def run(tape, x, watch):
        for eqn in tape.eqns:
            results = eqn.primitive.bind(x, **eqn.params)
            (x,) = results if eqn.primitive.multiple_results else [results]
            watch(eqn.primitive.name, x)
        return x

    run, tape = of_the_box(rooms, run=run), jax.make_jaxpr(looked_on)(jnp.ones(3))
    found = run(tape, jnp.ones(3), notebook(lambda name, x: order.append(name)))
    np.testing.assert_allclose(found, np.sin(np.ones(3)), rtol=1e-6)
    assert order[0] == "sin" and order[2] == "pure_callback" and len(order) == 3
    jitted = of_the_box(rooms, jitted=lambda tape, x: jax.jit(jaxpr_as_fun(tape))(x))
    np.testing.assert_allclose(jitted(tape, jnp.ones(3))[0], np.sin(np.ones(3)), rtol=1e-6)


def test_a_callback_takes_arrays_and_nothing_else():
    lent = programs.Callback(lambda *values: values)
    assert lent(jnp.ones(1))[0].tolist() == [1]
    for value in (1.0, "text", np.ones(1), len, [jnp.ones(1)]):
        with pytest.raises(Unreadable):
            lent(value)
    assert not may_be_lent(lent) and not may_be_read(lent, "_fn")


@pytest.mark.parametrize("boxes", [None, 3, [], [{}], [None], {"0": 1}], ids=json.dumps)
@pytest.mark.parametrize("number", [0, 1, -1, True, "0", None, [0]], ids=json.dumps)
def test_what_is_no_inner_program_is_an_error(boxes, number):
    for eqn in ({"do": "jit", "name": [], "box": number},
                {"do": "cond", "params": {"branches": {"is": "tuple", "v": [number]}}}):  # fmt: skip
        whole = {"consts": [], "constants": [], "inputs": [{}], "outputs": [1], "boxes": boxes,
                 "equations": [{"inputs": [0], "made": [True], **eqn}]}  # fmt: skip
        with pytest.raises(Exception) as caught:
            programs.Program(whole, Unpack([], refuse, names.harmless, {}))(jnp.ones(1))
        assert isinstance(caught.value, Exception)


def test_a_program_in_itself_and_a_callback_of_the_box_are_unreadable():
    scalar = {"shape": [], "dtype": "float32", "weak": False}
    call = {"inputs": [0], "made": [True], "do": "jit", "name": "f", "box": 0}
    inside = {"consts": [], "constants": [], "inputs": [scalar], "outputs": [1], "equations": [call]}
    back = {"inputs": [0], "made": [True], "do": "call back", "to": {"is": "lent", "number": 1}, "results": [scalar]}
    for form in (inside | {"boxes": [inside]}, inside | {"equations": [back | {"vmap_method": None}]}):
        with pytest.raises(Unreadable, match="without end|calls back|RecursionError"):
            programs.Program(form, Unpack([], refuse, names.harmless, {}))(jnp.float32(1))


# --- what a check replaces ---


def test_an_answers_name_may_mean_a_function_of_the_check_for_a_while(rooms):
    calls = []
    rooms.box.update(jax=jax, kept=5)
    exec("@jax.jit\ndef step(x):\n    return x + 1\n\ndef fit(x):\n    return float(step(step(x)))\n", rooms.box)
    rooms.box["fit"].__module__ = "__main__"
    theirs = rooms.box["step"]
    here = rooms._notebook
    here.update(zip(("step", "fit"), of_the_box(rooms, step=theirs, fit=rooms.box["fit"]), strict=True), kept=5)
    rooms.begin_check(["step", "fit", "kept"])
    mine = here["step"]
    with jax.no_tracing(False):
        assert here["fit"](1.0) == 3

    @notebook
    def counting(x):
        calls.append(float(x))
        return x * 10

    here.update(step=counting, kept=7)
    assert here["fit"](1.0) == 100 and calls == [1.0, 10.0]
    assert rooms.box["step"] is theirs and rooms.box["kept"] == 5
    here.update(step=sys)  # which has no form, and cannot be called
    assert here["fit"](1.0) == 3
    here["step"] = mine
    with jax.no_tracing(True):  # nothing that was compiled is lost
        assert here["fit"](1.0) == 3


def locked_cell():
    """What a locked cell makes, in one of the two notebooks: a function, one that looks at an attribute, a table."""
    names = {"RATES": {"slow": 1, "fast": 3}, "__name__": "__main__"}
    source = "def brick(x):\n    return x + 1\n\ndef wall(x):\n    return wall.inside(x)\n\nwall.inside = brick\n"
    exec(source, names)
    return names


def test_what_a_check_replaces_is_replaced_in_the_box_while_it_asks():
    ours, theirs = socket.socketpair()
    here, box = locked_cell(), locked_cell()
    serving = Peer(Link(theirs), Things(), here, box, judge=False)
    thread = threading.Thread(target=serving.serve, daemon=True)
    thread.start()
    judge = Peer(Link(ours), Things(), here, here, judge=True)
    judge.box = box
    brick, wall, rates = box["brick"], box["wall"], box["RATES"]
    jitted = jax.jit(lambda x: brick(x))
    answer = of_the_box(judge, answer=lambda x: (int(jitted(x)), wall(x), dict(rates)))
    judge.begin_check()
    usual = (5, 5, {"slow": 1, "fast": 3})
    assert answer(4) == usual
    here["RATES"].update(slow=7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(here["brick"], "__code__", notebook(lambda x: 2 * x).__code__)
        patch.setattr(here["wall"], "inside", notebook(lambda x: -x))
        assert answer(4) == (8, -4, {"slow": 7, "fast": 3})
    here["RATES"].update(slow=1)
    assert answer(4) == usual and rates == {"slow": 1, "fast": 3} and wall.inside is brick
    judge.close()
    thread.join(10)
    assert not thread.is_alive()


# --- what an answer raises, or a notebook holds, that is odd ---


def raises(error):
    def f(x):
        raise error

    return notebook(f)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "invalid start byte"),
        (FileNotFoundError(2, "No such file or directory", "numbers.txt"), "numbers.txt"),
        (ExceptionGroup("both", [ValueError("one"), ValueError("two")]), "both"),
        (KeyError("x"), "'x'"),
    ],
)
def test_an_error_says_here_what_it_says_there(rooms, error, text):
    with pytest.raises(Exception, match=text) as found:
        of_the_box(rooms, f=raises(error))(1)
    assert type(found.value).__name__ in (type(error).__name__, "AnswerStopped")
    assert isinstance(found.value, type(error)) or isinstance(error, ExceptionGroup)


def test_an_interrupt_that_an_answer_raises_itself_is_told_and_the_next_call_is_answered(rooms):
    exec("def f(x):\n    raise KeyboardInterrupt", rooms.box)
    f, g = of_the_box(rooms, f=rooms.box["f"], g=notebook(lambda x: x + 1))
    with pytest.raises(AnswerStopped, match="KeyboardInterrupt"):
        f(1)
    assert g(1) == 2


class Moody:
    """Raises whenever it is looked at."""

    def __getattr__(self, name):
        raise RuntimeError("not now")


@pytest.mark.parametrize(
    "large",
    [list(range(1_000_000)), np.zeros(2**28 // 8 + 1), "x" * 6_000_000, {n: [0.5] * n for n in range(1500)},
     [np.zeros(1) for _ in range(20_000)], Moody()],
    ids=["list", "array", "text", "table", "arrays", "object"],
)  # fmt: skip
def test_a_large_or_odd_value_of_a_notebook_keeps_no_other_from_being_handed_over(rooms, large):
    rooms.box.update(large=large, small=[1, 2])
    _, small = rooms.ask_names(["large", "small"])
    assert small == [[1, 2]]


def test_of_what_a_cell_has_for_itself_functions_and_classes_alone_are_handed_over(rooms):
    class Pair(NamedTuple):
        left: int
        right: int

    Pair.__module__ = "__main__"
    rooms.box.update(Pair=Pair, f=notebook(lambda x: Pair(x, 1)), table=[1, 2], kept=[3])
    kind, f, table, kept = rooms.ask_names(["Pair", "f", "table", "kept"], ["Pair", "f", "table"])
    assert table == [] and kept == [[3]] and kind and tuple(f[0](4)) == (4, 1)


def test_an_error_of_jax_names_the_answer_and_no_file_of_ours(rooms):
    def mean(x):
        return np.asarray(x).mean()

    with pytest.raises(jax.errors.TracerArrayConversionError) as found:
        jax.jit(of_the_box(rooms, mean=mean))(jnp.ones(3))
    assert "the function mean at" in str(found.value) and "peer.py" not in str(found.value)


def test_what_is_built_in_the_box_counts_only_where_the_check_has_called_it(rooms):
    begun, done = threading.Event(), threading.Event()

    def beside():
        begun.wait(60)
        jax.jit(lambda x: x * 3)(np.ones(7))  # by whoever has taken it over
        done.set()

    twice = of_the_box(rooms, twice=lambda x: jax.jit(lambda x: x * 2)(x))
    watch_functions.observed_elsewhere.append(rooms._things.observer)
    try:
        thread = threading.Thread(target=beside)
        thread.start()
        with trace_log() as of_the_check:
            there = of_the_check._elsewhere._inner
            begun.set()
            assert done.wait(60)
        assert there.heard(COMPILE_EVENT) and of_the_check._elsewhere.heard(COMPILE_EVENT) == []
        with trace_log() as of_both:
            twice(np.ones(5))
        assert of_both._elsewhere.heard(COMPILE_EVENT)
    finally:
        watch_functions.observed_elsewhere.remove(rooms._things.observer)
        thread.join(60)


class Ticked(NamedTuple):
    calls: Any
    y: Any


def test_a_named_tuple_of_an_answers_own_is_one_in_the_check(rooms):
    def tick(calls, x):
        return Ticked(calls + 1, x / calls)

    def second(pair):
        return pair.y if type(pair) is Ticked else None

    tick, second = of_the_box(rooms, tick=notebook(tick), second=notebook(second))
    found = tick(1, 4.0)
    assert found == (2, 4.0) and (found.calls, found.y, type(found).__name__) == (2, 4.0, "Ticked")
    assert second(found) == 4.0 and type(tick(2, 1.0)) is type(found)
    calls, y = jax.jit(tick)(jnp.int32(2), jnp.ones(3))
    assert calls == 3 and y.tolist() == [0.5] * 3
    assert jax.tree.leaves(found) == [2, 4.0]


@pytest.mark.parametrize(
    "change",
    [{"name": "a b"}, {"fields": ["_x", "y"]}, {"fields": ["x", "x"]}, {"fields": ["x"]}, {"fields": [1, 2]},
     {"number": "1"}, {"name": None}],
    ids=str,
)  # fmt: skip
def test_no_odd_class_of_named_tuples_is_made_in_the_judge(change):
    form = {"is": "own tuple", "number": 1, "name": "Pair", "fields": ["x", "y"], "v": [1, 2]} | change
    with pytest.raises(Unreadable):
        hostile([{"value": form}]).ask_thing(1, "call", (), {})


def test_a_sum_along_an_axis_of_vmap_crosses(rooms):
    def centred(x):
        return jax.vmap(lambda each: each - jax.lax.pmean(each, "i"), axis_name="i")(x)

    stand_in = of_the_box(rooms, centred=centred)
    assert jax.jit(stand_in)(jnp.arange(3.0)).tolist() == [-1, 0, 1]
