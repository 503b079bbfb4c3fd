"""Arrays of NumPy's and jaxprs that a check hands over are the same objects in the box each time, as in the check.

They can be written to: what remembers an answer by the array that it was asked for is wrong when the check has written
another number into it, and what writes into a jaxpr reads it differently the next time. The judge numbers what it hands
over, and says which numbers are gone; the box keeps what has a number until then. An array that comes back under a
number is the check's own, if it holds the same.
"""

import weakref
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np


def _alike(own: Any, array: np.ndarray) -> bool:
    """Whether the one is an array, and can be what the other is without another shape or type."""
    return isinstance(own, np.ndarray) and own.shape == array.shape and own.dtype == array.dtype


class Handed:
    """In the judge: what it has handed over, for as long as that is there."""

    def __init__(self) -> None:
        self._last = 0
        self._there: dict[int, weakref.ref[Any]] = {}
        self._numbers: dict[int, int] = {}  # by address
        self._gone: list[int] = []

    def known(self, thing: Any) -> int | None:
        """The number of an array or a jaxpr; None if it has none."""
        number = self._numbers.get(id(thing))
        return number if number is not None and self._own(number) is thing else None

    def number(self, thing: Any) -> int:
        """The number of an array or a jaxpr, which gets one here."""
        if (known := self.known(thing)) is not None:
            return known
        self._last += 1
        number, address = self._last, id(thing)
        self._there[number] = weakref.ref(thing, lambda _: self._forget(number, address))
        self._numbers[address] = number
        return number

    def _forget(self, number: int, address: int) -> None:
        del self._there[number]
        if self._numbers.get(address) == number:
            del self._numbers[address]
        self._gone.append(number)

    def gone(self) -> list[int]:
        """The numbers of those that have ended since this was asked last."""
        found, self._gone = self._gone, []
        return found

    def _own(self, number: Any) -> Any:
        there = self._there.get(number) if type(number) is int else None
        return None if there is None else there()

    def same(self, number: Any, array: np.ndarray) -> np.ndarray:
        """What has arrived: the array of this number, if it holds the same."""
        own = self._own(number)
        return own if _alike(own, array) and own.tobytes() == array.tobytes() else array

    def changed(self, handed: Collection[int], number: Any, array: np.ndarray) -> np.ndarray:
        """What an array has become that was handed over in this question: it is written to."""
        own = self._own(number)
        if _alike(own, array) and number in handed and own.flags.writeable:
            _fill(own, array)
        return self.same(number, array)


class Kept:
    """In the box: what stands for it, until the judge says that it is gone."""

    def __init__(self) -> None:
        self._there: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}

    def known(self, thing: Any) -> int | None:
        """The judge's number for an array or a jaxpr; None if it has none."""
        return self._numbers.get(id(thing))

    number = known

    def gone(self) -> list[int]:
        """What is the box's own is not numbered."""
        return []

    def drop(self, numbers: Iterable[int]) -> None:
        """The judge has these no more."""
        for number in numbers:
            self._numbers.pop(id(self._there.pop(number, None)), None)

    def same(self, number: int, array: np.ndarray) -> np.ndarray:
        """What has arrived: the array of this number, with what is in it now."""
        own: Any = self._there.get(number)
        if not _alike(own, array) or not own.flags.writeable:
            self.drop([number])
            return self.made(number, lambda: array)
        _fill(own, array)
        return own

    def made(self, number: int, make: Callable[[], Any]) -> Any:
        """What has this number; it is made the first time."""
        if number not in self._there:
            self._there[number] = thing = make()
            self._numbers[id(thing)] = number
        return self._there[number]

    def changed(self, handed: Collection[int], number: int, array: np.ndarray) -> np.ndarray:
        """As `same`."""
        return self.same(number, array)


def _fill(own: np.ndarray, array: np.ndarray) -> None:
    if own.tobytes() != array.tobytes():
        own[...] = array
