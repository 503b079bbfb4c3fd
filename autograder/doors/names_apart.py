"""In a learner's notebook: the names of checks, of answers and of the course do not get in each other's way.

As when a notebook is graded, what a check calls by a name of its own stands under another one while it runs. Where the
learner has no such name, it has the plain one afterwards, to be looked at. What an answer calls by a name of the
course's stands under another one for good: in all other cells the name means what the course gave it.
"""

import sys
from collections.abc import Callable, Collection

from .guard.course import bound, parsed
from .guard.names_of_answers import OfAnswers
from .guard.names_of_checks import OfChecks, other_name


class NamesApart:
    """What IPython does with the tree of a cell.

    Arguments:
      shell: IPython's.
      of_check: the source of a cell -> the names that checks alone bind, if it is one; or nothing.
      of_answer: the source of a cell -> the names of the course's that are its own, if it is an answer; or nothing.
    """

    def __init__(self, shell, of_check: Callable[[str], Collection[str]], of_answer: Callable[[str], Collection[str]]):
        self._shell, self._of_check, self._of_answer = shell, of_check, of_answer
        self._source = ""
        self._apart: frozenset[str] = frozenset()  # those of the check that runs
        self._own: frozenset[str] = frozenset()  # those of the answer that runs
        self._learners: set[str] = set()
        shell.ast_transformers.append(self)
        shell.events.register("pre_run_cell", self._begin)
        shell.events.register("post_run_cell", self._end)

    def _begin(self, info) -> None:
        self._source, self._apart, self._own = info.raw_cell, frozenset(), frozenset()

    def visit(self, tree):
        """A cell is about to run. Where it is graded, the names of its checks are apart already."""
        if "autograder.doors.guard.restorer" not in sys.modules:
            self._apart = frozenset(self._of_check(self._source))
            self._own = frozenset(() if self._apart else self._of_answer(self._source))
        if self._own:
            return OfAnswers(self._own).visit(tree)
        return OfChecks(self._apart).visit(tree) if self._apart else tree

    def _end(self, _) -> None:
        names = self._shell.user_ns
        if not self._apart:
            self._learners |= bound(parsed(self._source)) - self._own
        if self._own:
            is_one, mine = ("is a name", "yours is") if len(self._own) == 1 else ("are names", "yours are")
            also = f"{is_one} of the course's or of Python's, too: in this cell {mine} meant, in all others not."
            print(f"{', '.join(sorted(self._own))} {also}")
        for name in self._apart:
            if name not in self._learners and other_name(name) in names:
                names[name] = names[other_name(name)]
