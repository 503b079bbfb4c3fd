"""What the file of a notebook holds, as a valid notebook, whatever program has written it.

JupyterLab forgives much, and so do other programs; what they leave in a file shall cost nobody a grade. Two attempts
are made: with everything that the format knows, and if that is not valid, with what a grade needs alone.
"""

import json
import re
import warnings
from contextlib import suppress
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.validator import normalize

from .unpacked import CannotBeUnpacked, unpacked


class NoNotebook(ValueError):
    """What was read is no notebook. The message is one line."""


def notebook_from(data: bytes) -> NotebookNode:
    """The notebook in a file's bytes, as nbformat 4.5, each cell with an id of its own. Raises `NoNotebook`.

    What stands behind a complete notebook is not read, for a program wrote over a longer file; unless it is a complete
    notebook, too: then a program has added where it should have written, and the last one is the newest. Of
    an archive the notebook in it is read.
    """
    try:
        data = unpacked(data)
    except CannotBeUnpacked as error:
        raise NoNotebook(str(error)) from None
    encoding = json.detect_encoding(data)
    try:
        text, damaged = data.decode(encoding), False
    except UnicodeDecodeError:
        text, damaged = _guessed(data, encoding), True
    try:
        content = _last_of(text)
    except json.JSONDecodeError as error:
        if damaged:
            raise NoNotebook("this file cannot be read as text; is it a notebook?") from None
        raise NoNotebook(
            f"this is no notebook, because it is no JSON (line {error.lineno}: {error.msg}). {_seen_in(text)}"
            "Download it again, or restore it from the release."
        ) from None
    except RecursionError:
        raise NoNotebook("this is no notebook: its JSON is nested too deeply.") from None
    return _notebook(content)


def _last_of(text: str) -> Any:
    """The JSON with which a text begins, or the last notebook of those that follow one another. Raises as `json`."""
    content, end = _DECODER.raw_decode(text, len(text) - len(text.lstrip()))
    with suppress(json.JSONDecodeError):
        while behind := text[end:].lstrip():
            found, end = _DECODER.raw_decode(text, len(text) - len(behind))
            content = found if isinstance(found, dict) and "cells" in found else content
    return content


def _seen_in(text: str) -> str:
    """What a text that is no JSON is, where that is plain to see: a sentence, or nothing."""
    if not text.strip():
        return "The file is empty. "
    if text.lstrip().startswith("<"):
        return "It is a web page, or something else that begins with <. "
    marks = [n for n, line in enumerate(text.splitlines(), 1) if line.startswith(("<<<<<<< ", ">>>>>>> "))]
    return f"Git has left the marks of a conflict in it, the first in line {marks[0]}. " if marks else ""


_LONGEST_NUMBER = 100  # digits; Python itself refuses to read one of more than 4300
_DEEPEST = 50  # levels of JSON; the outputs of a cell have about ten


def _whole_number(digits: str) -> int:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else 0


# Not strict: some programs write tabs and line ends into a text as they are.
_DECODER = json.JSONDecoder(strict=False, parse_int=_whole_number)


def _guessed(data: bytes, encoding: str) -> str:
    """The text of a file that is not in the encoding in which it seems to be: it is Windows' own, or damaged."""
    text = data.decode(encoding, "replace")
    if encoding.startswith("utf-8") and text.replace("\ufffd", "").isascii():  # no letter but A to Z was legible
        return data.decode("cp1252", "replace")
    return text


_KEYS_OF_TYPE = {"code": ("outputs", "execution_count"), "markdown": ("attachments",), "raw": ("attachments",)}


def _notebook(content: Any) -> NotebookNode:
    """The notebook in a file's JSON. Raises `NoNotebook`."""
    cells = [_tidied(cell) for cell in _cells(content)]
    metadata = content.get("metadata")
    if not _is_deep(content):
        with suppress(Exception):  # nbformat raises many types
            return _valid(metadata if isinstance(metadata, dict) else {}, cells)
    try:
        return _valid({}, [_bare(cell) for cell in cells])
    except Exception:
        raise NoNotebook("this is JSON, but no notebook (its cells cannot be read).") from None


