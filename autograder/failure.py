"""How a check speaks: one line of evidence when it passes, a lesson when it fails."""

import traceback
from collections.abc import Callable
from typing import NoReturn


class CheckFailed(AssertionError):
    """A check that did not hold.

    The message has four parts, always in this order: what happened against what was expected, the evidence,
    why it usually happens, and one thing to try. A part of which nothing is known is left out.

    `exhibit` makes a picture or table of the evidence, as HTML, for a notebook that somebody looks at. It is asked for
    it at most once, and what it raises costs nothing but the picture.
    """

    told_in = ""  # where the message is shown already; then one line stands in the place of the traceback

    def __init__(
        self,
        happened: str,
        *,
        evidence: str = "",
        why: str = "",
        attempt: str = "",
        exhibit: Callable[[], str] | None = None,
    ):
        self.happened, self.evidence, self.why, self.attempt = happened, evidence, why, attempt
        self.exhibit = exhibit
        parts = [f"✗ {happened}"]
        if evidence:
            parts.append(_indent(evidence))
        if why:
            parts.append(_indent(f"Why this usually happens: {why}"))
        if attempt:
            parts.append(_indent(f"Try: {attempt}"))
        super().__init__("\n".join(parts))

    def _render_traceback_(self) -> list[str]:
        # IPython prints these lines instead of a traceback: the frames are the autograder's own, and the
        # source lines around them would show a hidden test. The line number is kept, because the feedback
        # needs to know whether a visible or a hidden line failed.
        first, *rest = self.told_in.splitlines() or str(self).splitlines()
        # Bold and not red: no red is legible both on JupyterLab's light and on its dark background of an error.
        lines = [f"\x1b[1m{first}\x1b[0m", *rest]
        number = cell_line(self)
        if number is not None:
            lines.append(f"  (line {number} of this cell)")
        return lines


def fail(
    happened: str, *, evidence: str = "", why: str = "", attempt: str = "", exhibit: Callable[[], str] | None = None
) -> NoReturn:
    """Raise `CheckFailed`; the arguments are its four parts, and what makes a picture of the evidence."""
    raise CheckFailed(happened, evidence=evidence, why=why, attempt=attempt, exhibit=exhibit)


def passed(line: str) -> None:
    """Print one line of evidence. Standard output is not graded, standard error would cost the points."""
    (hear or print)(f"✓ {line}")


hear: Callable[[str], None] | None = None  # who shows these lines instead of `print`: see doors/check_display


def cell_line(error: BaseException) -> int | None:
    """The line of the notebook cell in which `error` arose, or None outside a notebook."""
    return next((frame.lineno for frame in frames_in_cells(error)), None)


def frames_in_cells(error: BaseException) -> list[traceback.FrameSummary]:
    """The lines of notebook cells that were being run when `error` arose, the innermost last."""
    # IPython compiles a cell under a file name in the temporary folder of its kernel.
    frames = traceback.extract_tb(error.__traceback__)
    return [f for f in frames if "ipykernel_" in f.filename or f.filename.startswith("<ipython-input")]


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
