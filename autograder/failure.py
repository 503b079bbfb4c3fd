"""How a check speaks: one line of evidence when it passes, a lesson when it fails."""

import traceback
from typing import NoReturn


class CheckFailed(AssertionError):
    """A check that did not hold.

    The message has four parts, always in this order: what happened against what was expected, the evidence,
    why it usually happens, and one thing to try. A part of which nothing is known is left out.
    """

    def __init__(self, happened: str, *, evidence: str = "", why: str = "", attempt: str = ""):
        self.happened, self.evidence, self.why, self.attempt = happened, evidence, why, attempt
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
        first, *rest = str(self).splitlines()
        # Bold and not red: no red is legible both on JupyterLab's light and on its dark background of an error.
        lines = [f"\x1b[1m{first}\x1b[0m", *rest]
        number = cell_line(self)
        if number is not None:
            lines.append(f"  (line {number} of this cell)")
        return lines


def fail(happened: str, *, evidence: str = "", why: str = "", attempt: str = "") -> NoReturn:
    """Raise `CheckFailed`; the arguments are its four parts."""
    raise CheckFailed(happened, evidence=evidence, why=why, attempt=attempt)


def passed(line: str) -> None:
    """Print one line of evidence. Standard output is not graded, standard error would cost the points."""
    print(f"✓ {line}")


def cell_line(error: BaseException) -> int | None:
    """The line of the notebook cell in which `error` arose, or None outside a notebook."""
    for frame in traceback.extract_tb(error.__traceback__):
        # IPython compiles a cell under a file name in the temporary folder of its kernel.
        if "ipykernel_" in frame.filename or frame.filename.startswith("<ipython-input"):
            return frame.lineno
    return None


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
