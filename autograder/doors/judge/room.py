"""In either kernel: what the grader asks of it, by requests that show nothing.

The box: `serve`. The judge: `begin`, `bind`, then its cells are run, then `finish`. The link between the two is another
one each time, and the grader sends both their ends: so nothing of a check that was broken off is left for the next.
"""

import contextlib
import linecache
import socket
import sys
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

from autograder.checks import run_alone
from autograder.doors.guard.contents import DEEP, Back, of_value
from autograder.instruments import watch_functions
from autograder.measuring import request

from .alone import in_the_judge
from .beside import Marked, in_their_place, sent
from .lent import Things
from .link import MAIL, Link, LinkBroken
from .peer import Peer

_SECONDS = 20.0  # until the box has said what its names mean
_THINGS = Things()
_bound: set[str] = set()  # names that the judge has from the box
_released: set[str] = set()  # and those of the locked cells
_vessels: set[str] = set()  # those among them whose contents may change
_put_back: list[Back] = []  # what is in the others
_mail: socket.socket | None = None
_beside = contextlib.ExitStack()  # what is undone when the check is done


def _shell() -> Any:
    return sys.modules["IPython"].get_ipython()


def _link(number: int) -> Link:
    """The end that the grader has sent for this check; what is left of earlier ones is closed."""
    global _mail
    if _mail is None:
        _mail = socket.socket(fileno=MAIL)
        _mail.settimeout(_SECONDS)
    while True:
        text, descriptors, _, _ = socket.recv_fds(_mail, 64, 1)
        if not text:
            raise LinkBroken("the grader has sent no link")
        connection = socket.socket(fileno=descriptors[0])
        if text == str(number).encode():
            connection.settimeout(None)
            return Link(connection)
        connection.close()


def _open(number: int, course: list[str], *, judge: bool) -> Peer:
    return Peer(_link(number), _THINGS, course, _shell().user_ns, judge=judge)


def serve(number: int, course: list[str], another: bool) -> None:
    """In the box: do what the judge asks for, until it says that it is done.

    Arguments:
      number: of the link.
      course: the names that locked cells bind.
      another: whether the other kernel is another one than the last time.
    """
    if another:
        _THINGS.forget()
    _open(number, course, judge=False).serve()


def begin(number: int, course: list[str], another: bool, vessels: list[str]) -> None:
    """In the judge: from now on the box can be asked. The arguments are those of `serve`.

    vessels: those of the names that are made for answers to fill.
    """
    if another:
        _THINGS.forget()
    _open(number, course, judge=True)
    vars(run_alone)["as_graded"] = in_the_judge
    _released.update(course)
    _vessels.update(vessels)
    if _THINGS.observer not in watch_functions.observed_elsewhere:
        watch_functions.observed_elsewhere.append(_THINGS.observer)
        request.forms_here.append(_THINGS.candidate)


def bind(cells: list[tuple[str, list[str]]], its_own: list[str]) -> None:
    """In the judge: let names of the box mean what they mean there.

    Arguments:
      cells: the text of each cell that was run in the box, and the names that are to be had from it.
      its_own: those of them that only their cell uses: of these, functions and classes alone are asked for.
    """
    ours, names = _THINGS.peer, _shell().user_ns
    if ours is None:
        raise LinkBroken("there is no link")
    written = {name: (i, text) for i, (text, binds) in enumerate(cells) for name in binds}
    ours.settimeout(_SECONDS)
    found = dict(zip(written, ours.ask_names(list(written), its_own), strict=True))
    ours.settimeout(None)
    for name in _bound - {name for name, value in found.items() if value}:
        names.pop(name, None)
    _bound.clear()
    for name, (i, text) in written.items():
        if not found[name]:
            continue
        names[name] = value = found[name][0]
        _bound.add(name)
        if _THINGS.home_of(value) is not None:
            file, source = f"<answer {i + 1}>", _shell().transform_cell(text)
            linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
            run_alone.written_elsewhere[value] = run_alone.Written(source, file, name, _Shown(names))
    ours.begin_check(_bound)
    # What a call changes in its arguments is changed here, too: of what all checks use only until this one is done.
    _put_back[:] = [back for name in _released - _vessels if name in names for back in of_value(names[name], DEEP)]


class _Shown(Mapping[str, Any]):
    """The names of the judge's notebook that an answer's cell may use: none of the checks', nor what they were told."""

    def __init__(self, names: dict[str, Any]):
        self._names = names

    def __getitem__(self, name: str) -> Any:
        if name not in _released | _bound:
            raise KeyError(name)
        return self._names[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in sorted(_released | _bound) if name in self._names)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def run_beside(names: list[str]) -> None:
    """In the judge: functions of these names are run in the box, those that there are and those of the next cell."""
    transformers, marked = _shell().ast_transformers, Marked(names, f"{_HERE}.in_the_box")
    transformers.append(marked)
    _beside.callback(transformers.remove, marked)
    _beside.enter_context(in_their_place(names, _shell().user_ns, _ask_beside))


_HERE = f"__import__({__name__!r}, fromlist=['_'])"


def in_the_box(fn: FunctionType) -> FunctionType:
    """The decorator of functions that the next cell defines."""
    return sent(fn, _ask_beside)


def _ask_beside(fn: FunctionType, args: tuple, keywords: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    if _THINGS.peer is None:
        raise LinkBroken("there is no link")
    return _THINGS.peer.ask_beside(fn, args, keywords)


programs = counted = 0  # in the last check: programs that have arrived, instruments that were asked for
uncrossed = ""  # and what could not be handed over


def finish() -> None:
    """In the judge: the check is done."""
    global programs, counted, uncrossed
    _beside.close()
    while _put_back:
        _put_back.pop()()
    if (ours := _THINGS.peer) is not None:
        programs, counted, uncrossed = ours.programs, ours.counted, ours.uncrossed
        ours.close()
