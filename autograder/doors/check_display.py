"""Shows the result of a check in the learner's own notebook, as it comes: one panel, made anew with each line.

Only where somebody looks: under nbgrader, under pytest and wherever a notebook is run by a program, a check prints text
and ends in a message, and nothing here is used. Points and errors are the same on both roads, but for how they look. A
check with part points has them as its value, which nbgrader reads; the panel says them, and so that value is not shown.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

from autograder import failure
from autograder.failure import CheckFailed

from .check_card import Card, as_html, as_text

_open: "CheckDisplay | None" = None  # of the cell that runs


def is_watched() -> bool:
    """Whether a person has this notebook open: in JupyterLab or Notebook, in VS Code, or in Colab."""
    if "NBGRADER_EXECUTION" in os.environ or "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return False
    in_a_server = os.environ.get("JPY_SESSION_NAME", "").endswith(".ipynb")
    return in_a_server or "__vsc_ipynb_file__" in shell.user_ns or "google.colab" in sys.modules


class CheckDisplay:
    """The panel of one cell."""

    def __init__(self, possible: float | None):
        self.card = Card(possible=possible)
        self._handle: Any = None
        self._hook: Any = None

    def hide_value(self) -> None:
        """Show no number as the cell's value; it stays the cell's result."""
        self._hook = sys.modules["IPython"].get_ipython().displayhook
        show = self._hook.write_format_data

        def show_unless_number(formats: dict[str, Any], *metadata: Any) -> None:
            if not _is_a_number(formats.get("text/plain", "")):
                show(formats, *metadata)

        self._hook.write_format_data = show_unless_number

    def close(self) -> None:
        """Values of cells are shown again."""
        if self._hook is not None:
            del self._hook.write_format_data  # that of its class comes to light

    def show(self, **known: Any) -> None:
        """Show the panel with this added to what is known; see `Card`."""
        self.card = self.card._replace(**known)
        from IPython.display import display  # it is there: see `is_watched`

        bundle = {"text/html": as_html(self.card), "text/plain": as_text(self.card)}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def hear(self, line: str) -> None:
        """One more line of evidence."""
        self.show(passed=[*self.card.passed, line])


def begin(possible: float | None) -> None:
    """A cell begins to run. `possible`: the points of a check, None for any other cell."""
    global _open
    if _open is not None:  # the cell before was never told to have ended
        _open.close()
    _open = CheckDisplay(possible) if is_watched() else None
    failure.hear = None
    if _open is not None and possible is not None:
        failure.hear = _open.hear
        _open.hide_value()
        _open.show()  # at once, so that it stands above whatever else the cell shows


def failed(error: CheckFailed) -> None:
    """A check did not hold: show why, and leave one line for the place of the traceback."""
    if _open is None:
        return
    try:
        exhibit = error.exhibit() if error.exhibit is not None else ""
    except Exception:  # a picture is worth a thousand words, and no message is worth losing
        exhibit = ""
    earned = None if _open.card.possible is None else 0.0
    _open.show(failure=error, exhibit=exhibit, earned=earned)
    error.told_in = f"✗ {'No points' if earned is not None else 'This does not hold'}: the reason stands above."


def end(earned: float | None, trouble: str = "", after: Sequence[tuple[str, str]] = ()) -> bool:
    """The cell has run. Returns whether the points were shown, so that nobody else has to say them."""
    global _open
    display, _open, failure.hear = _open, None, None
    if display is not None:
        display.close()
    if display is None or display.card.possible is None:
        return False
    display.show(earned=earned, trouble=trouble, after=after)
    return True


def _is_a_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
