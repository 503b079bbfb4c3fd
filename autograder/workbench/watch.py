"""Runs the checks of an exercise again when its notebook is saved.

With watchfiles: the system tells it what has changed (it looks by itself where the system does not, as in WSL), it
gathers what belongs together, and it sees files that are replaced, which is how JupyterLab saves.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from watchfiles import watch

from .outline import Unit
from .room import text_digest


def saved_units(notebooks: Mapping[Path, Unit]) -> Iterator[Unit]:
    """Each unit whose notebook was saved with another text than before; it never ends by itself.

    JupyterLab saves every two minutes, and a run alone changes outputs: neither is a reason to run the checks again.
    """
    known = {path: _digest(path) for path in notebooks}
    folders = sorted({path.parent for path in notebooks})
    for changes in watch(*folders, recursive=False, watch_filter=lambda _, path: Path(path) in notebooks):
        for path in sorted({Path(path) for _, path in changes}):
            now = _digest(path)
            if now and now != known[path]:
                known[path] = now
                yield notebooks[path]


def _digest(path: Path) -> str:
    """Of the text as it is now; empty while there is none."""
    try:
        return text_digest(path)
    except OSError:
        return ""
