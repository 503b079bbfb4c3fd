"""What JAX has compiled for a unit's solution, for the boxes in which submissions of that unit are graded.

Much of what a submission compiles the solution compiles as well: specifications, inputs, what hidden tests compare
with, often the answers. So the solution is run once on each machine, in a box in which JAX keeps what it compiles; the
boxes of students find it there, and cannot write there. For JAX a program that is found has been compiled: what a check
counts stays the same. The measuring process finds programs there, too: they are the same machine code. Only of first
calls, which are timed with what is compiled in them, each is compiled.

JAX finds a program by a digest of the whole of it, and the folder cannot be listed: nobody finds there what he has not
written himself. It lies in Python's environment and goes with it. Where that cannot be written, everything is compiled
for each submission.
"""

import hashlib
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from .box import rules
from .box.rules import Rules
from .folder_lock import alone_in
from .held_folder import HeldFolder
from .kernel_runner import Runner

KEPT = Path(sys.prefix, "var", "just-in-time", "programs")
TEACHES_IT = "compilation_cache"  # a unit whose text has this word is about such a folder, and goes without ours
_NOT_LISTED, _LISTED, _READ = 0o311, 0o755, 0o444
_SECONDS = 120.0


def with_programs(box: Rules, unit: str, solution: NotebookNode, tell: Callable[[str], None]) -> Rules:
    """The box with the programs of the unit's solution, which is run first where they are not kept yet.

    Arguments:
      unit: its name.
      solution: its notebook with answers and hidden tests; nothing lies beside it.
      tell: is told, in one line, that the solution is run.

    Returns:
      the box as it was where no programs can be kept, and for a unit that is about such a folder.
    """
    text = "\n".join(cell.source for cell in solution.cells if cell.cell_type == "code")
    if TEACHES_IT in text:
        return box
    folder = KEPT / f"{unit}.{_digest(text, box)}"
    if not folder.exists():
        try:
            KEPT.mkdir(parents=True, exist_ok=True)
            with alone_in(KEPT):
                if not folder.exists():  # still: another grader may have been at it
                    tell(
                        f"{unit}: its solution is run once, so that what it compiles is not compiled for each student."
                    )
                    _fill(folder, unit, solution, box)
        except OSError:
            return box
    return replace(box, compiled=str(folder))


def _digest(text: str, box: Rules) -> str:
    """Of all that decides what the solution's programs are: its text, JAX, the processor, what JAX is told."""
    settings = {name: value for name, value in rules.environment().items() if name.startswith(("JAX", "XLA"))}
    processor = platform.processor()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
    parts = [text, version("jax"), sys.version, platform.machine(), processor, repr(settings), repr(box.devices)]
    parts.append("of the measuring process, too")  # older folders have others
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _fill(folder: Path, unit: str, solution: NotebookNode, box: Rules) -> None:
    """Run the solution and keep its programs in `folder`, which exists when they are whole. Raises OSError."""
    for old in KEPT.iterdir():  # of this unit, or left by a grader that was killed
        if old.name.startswith(f"{unit}.") or "." not in old.name:
            old.chmod(_LISTED)
            shutil.rmtree(old, ignore_errors=True)
    new = Path(tempfile.mkdtemp(dir=KEPT))
    notebook = nbformat.from_dict(solution)
    filling = replace(box, compiled=str(new), compiles=True)
    with HeldFolder("solution") as empty, Runner(notebook, empty, _SECONDS, filling) as runner:
        runner.run_all()
    for program in new.iterdir():
        program.chmod(_READ)
    new.chmod(_NOT_LISTED)
    new.rename(folder)
