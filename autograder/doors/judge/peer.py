"""Either end of the link: it asks the other kernel for something, and answers while it waits.

One of the two speaks at a time. A call that is asked for may lead to a call back, and so on: each end answers what is
asked until its own question is answered. What either may ask of the other is not the same. The box does whatever the
judge asks of a thing that was lent to it. The judge lends functions and objects of its checks, none of a library's, and
lets the box call these and read their public attributes; of a program's rules of differentiation it lets it call them.
"""

import contextlib
import functools
import inspect
import io
import json
import operator
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from autograder.checks.max_traces import assert_max_traces
from autograder.instruments import read_jaxpr
from autograder.instruments.read_hlo import modules_built
from autograder.instruments.trace_log import TraceLog, unheard

from . import beside, candidates, errors, names, programs, settings, sources
from .changes import changeable, copy_back, given_away
from .identity import Handed, Kept
from .lent import Things, may_be_lent, may_be_read
from .link import LARGEST, LARGEST_TEXT, MOST_PARTS, Link, LinkBroken
from .replaced import Originals, in_place
from .stand_ins import OPERATIONS, Thing
from .values import CannotCross, Pack, Unpack, Unreadable

DEEPEST = 40  # calls back within calls
_BY_THE_BOX = ("len", "item", "next", "iter")  # of what the judge lends


