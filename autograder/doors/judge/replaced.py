"""What a check puts in the place of the course's own, or of an answer's, so that the box has it too while it is asked.

A hidden test may give a locked function another body (`__code__`) or attribute, or a locked table other entries, and
look whether an answer uses them. In the judge it is done to the judge's own; what is not as it was when the check began
is sent with each question, and put in its place in the box until the answer is there. Nothing that was compiled with
the other one is used then.

A check may also let the name of an answer's function mean one of its own, to see whether another answer calls it. The
name means that in the box for as long, and what is compiled stays, as in one kernel.
"""

import contextlib
import marshal
from collections.abc import Collection, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

import jax

from .names import is_course_thing
from .values import CannotCross, Pack, Unpack


class Originals:
    """In the judge: the functions' bodies and attributes and the tables' entries that locked cells have made.

    Arguments:
      notebook: the names of the judge's notebook.
      released: the names that locked cells bind.
      answers: the names that mean functions of the box.
    """

    def __init__(self, notebook: dict[str, Any], released: Collection[str], answers: Collection[str] = ()):
        self._notebook = notebook
        self._answers = {name: notebook[name] for name in sorted(answers) if callable(notebook.get(name))}
        there = {name: notebook[name] for name in sorted(released) if name in notebook}
        self._bodies: dict[str, tuple[FunctionType, CodeType]] = {}
        self._entries: dict[str, tuple[Mapping, dict]] = {}
        for name, value in there.items():
            if isinstance(value, FunctionType) and value.__module__ == "__main__":
                self._bodies[name] = value, value.__code__
            if type(value) is dict:
                self._entries[name] = value, dict(value)
            elif is_course_thing(value) and not isinstance(value, type):
                self._entries[name] = vars(value), dict(vars(value))

    def replaced(self, pack: Pack) -> dict[str, Any]:
        """What is another one now, as it travels; empty if nothing is."""
        bodies = [(name, fn) for name, (fn, code) in self._bodies.items() if fn.__code__ is not code]
        tables = [(name, now) for name, (now, then) in self._entries.items() if not _same(now, then)]
        found = {
            "bodies": [[name, pack.part(marshal.dumps(fn.__code__))] for name, fn in bodies],
            "entries": [[name, pack.pack(_other(now, self._entries[name][1]))] for name, now in tables],
            "names": self._names(pack),
        }
        return found if any(found.values()) else {}

    def _names(self, pack: Pack) -> list[list[Any]]:
        """The names of answers that mean something else now, and what, as it travels."""
        found = []
        for name, then in self._answers.items():
            now = self._notebook.get(name, then)
            if now is not then and callable(now):
                with contextlib.suppress(CannotCross):
                    found.append([name, pack.pack(now)])
        return found


def _same(now: Mapping, then: Mapping) -> bool:
    return now.keys() == then.keys() and all(now[key] is value for key, value in then.items())


def _other(now: Mapping, then: Mapping) -> dict:
    """The entries that are there now and were not."""
    return {key: value for key, value in now.items() if key not in then or then[key] is not value}


@contextlib.contextmanager
def in_place(found: dict[str, Any], unpack: Unpack, notebook: dict[str, Any]) -> Iterator[None]:
    """In the box: as it is in the judge, until the block ends. What has no such name here is left alone."""
    with contextlib.ExitStack() as stack:
        if found.get("bodies") or found.get("entries"):
            jax.clear_caches()
            stack.callback(jax.clear_caches)
        for name, part in found.get("bodies", ()):
            fn = notebook.get(name)
            if isinstance(fn, FunctionType):
                stack.callback(setattr, fn, "__code__", fn.__code__)
                fn.__code__ = marshal.loads(unpack.data({"part": part}))
        for name, form in found.get("entries", ()):
            home = notebook.get(name)
            table = home if type(home) is dict else vars(home) if is_course_thing(home) else None
            if isinstance(table, dict):
                stack.callback(_fill, table, dict(table))
                table.update(unpack.unpack(form))
        before = {name: notebook[name] for name, _ in found.get("names", ()) if name in notebook}
        stack.callback(notebook.update, before)
        notebook.update({name: unpack.unpack(form) for name, form in found.get("names", ()) if name in before})
        yield


def _fill(table: dict, entries: dict) -> None:
    table.clear()
    table.update(entries)
