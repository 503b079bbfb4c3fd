"""In a learner's notebook: a check's own names do not get in the way of the learner's.

As when a notebook is graded, what a check calls by a name of its own stands under another one while it runs. Where the
learner has no such name, it has the plain one afterwards, to be looked at.
"""

import sys
from collections.abc import Callable, Collection

from .guard.course import bound, parsed
from .guard.names_of_checks import OfChecks, other_name


class NamesApart:
    """What IPython does with the tree of a cell.

    Arguments:
      shell: IPython's.
      of_check: the source of a cell -> the names that checks alone bind, if it is one; or nothing.
    """

    def __init__(self, shell, of_check: Callable[[str], Collection[str]]):
        self._shell, self._of_check = shell, of_check
        self._source = ""
        self._apart: Collection[str] = ()  # those of the check that runs
        self._learners: set[str] = set()
        shell.ast_transformers.append(self)
        shell.events.register("pre_run_cell", self._begin)
        shell.events.register("post_run_cell", self._end)

    def _begin(self, info) -> None:
        self._source, self._apart = info.raw_cell, ()

    def visit(self, tree):
        """A cell is about to run. Where it is graded, the names of its checks are apart already."""
        if "autograder.doors.guard.restorer" not in sys.modules:
            self._apart = frozenset(self._of_check(self._source))
        return OfChecks(self._apart).visit(tree) if self._apart else tree

    def _end(self, _) -> None:
        names = self._shell.user_ns
        if not self._apart:
            self._learners |= bound(parsed(self._source))
        for name in self._apart:
            if name not in self._learners and other_name(name) in names:
                names[name] = names[other_name(name)]