class Peer:
    """One end, for as long as the check runs.

    Arguments:
      link: to the other kernel.
      things: of this kernel.
      released: the names that locked cells bind.
      notebook: the names of this kernel's notebook.
      judge: whether this is the judge's end, which lends and believes less.
    """

    def __init__(self, link: Link, things: Things, released: Collection[str], notebook: dict[str, Any], *, judge: bool):
        self._link, self._things, self._notebook, self._judge = link, things, notebook, judge
        self._released = frozenset(released)
        things.peer = self
        self._same: Handed | Kept = Handed() if judge else Kept()
        self._lock = threading.RLock()  # a callback in a program runs in a thread of its own
        self._deep = 0
        self.broken = ""
        self.uncrossed = ""  # what could not be handed over, the first of it
        self._instruments: set[int] = set()  # the course's, that look at something in the other kernel
        self.originals: Originals | None = None  # of the judge
        self.programs = self.counted = 0  # how many programs have arrived, how many instruments were asked for
        self.calls = 0  # how often something was done with the other kernel's things

    def _course(self) -> dict[str, Any]:
        """The functions and classes of the locked cells."""
        there = {name: self._notebook[name] for name in self._released if name in self._notebook}
        return {name: value for name, value in there.items() if names.is_course_thing(value)}

    # --- asking ---

    @contextlib.contextmanager
    def _noting_what_cannot_cross(self) -> Iterator[None]:
        __tracebackhide__ = True
        try:
            yield
        except (CannotCross, Unreadable) as error:
            self._note_uncrossed(str(error))
            raise

    def _note_uncrossed(self, what: str) -> None:
        self.uncrossed = self.uncrossed or what

    def ask_thing(self, number: int, what: str, args: tuple, keywords: dict[str, Any]) -> Any:
        """What a stand-in is asked for."""
        __tracebackhide__ = True
        tracers: list[Any] = []
        self.calls += what != "attribute"
        self._note_opaque(self._things.borrowed.get(number))
        with self._noting_what_cannot_cross():
            reply, parts = self._asked("thing", args, keywords, tracers, number=number, what=what)
            if tracers:
                self.programs += 1
                results = programs.Program(reply.get("program"), self._unpack(parts))(*tracers)
                return self._unpack(parts, lambda form: results[_slot(form, results)]).unpack(reply.get("value"))
            return self._unpacked(reply.get("value"), parts)

    def ask_instrument(self, name: str, *args: Any) -> Any:
        """An instrument of the course's that looks at a function where it runs. What it counts is the box's word.

        "trace" counts nothing: a program comes, which is looked at here.
        """
        self.programs, self.counted = self.programs + (name == "trace"), self.counted + (name != "trace")
        with self._noting_what_cannot_cross():
            reply, parts = self._asked("instrument", (name, *args), {}, [])
            before, value = self.uncrossed, self._unpacked(reply.get("value"), parts)
        if isinstance(value, Thing):
            self._instruments.add(value._number)
            self.uncrossed = before
        if name == "trace" and not isinstance(value, ClosedJaxpr):
            raise Unreadable("a program is missing")
        return value

    def ask_beside(self, fn: FunctionType, args: tuple, keywords: dict[str, Any]) -> Any:
        """A call of a check's function that is run in the box, beside the answer. What it returns is the box's word.

        Raises `CannotCross` for one that has to stay here.
        """
        __tracebackhide__ = True
        self.counted, self.calls = self.counted + 1, self.calls + 1
        with self._noting_what_cannot_cross():
            if sources.captured(fn, self._released) is None:
                raise CannotCross(f"{fn.__name__} keeps something in the check, and cannot be run beside the answer")
            reply, parts = self._asked("beside", (fn, *args), keywords, [])
            return self._unpacked(reply.get("value"), parts)

    def ask_names(self, wanted: list[str], callable_alone: list[str] | None = None) -> list[Any]:
        """For each name of the other kernel's notebook a list: its value; empty, if it has none that is known here.

        callable_alone: those that are not asked for where they mean anything but a function or a class.
        """
        reply, parts = self._asked("names", (wanted, callable_alone or []), {}, [])
        forms = reply.get("values")
        if type(forms) is not list or len(forms) != len(wanted) or any(type(form) is not list for form in forms):
            raise LinkBroken("the other kernel does not say what its names mean")
        values: list[list[Any]] = [[] for _ in forms]
        for value, form in zip(values, forms, strict=True):
            with contextlib.suppress(Unreadable):  # of a class, for one, whose cell was not run here yet
                value += [self._unpacked(form[0], parts)] if form else []
        return values

    def begin_check(self, answers: Collection[str] = ()) -> None:
        """In the judge: what locked cells have made is as they have made it, and so are these names of the box. What a
        check replaces, the box is told."""
        self.originals = Originals(self._notebook, self._released, answers)
        self.uncrossed = ""  # names that the check does not use are none of its concern

    def settimeout(self, seconds: float | None) -> None:
        """How long the other end may let itself be waited for."""
        self._link.settimeout(seconds)

    def close(self) -> None:
        """The other end serves no more."""
        with contextlib.suppress(LinkBroken, OSError):
            if not self.broken:
                self._link.send({"close": True}, [])
        self._gone()

    def _gone(self) -> None:
        self._link.close()
        self._things.peer = None

    def _asked(
        self, kind: str, args: tuple, keywords: Mapping[str, Any], tracers: list[Any], **fields: Any
    ) -> tuple[dict, list[bytes]]:
        """The reply to a question. What JAX traces among the arguments is put into `tracers`; its types are sent."""
        __tracebackhide__ = True
        fields |= {"ask": kind, "gone": self._same.gone()}
        packer = self._pack(tracers, self._same.number)  # it may wait for a program that calls back, so not yet alone
        with unheard():
            fields |= {"args": packer.pack(args), "keywords": packer.pack(dict(keywords))}
        handed = frozenset(packer.handed)
        if tracers:
            if fields.get("what") != "call":
                raise CannotCross("a value that JAX is tracing can only be handed to a function of an answer")
            fields["what"] = "trace"
        if self._judge:
            fields["settings"] = now = settings.here()
            self.counted += now["jax_no_tracing"] is True  # the box says whether it was kept to
            if self.originals is not None and (other := self.originals.replaced(packer)):
                fields["replaced"] = other
        with self._lock:
            if self.broken:
                raise LinkBroken(self.broken)
            if not self._judge and not self._deep:
                raise LinkBroken("the check has its answer, and listens no more")
            try:
                self._link.send(fields, packer.parts)
                while True:
                    message, parts = self._link.receive()
                    if "ask" not in message:
                        break
                    self._answer(message, parts)
            except ValueError:  # too large: nothing was sent
                raise
            except BaseException as error:
                self.broken = str(error) or type(error).__name__
                raise
        if isinstance(message.get("printed"), str):
            print(message["printed"][: settings.MOST_PRINTED], end="")
        if "error" in message:
            self.counted += bool(tracers)  # the box says what stopped a trace, and who
            self._note_uncrossed(errors.uncrossed(message["error"]))
            theirs = errors.raised(message["error"], self._things.errors, self._course())
            if isinstance(theirs, StopIteration) and fields.get("what") != "next":
                theirs = RuntimeError("a function raised StopIteration")  # which would end a loop of the check's
            raise errors.arisen(theirs, message["error"], self._notebook)
        if (kind == "beside" or fields.get("what") == "call") and message.get("after") is not None:
            now = self._unpack(parts, same=functools.partial(self._same.changed, handed)).unpack(message["after"])
            copy_back((args, keywords), now, self._same.known)
        return message, parts

    # --- answering ---

    def serve(self) -> None:
        """Answer until the other end says that it is done, or is gone."""
        try:
            with contextlib.suppress(LinkBroken):
                while True:
                    message, parts = self._link.receive()
                    if "close" in message:
                        break
                    self._answer(message, parts)
        finally:  # after an interrupt, too
            self._gone()

    def _answer(self, message: dict[str, Any], parts: list[bytes]) -> None:
        self._deep += 1
        try:
            reply, beside = self._answered(message, parts)
        except BaseException:
            self._deep -= 1
            raise
        with self._lock:  # when no other thread waits for an answer
            self._deep -= 1
            try:
                self._link.send(reply, beside)
            except ValueError as error:
                self._link.send({"error": errors.told(CannotCross(str(error)), self._things.keep)}, [])

    def _answered(self, message: dict[str, Any], parts: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        """The reply, which may be an error and what was printed before it."""
        beside: list[bytes] = []
        printed = settings.Printed()
        try:
            if self._deep > DEEPEST:
                raise RecursionError("each kernel calls the other, again and again")
            with contextlib.nullcontext() if self._judge else self._as_in_the_judge(message, parts, printed):
                reply, beside = self._reply(message, parts)
        except BaseException as error:
            if self._judge and not isinstance(error, Exception):
                raise
            if isinstance(error, KeyboardInterrupt) and not errors.raised_here(error, self._notebook):
                raise  # the grader's
            if isinstance(error, CannotCross | Unreadable):
                self._note_uncrossed(str(error))
            reply = {"error": errors.told(error, self._things.keep, None if self._judge else self._notebook)}
        if text := printed.getvalue():
            reply["printed"] = text
        return reply, beside

    @contextlib.contextmanager
    def _as_in_the_judge(self, message: dict[str, Any], parts: list[bytes], printed: io.StringIO) -> Iterator[None]:
        """In the box: JAX's settings are those of the judge, and so is what a check has put in the course's place."""
        if isinstance(self._same, Kept):
            self._same.drop(message.get("gone") or ())
        other = in_place(message.get("replaced") or {}, self._unpack(parts), self._notebook)
        with settings.as_there(message.get("settings"), printed), other:
            yield

    def _reply(self, message: dict[str, Any], parts: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        packer = self._pack(left=message["ask"] != "names")
        if message["ask"] == "thing" and message.get("what") == "trace":
            return self._traced(message, parts)
        args, keywords = self._arguments(message, self._unpack(parts))
        if message["ask"] == "names" and not self._judge:
            return {"values": self._all_named(args[0], args[1], packer)}, packer.parts
        if message["ask"] == "instrument" and not self._judge:
            return {"value": packer.pack(_INSTRUMENTS[args[0]]()(*args[1:]))}, packer.parts
        if message["ask"] == "beside" and not self._judge:
            return self._called(operator.call, args, keywords, packer)
        if message["ask"] != "thing":
            raise Unreadable("this cannot be asked for")
        thing = self._things.lent[_number(message.get("number"))]
        what = message.get("what")
        if what != "call":
            return {"value": packer.pack(self._done(thing, what, args))}, packer.parts
        if not callable(thing):
            raise Unreadable("this cannot be called")
        return self._called(thing, args, keywords, packer)

    def _called(
        self, thing: Callable[..., Any], args: tuple, keywords: dict[str, Any], packer: Pack
    ) -> tuple[dict[str, Any], list[bytes]]:
        """What a call returns, and the arguments where they are not what they were."""
        before = self._pack(left=True)
        handed = (args, tuple(keywords.values()))
        may_change = changeable(handed)
        known = before.pack((args, keywords)) if may_change else None
        found = thing(*args, **keywords)
        with unheard():
            value = packer.pack(found)
        changed = given_away(handed)
        if may_change and not changed:
            after = self._pack(left=True)
            changed = after.pack((args, keywords)) != known or after.parts != before.parts
        return {"value": value} | ({"after": packer.pack((args, keywords))} if changed else {}), packer.parts

    def _arguments(self, message: dict[str, Any], unpack: Unpack) -> tuple[tuple, dict[str, Any]]:
        with unheard():
            args, keywords = unpack.unpack(message.get("args")), unpack.unpack(message.get("keywords"))
        if type(args) is not tuple or type(keywords) is not dict or not all(type(name) is str for name in keywords):
            raise Unreadable("arguments are missing")
        return args, keywords

    def _traced(self, message: dict[str, Any], parts: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        """The program of a function, for arguments of which some are known by their types alone."""
        thing = self._things.lent[_number(message.get("number"))]
        if not callable(thing):
            raise Unreadable("this cannot be called")
        avals: dict[int, Any] = {}
        self._arguments(message, self._unpack(parts, lambda form: avals.setdefault(_number(form["slot"]), form)))
        if sorted(avals) != list(range(len(avals))):
            raise Unreadable("a type is missing")
        results: list[Any] = []
        packer = self._pack(results)
        reply: dict[str, Any] = {}

        def run(*values: Any) -> list[Any]:
            args, keywords = self._arguments(message, self._unpack(parts, lambda form: values[form["slot"]]))
            reply["value"] = packer.pack(thing(*args, **keywords))
            return results

        theirs = getattr(inspect.unwrap(thing), "__code__", None)
        if theirs is not None:  # JAX names in its messages what it traces, and where that stands
            place = {"co_filename": theirs.co_filename, "co_firstlineno": theirs.co_firstlineno}
            run.__code__ = run.__code__.replace(co_name=theirs.co_name, co_qualname=theirs.co_qualname, **place)
            run.__name__ = run.__qualname__ = theirs.co_name
        with unheard():  # JAX traces it where it was asked for
            reply["program"] = programs.traced(run, [programs.of_aval(avals[i]) for i in range(len(avals))], packer)
        return reply, packer.parts

    def _all_named(self, wanted: list[str], callable_alone: list[str], packer: Pack) -> list[list[Any]]:
        """What these names mean here: functions and classes first, then all for which one message has room.

        A student's own cells may hold anything, and no check is to be lost for that.
        """
        found: dict[str, list[Any]] = dict.fromkeys(wanted, [])
        others = [name for name in wanted if not callable(self._notebook.get(name))]
        text = size = 0
        for name in [*(name for name in wanted if name not in others), *(n for n in others if n not in callable_alone)]:
            parts = len(packer.parts)
            form = self._named(name, packer)
            more, beside = len(json.dumps(form)), sum(map(len, packer.parts[parts:]))
            full = 2 * (text + more) > LARGEST_TEXT or 2 * (text + more + size + beside) > LARGEST
            if not form or full or 2 * len(packer.parts) > MOST_PARTS:
                del packer.parts[parts:]
                continue
            found[name], text, size = form, text + more, size + beside
        return [found[name] for name in wanted]

    def _named(self, name: str, packer: Pack) -> list[Any]:
        value = self._notebook.get(name, _MISSING)
        if value is _MISSING or isinstance(value, ModuleType):
            return []
        try:
            return [packer.pack(value)]
        except Exception:  # `CannotCross`, or one of an object of the student's own that was looked at
            return []

    def _done(self, thing: Any, what: Any, args: tuple) -> Any:
        """What was asked of a thing that is here, apart from calling it."""
        if what == "attribute":
            (name,) = args
            if type(name) is not str or name.startswith("_") or not name.isidentifier():
                raise Unreadable("only public attributes can be asked for")
            if self._judge and not may_be_read(thing, name):
                raise Unreadable(f"{name} cannot be asked for")
            return getattr(thing, name)
        if type(what) is not str or what not in (_BY_THE_BOX if self._judge else OPERATIONS):
            raise Unreadable("this cannot be asked for")
        return OPERATIONS[what](thing, *args)

    # --- what crosses ---

    def _lend(self, value: Any, pack: Pack) -> dict[str, Any]:
        if (home := self._things.home_of(value)) is not None:
            return {"is": "yours", "number": home}
        handed = set(pack.handed)
        try:
            return self._stays(value, pack)
        finally:
            pack.handed = handed  # what a function or a program holds is not handed over to be written to

    def _stays(self, value: Any, pack: Pack) -> dict[str, Any]:
        """How the other kernel is told of what has no form of its own."""
        if self._judge and isinstance(value, ModuleType):
            return {"is": "module", "v": value.__name__}
        if self._judge and isinstance(value, FunctionType):
            value = beside.original(value)
        if isinstance(value, Jaxpr | ClosedJaxpr):
            form = {"is": "jaxpr", "v": programs.written(value, pack), "closed": isinstance(value, ClosedJaxpr)}
            return form | {"number": self._same.number(value)}
        if isinstance(value, tuple) and (own := self._own_tuple(value, pack)) is not None:
            return own
        if isinstance(value, ModuleType) or (self._judge and not may_be_lent(value)):
            raise CannotCross(f"{type(value).__name__} has no form in which it can be handed to the other kernel")
        lent = self._things.lend(value)
        if self._judge and isinstance(value, FunctionType) and lent["number"] not in pack.functions:
            pack.functions.add(lent["number"])
            if (inner := sources.captured(value, self._released)) is not None:
                return lent | {"is": "code"} | sources.code_form(value, inner, pack)
        return lent

    def _own_tuple(self, value: tuple, pack: Pack) -> dict[str, Any] | None:
        """A named tuple of an answer's own class: the number of its class in the box, and what is in it."""
        kind: Any = type(value)
        fields = getattr(kind, "_fields", None)
        if self._judge:
            number = self._things.number_of_tuples(kind)
        elif type(fields) is tuple and len(fields) == len(value):
            number = self._things.lend(kind)["number"]
        else:
            return None
        if number is None:
            return None
        known = {"name": kind.__name__, "fields": [str(field) for field in fields or ()]}
        return {"is": "own tuple", "number": number, "v": [pack.pack(item) for item in value]} | known

    def _borrow(self, form: dict[str, Any], unpack: Unpack) -> Any:
        if form["is"] in ("code", "module"):
            if self._judge:
                raise Unreadable("the judge takes no code")
            return sources.made(form, unpack, self._things, self._notebook)
        if form["is"] == "jaxpr":
            if isinstance(self._same, Kept):
                return self._same.made(form["number"], lambda: _jaxpr(form, unpack))
            return _jaxpr(form, unpack)
        if form["is"] == "left":
            return programs.left(form)
        number = _number(form.get("number"))
        if form["is"] == "own tuple":
            there = None if self._judge else self._things.lent[number]
            kind: Any = there or self._things.tuple_class(number, form["name"], form["fields"])
            items = [unpack.unpack(item) for item in form["v"]]
            if len(items) != len(kind._fields):
                raise Unreadable("a named tuple of another length")
            return tuple.__new__(kind, items)
        if form["is"] == "yours":
            return self._things.lent[number]
        thing = self._things.borrow(number, form.get("about"), self._things.ask)
        self._note_opaque(thing)
        return thing

    def _note_opaque(self, thing: Any) -> None:
        """An object of an answer's own class is no more than a handle here: an honest one may be misjudged."""
        if isinstance(thing, Thing) and not callable(thing) and thing._number not in self._instruments:
            self._note_uncrossed(f"an object of type {type(thing).__name__}")

    def _unpacked(self, form: Any, parts: list[bytes]) -> Any:
        with unheard():
            return self._unpack(parts).unpack(form)

    def _pack(
        self,
        tracers: list[Any] | None = None,
        number: Callable[[np.ndarray], int | None] | None = None,
        *,
        left: bool = False,
    ) -> Pack:
        """`left`: a tracer may be among it whose trace has ended."""
        noting = _noting(tracers) if tracers is not None else programs.left_form if left else None
        lend = self._things.lend if self._judge else None
        return Pack(self._lend, self._course(), noting, number or self._same.known, lend)

    def _unpack(
        self,
        parts: list[bytes],
        slot: Callable[[dict[str, Any]], Any] | None = None,
        same: Callable[[Any, np.ndarray], np.ndarray] | None = None,
    ) -> Unpack:
        named = names.harmless if self._judge else names.anything
        same = same or self._same.same
        return Unpack(parts, self._borrow, named, self._course(), slot, same, callbacks=not self._judge)


_MISSING = object()
_INSTRUMENTS: dict[str, Callable[[], Callable[..., Any]]] = {
    "assert_max_traces": lambda: assert_max_traces,
    "static_arguments": lambda: candidates.static_arguments,
    "trace_log": lambda: TraceLog,
    "traced_anew": lambda: candidates.traced_anew,
    "modules_built": lambda: modules_built,
    "trace": lambda: read_jaxpr.trace,
}


def _noting(tracers: list[Any]) -> Callable[[Any], dict[str, Any]]:
    """What stands for a tracer in a message: its number among all of them, and its type."""

    def note(tracer: Any) -> dict[str, Any]:
        tracers.append(tracer)
        return {"is": "traced", "slot": len(tracers) - 1} | programs.aval_form(jax.typeof(tracer))

    return note


def _jaxpr(form: dict[str, Any], unpack: Unpack) -> Any:
    made = programs.Program(form["v"], unpack).jaxpr()
    return made if form.get("closed") is True else made.jaxpr


def _slot(form: dict[str, Any], results: list[Any]) -> int:
    number = _number(form.get("slot"))
    if not 0 <= number < len(results):
        raise Unreadable("a result is missing")
    return number


def _number(value: Any) -> int:
    if type(value) is not int:
        raise Unreadable("a number is missing")
    return value