def _cells(content: Any) -> list[dict]:
    """The cells of a notebook of format 4, or of an older one, which has worksheets. Raises `NoNotebook`."""
    if not isinstance(content, dict):
        raise NoNotebook("this is JSON, but no notebook (it has no cells).")
    # Some programs write the format as a text, or not at all; a newer one may keep answers in other places.
    if isinstance(content.get("nbformat"), int | float) and content["nbformat"] >= 5:
        raise NoNotebook(
            f"this is JSON, but no notebook that can be read (its format is {content['nbformat']}, not 4)."
        )
    sheets = content["worksheets"] if isinstance(content.get("worksheets"), list) else []
    lists = [sheet.get("cells") for sheet in (content, *sheets) if isinstance(sheet, dict)]
    found = [cells for cells in lists if isinstance(cells, list)]
    if not found:
        raise NoNotebook("this is JSON, but no notebook (it has no cells).")
    return [cell for cells in found for cell in cells if isinstance(cell, dict)]


def _tidied(cell: dict) -> dict:
    """The cell with the keys of its type alone, its text in one piece. Its outputs and metadata may still be wrong."""
    kind = _kind(cell)
    tidied = {key: cell[key] for key in ("id", "metadata", *_KEYS_OF_TYPE[kind]) if key in cell}
    tidied |= {"cell_type": kind, "source": _text_of(cell.get("source", cell.get("input")))}  # `input`: format 3
    if not (isinstance(cell.get("id"), str) and re.fullmatch(r"[\w-]{1,64}", cell["id"], re.ASCII)):
        tidied.pop("id", None)
    if not isinstance(tidied.get("metadata"), dict):
        tidied["metadata"] = {}
    if kind == "code":
        tidied = {"outputs": [], "execution_count": None} | tidied
    return tidied


def _kind(cell: dict) -> str:
    """The type of a cell; raw for one that is not known."""
    named = cell.get("cell_type", "code" if "outputs" in cell else "raw")
    kind = named.lower() if isinstance(named, str) else "raw"
    kind = "code" if kind == "python" else kind
    return kind if kind in _KEYS_OF_TYPE else "raw"


def _text_of(source: Any) -> str:
    lines = [line for line in (source if isinstance(source, list) else [source]) if isinstance(line, str)]
    ended = any(len(f"{line}|".splitlines()) > 1 for line in lines)
    text = ("" if ended else "\n").join(lines)  # a program that knew lines, and not that each has its end
    return re.sub("\r+\n", "\n", text)  # read once more, it is the same


def _bare(cell: dict) -> dict:
    """The cell without what a grade does not need: outputs are made anew, and pictures in a text are lost."""
    entry = cell["metadata"].get("nbgrader")
    plain = (
        {key: value for key, value in entry.items() if not isinstance(value, dict | list)}
        if isinstance(entry, dict)
        else {}
    )
    bare = {key: value for key, value in cell.items() if key != "attachments"}
    bare["metadata"] = {"nbgrader": plain} if plain else {}
    return bare | ({"outputs": [], "execution_count": None} if cell["cell_type"] == "code" else {})


def _is_deep(content: Any) -> bool:
    """Whether JSON is nested so deeply that it cannot be copied everywhere."""
    level = [content]
    for _ in range(_DEEPEST):
        inner = (part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list))
        level = [value for values in inner for value in values]
    return bool(level)


def _valid(metadata: dict, cells: list[dict]) -> NotebookNode:
    """A notebook of these cells. Raises many types of errors where one of them is none."""
    content = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a missing id and one that occurs twice are repaired, and warned of
        content = normalize(content, strip_invalid_metadata=True)[1]
    # A half of a character, which a program may leave behind, can neither be sent to a kernel nor written to a file.
    text = json.dumps(content, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    notebook = nbformat.v4.reads(text)
    nbformat.validate(notebook)
    return notebook
