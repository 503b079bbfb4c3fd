"""What a kernel has lent to the other one, and what of its own the judge lends at all."""

import collections
import functools
from collections.abc import Callable
from types import BuiltinMethodType, FunctionType, GeneratorType, MethodType
from typing import TYPE_CHECKING, Any

from autograder.jax_internals import JITTED

from . import candidates, programs
from .link import LinkBroken
from .stand_ins import about, stand_in
from .values import CannotCross, Unreadable

if TYPE_CHECKING:
    from .peer import Peer

MOST_LENT = 200_000
MOST_TUPLES, MOST_FIELDS = 100, 100  # classes of named tuples, and fields of one
_OF_CONTAINERS = {"append", "extend", "add", "update", "appendleft"}  # methods that are handed on as callbacks
_OF_JITTED = {"lower", "trace", "eval_shape", "clear_cache"}


class Things:
    """What this kernel has lent to the other one, by numbers, and what stands here for the other's things.

    A kernel's things live as long as it does; numbers are never used again. When the other kernel is another one, all
    is forgotten.
    """

    def __init__(self) -> None:
        self._next = 0
        self.peer: Peer | None = None  # this kernel's end of the link, while a check runs
        self.forget()

    def forget(self) -> None:
        """Nothing that was lent or borrowed is known any more."""
        self.lent: dict[int, Any] = {}
        self._told: dict[int, dict[str, Any]] = {}
        self.borrowed: dict[int, Any] = {}
        self._homes: dict[int, int] = {}
        self.errors: dict[int, BaseException] = {}
        self._tuples: dict[int, type] = {}

    def tuple_class(self, number: int, name: Any, fields: Any) -> type:
        """In the judge: what stands for an answer's own class of named tuples, which is of this number there."""
        if number not in self._tuples:
            if len(self._tuples) >= MOST_TUPLES or type(name) is not str or type(fields) is not list:
                raise Unreadable("a named tuple is missing")
            if len(fields) > MOST_FIELDS or not all(type(field) is str for field in fields):
                raise Unreadable("a named tuple with other fields")
            try:
                self._tuples[number] = collections.namedtuple(name, fields, module="__main__")
            except ValueError:
                raise Unreadable("a named tuple with other fields") from None
        return self._tuples[number]

    def number_of_tuples(self, kind: type) -> int | None:
        """The other kernel's number for such a class; None for any other."""
        return next((number for number, made in self._tuples.items() if made is kind), None)

    def lend(self, value: Any) -> dict[str, Any]:
        """How the other kernel is told of a thing that stays here; the same each time."""
        if id(value) not in self._told:
            if len(self.lent) >= MOST_LENT:
                raise CannotCross("too many things were lent")
            self._next += 1
            self.lent[self._next] = value
            self._told[id(value)] = {"is": "lent", "number": self._next, "about": about(value)}
        return self._told[id(value)]

    def borrow(self, number: int, known: Any, ask: Callable[..., Any]) -> Any:
        """What stands for the other kernel's thing, the same each time."""
        if number not in self.borrowed:
            if len(self.borrowed) >= MOST_LENT:
                raise Unreadable("too many things were lent")
            self.take(number, stand_in(number, known, ask))
        return self.borrowed[number]

    def ask(self, number: int, what: str, args: tuple, keywords: dict[str, Any]) -> Any:
        """What a stand-in is asked for, through the link that is there now: a stand-in lives longer than one."""
        __tracebackhide__ = True
        if self.peer is None or number not in self.borrowed:
            raise LinkBroken("what this stands for is in a kernel that has ended, or does not listen now")
        return self.peer.ask_thing(number, what, args, keywords)

    def take(self, number: int, made: Any) -> None:
        """Let this stand for the other kernel's thing of this number."""
        self.borrowed[number], self._homes[id(made)] = made, number

    def observer(self, *fn: Any) -> Callable[..., Any] | None:
        """What makes an instrument for a function of the other kernel, or for all that runs there; None for any other
        function."""
        if self.peer is None or any(self.home_of(one) is None for one in fn):
            return None
        return self.peer.ask_instrument if fn else functools.partial(IfCalled, self.peer)

    def candidate(self, fn: Any, args: tuple) -> Callable[..., Any] | None:
        """A function of the other kernel in a form that `speedup` can time; None for any other."""
        if self.home_of(fn) is None or self.peer is None:
            return None
        return candidates.of_this_process(fn, args, self.peer.ask_instrument)

    def home_of(self, value: Any) -> int | None:
        """The other kernel's number for what is a stand-in here; None for anything else."""
        return self._homes.get(id(value))

    def keep(self, error: BaseException) -> int:
        """The number under which an exception is kept that goes to the other kernel."""
        self._next += 1
        if len(self.errors) < MOST_LENT:
            self.errors[self._next] = error
        return self._next


class IfCalled:
    """An instrument for all that runs in the other kernel: it has heard nothing if nothing was called there meanwhile.

    Else whoever has taken over that kernel could add to what the check counts of its own functions.
    """

    def __init__(self, peer: "Peer", name: str, *args: Any):
        self._peer, self._inner = peer, peer.ask_instrument(name, *args)
        self._began: int = peer.calls
        self._ended: int | None = None

    def __enter__(self) -> "IfCalled":
        self._inner.__enter__()
        self._began, self._ended = self._peer.calls, None
        return self

    def __exit__(self, *exception: Any) -> None:
        self._ended = self._peer.calls
        self._inner.__exit__(None, None, None)

    def heard(self, event: str) -> list[tuple[str, float, float]]:
        """As that of a `TraceLog`."""
        ended = self._peer.calls if self._ended is None else self._ended
        return self._inner.heard(event) if ended > self._began else []


def may_be_lent(value: Any) -> bool:
    """Whether the judge lets the box call this or look at it: what its checks have made, and nothing of a library.

    And the rules of differentiation of a program that it has sent, which compute numbers of numbers.
    """
    if isinstance(value, programs.Rule):
        return True
    if isinstance(value, MethodType):
        return type(value.__self__).__module__ == "__main__" and isinstance(value.__func__, FunctionType)
    if isinstance(value, FunctionType | type):
        return value.__module__ == "__main__"
    if isinstance(value, BuiltinMethodType):
        owner = type(value.__self__)
        return owner.__module__ in ("builtins", "collections") and value.__name__ in _OF_CONTAINERS
    if isinstance(value, JITTED):
        return getattr(getattr(value, "__wrapped__", None), "__module__", None) == "__main__"
    iterators: tuple[type, ...] = (
        GeneratorType,
        type(iter([])),
        type(iter(())),
        zip,
        map,
        enumerate,
        filter,
        type(iter(range(1))),
    )
    return isinstance(value, iterators) or type(value).__module__ == "__main__"


def may_be_read(thing: Any, name: str) -> bool:
    """Whether the box may read a public attribute of what the judge has lent: of the notebook's own objects alone."""
    if isinstance(thing, JITTED):
        return name in _OF_JITTED
    if isinstance(thing, FunctionType):
        return name in vars(thing)
    return type(thing).__module__ == "__main__" and not isinstance(thing, type | MethodType)
