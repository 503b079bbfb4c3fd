"""Hidden tests stay hidden: what they print while they are graded, and what of them the feedback may show.

A hidden test runs in the student's kernel, so an answer can read it and hand it on in disguise (letter by letter, as
a picture, through a file). What is kept out is what shows it as it is.
"""

import html
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from nbconvert.filters import strip_ansi
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode

from .faults import TITLES
from .graded_notebook import is_graded

_HIDDEN = "A hidden check of this cell failed: the same specification, on inputs that are not shown."
_BEGIN, _END = "BEGIN HIDDEN TESTS", "END HIDDEN TESTS"
_LONG = 12  # characters from which a line is no coincidence


@contextmanager
def hidden_output_dropped(notebook: NotebookNode) -> Iterator[None]:
    """Run the notebook in this block: afterwards the outputs of the hidden regions are gone.

    A check that passes says on what, and an answer may print its arguments: either would name a hidden input. Errors
    and the cell's result stay, because they are graded.
    """
    graded = [
        (i, cell.source, region)
        for i, cell in enumerate(notebook.cells)
        if is_graded(cell) and (region := _region(cell.source))
    ]
    # What a region prints where it begins and where it ends: nobody who prints can guess it.
    word = secrets.token_hex(16)
    marks = f"\x1d{word}\x1d", f"\x1e{word}\x1e"
    for index, source, region in graded:
        notebook.cells[index].source = _announcing(source, *region, marks)
    try:
        yield
    finally:
        for index, source, _ in graded:
            cell = notebook.cells[index]
            cell.source, cell.outputs = source, _visible(cell.outputs, marks)


class HideHiddenTests(Preprocessor):
    """Take the hidden tests, and whatever shows them, out of the feedback.

    Stripping the source is not enough: a traceback quotes the lines around the one that failed. So a graded
    cell with hidden tests keeps of a traceback only its last line, and of a hidden failure only that there
    was one. An answer can print the cell that calls it: a hidden line is taken out of every output.
    """

    enabled = True

    def preprocess(self, nb, resources):
        """Clean every cell."""
        secret = _secret(nb)
        for cell in nb.cells:
            if is_graded(cell) and (region := _region(cell.source)):
                _clean_check(cell, *region)
        for output in (output for cell in nb.cells for output in cell.get("outputs", [])):
            if secret:
                _censor(output, secret)
        return nb, resources


def _region(source: str) -> tuple[int, int] | None:
    """The lines, counted from 0, of the comments around the hidden tests."""
    lines = source.split("\n")
    begin = next((i for i, line in enumerate(lines) if _BEGIN in line), None)
    return None if begin is None else (begin, next(i for i, line in enumerate(lines) if _END in line))


def _announcing(source: str, begin: int, end: int, marks: tuple[str, str]) -> str:
    """The same cell, line for line, whose hidden region prints where it begins and ends."""
    lines = source.split("\n")
    last = all(not line.strip() or line.lstrip().startswith("#") for line in lines[end + 1 :])
    # The value of the last statement is what the cell earns: behind the last one nothing may be added.
    for at, mark in ((begin, marks[0]), *([] if last else [(end, marks[1])])):
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        lines[at] = f'{indent}__import__("builtins").print({mark!r}, end="", flush=True)'
    return "\n".join(lines)


def _visible(outputs: list[NotebookNode], marks: tuple[str, str]) -> list[NotebookNode]:
    """The outputs without what was printed and displayed between the two marks."""
    begun = any(o.output_type == "stream" and marks[0] in o.text for o in outputs)
    failed = any(output.output_type == "error" for output in outputs)
    inside = not begun and not failed  # the mark has been suppressed: nobody knows what was printed where
    kept = []
    for output in outputs:
        if output.output_type == "stream":
            parts = re.split(f"({marks[0]}|{marks[1]})", output.text)
            output.text = ""
            for part in parts:
                if part in marks:
                    inside = part == marks[0]
                elif not inside:
                    output.text += part
            if output.text:
                kept.append(output)
        elif not inside or output.output_type in ("error", "execute_result"):
            kept.append(output)
    return kept


def _clean_check(cell: NotebookNode, begin: int, end: int) -> None:
    """A graded cell: its errors by line number, then its source."""
    for output in cell.outputs:
        if output.output_type == "error":
            number = _line_number(output)
            if number is None or begin < number <= end:
                output.ename, output.evalue, output.traceback = "HiddenCheck", _HIDDEN, [_HIDDEN]
            elif output.ename not in ("CheckFailed", "NotBegun", "CellsNotRun", *TITLES):
                output.traceback = [f"{output.ename}: {output.evalue} (line {number} of this cell)"]
    lines = cell.source.split("\n")
    cell.source = "\n".join(lines[:begin] + lines[end + 1 :])


def _line_number(output: NotebookNode) -> int | None:
    """The line of the graded cell in which it failed, counted from 1; 0 if no line of it is shown."""
    if output.ename in TITLES:
        return 0
    return failing_line(output)


def failing_line(output: NotebookNode) -> int | None:
    """The first line of the executed cell that an error's traceback names, counted from 1: the one that was running."""
    text = strip_ansi("\n".join(output.traceback))
    found = re.search(r"Cell In\[\d+\], line (\d+)|\(line (\d+) of this cell\)", text)
    return int(found[1] or found[2]) if found else None


def _secret(notebook: NotebookNode) -> re.Pattern[str] | None:
    """What finds a hidden line: a long one anywhere, a short one where it is a line of its own."""
    hidden, shown = [], []
    for cell in notebook.cells:
        lines = cell.source.split("\n")
        region = _region(cell.source) if is_graded(cell) else None
        begin, end = region or (0, -1)
        hidden += [line.strip() for line in lines[begin : end + 1]]
        shown += lines[:begin] + lines[end + 1 :]
    if not hidden:
        return None
    visible, words = "\n".join(shown), {line.strip() for line in shown}
    long = {line for line in hidden if len(line) >= _LONG and line not in visible}
    short = {line for line in hidden if 3 < len(line) < _LONG and line not in words}
    # As it stands, and as it stands in HTML and in a string that shows a string.
    forms = {form for line in long for form in (line, html.escape(line, quote=False), repr(line)[1:-1])}
    anywhere = "|".join(map(re.escape, sorted(forms, key=len, reverse=True)))
    alone = "|".join(map(re.escape, sorted(short)))
    marks = rf"^[^\n]*(?:{_BEGIN}|{_END})[^\n]*"  # from the start of a line: a long line is searched once
    return re.compile("|".join(filter(None, [anywhere, alone and rf"^[ \t]*(?:{alone})[ \t]*$", marks])), re.MULTILINE)


def _censor(output: NotebookNode, secret: re.Pattern[str]) -> None:
    def clean(text: str) -> str:
        plain = strip_ansi(text)  # IPython colours the parts of a line
        return secret.sub("[hidden]", plain) if secret.search(plain) else text

    if output.output_type == "stream":
        output.text = clean(output.text)
    elif output.output_type == "error":
        output.evalue, output.traceback = clean(output.evalue), [clean(part) for part in output.traceback]
    else:
        output.data = {kind: clean(value) if isinstance(value, str) else value for kind, value in output.data.items()}
