"""The docstrings of the package as Sphinx reads them.

They are written for a terminal and for JupyterLab: a table of parameters, name and text apart by two blanks or more,
code in single backticks, an example indented by four. Sphinx wants field lists, double backticks, and a directive.
"""

import re
from collections.abc import Iterator

_PARAMETER = re.compile(r"(\w+)  +(\S.*)$")


def as_restructured_text(lines: list[str]) -> list[str]:
    """The lines of a docstring in reStructuredText."""
    return list(_converted(lines))


def _converted(lines: list[str]) -> Iterator[str]:
    kind = "text"  # of the line before: "text", "parameter" or "code"
    for line in lines:
        if not line.strip():
            yield ""
            if kind == "parameter":
                kind = "text"
        elif found := _PARAMETER.match(line):
            kind = "parameter"
            yield f":param {found[1]}: {_inline(found[2])}"
        elif kind == "parameter" and line[0] == " ":
            yield f"    {_inline(line.strip())}"
        elif line.startswith("    "):
            if kind != "code":
                yield from (".. code-block:: python", "")
            kind = "code"
            yield line
        else:
            if kind != "text":
                yield ""
            kind = "text"
            yield _inline(line)


def _inline(text: str) -> str:
    """Code in double backticks; outside of it no bar that would begin a substitution, no trailing underscore."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(f"`{p}`" if p.startswith("`") else re.sub(r"([|\\]|_(?=\W|$))", r"\\\1", p) for p in parts)
