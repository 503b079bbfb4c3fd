"""A student's cell that is run again in the judge's box (see `checks.run_alone`): its process may calculate.

It is the only code of a student's there. So the system itself refuses it all else, where it knows how:
other processes, programs, sockets, files to be written (seccomp), files other than Python's and NumPy's (Landlock).
What the guard asks values while a cell runs is asked here as well, whether there is a guard or not.

It needs the standard library alone: the process has nothing else.
"""

import ast
import os
import sys
import sysconfig

from ..box import calls, landlock
from ..guard.closing import close_alone, to_be_alone


def in_the_judge(source: str, numpy: bool) -> tuple[ast.Module, str]:
    """A cell as it is run there, and what is called first ("module:function")."""
    tree, _ = to_be_alone(source, numpy)
    return tree, f"{__name__}:{close.__name__}"


def close(file: str, numpy: bool) -> None:
    """Give up what is not calculating, in the process in which a cell of this file is run again."""
    close_alone(file, numpy)
    if sys.platform != "linux":
        return
    if landlock.abi():
        places = {*sys.path, *sysconfig.get_paths().values(), sys.base_prefix, sys.prefix, "/usr", "/lib", "/lib64"}
        if numpy:
            places.add(os.path.dirname(os.path.dirname(sys.modules["numpy"].__file__ or "")))
        landlock.confine([(place, landlock.Access.READ) for place in sorted(places) if place])
    if not calls.why_not():
        calls.refuse_all_but_calculating()
