"""What a copy is called that `course reset` leaves beside a notebook, so that no door takes it for the notebook."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

BEFORE_RESET, FROM_THE_COURSE = "before-reset", "from-the-course"  # the learner's text, and the course's


def names_beside(notebook: Path, why: str) -> Iterator[Path]:
    """What the copy may be called: `the_cache.before-reset-2026-01-31-180000.ipynb`, or the same with a number."""
    stem = f"{notebook.stem}.{why}-{datetime.now():%Y-%m-%d-%H%M%S}"
    for number in ("", *(f"-{n}" for n in range(2, 1000))):
        yield notebook.with_name(f"{stem}{number}{notebook.suffix}")


def is_kept_copy(path: Path) -> bool:
    """Whether a notebook is such a copy, by its name."""
    return any(f".{why}-" in path.name for why in (BEFORE_RESET, FROM_THE_COURSE))
