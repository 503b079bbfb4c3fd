"""A task that is not begun is not broken: whichever check meets the stub says so in one line."""

import traceback

from .failure import cell_line

STUB = "your code goes here; then run the check below"  # what a released stub raises: see nbgrader_config.py
_THE_CELL = "this cell"  # the name of a stub outside of any function
_ABOVE = "fill it in above, then run this cell again"


class NotBegun(NotImplementedError):
    """A check called the function `name`, which is still the stub that the exercise came with."""

    def __init__(self, name: str):
        self.name = name
        super().__init__(f"{name} is not begun")

    def _render_traceback_(self) -> list[str]:
        # IPython prints these lines instead of a traceback. The line number is kept, as for a `CheckFailed`.
        number = cell_line(self)
        place = "" if number is None else f" (line {number} of this cell)"
        then = "fill it in, then run it again" if self.name == _THE_CELL else _ABOVE
        return [f"{self}: {then}{place}"]


def unwritten(error: BaseException | None) -> str | None:
    """The name of the stub that raised `error`; None if `error` comes from anything else."""
    if isinstance(error, NotBegun):
        return error.name
    if not isinstance(error, NotImplementedError) or error.args != (STUB,):
        return None
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    name = frames[-1].f_code.co_qualname if frames else "<module>"
    return _THE_CELL if name == "<module>" else name.replace(".<locals>", "")
