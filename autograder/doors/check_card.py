"""How a check's result looks in a notebook: points, evidence, remedy, as HTML with a text beside it.

One panel without a script or a style sheet: its letters have the colour that the page's own have, so that it is legible
in the light and in the dark theme, and colours only repeat what a sign and a word say.
"""

import re
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from autograder.failure import CheckFailed

_COLOURS = {"✓": "#2a8a4a", "◐": "#b7791f", "✗": "#d6404a", "…": "#777", "·": "#b7791f"}  # 3:1 on white and on black
_PANEL = (
    "border:1px solid #8886;border-left:5px solid {colour};border-radius:4px;padding:.5em 1em;margin:.2em 0;"
    "max-width:64em;overflow-wrap:break-word;word-break:normal;line-height:1.5"
)
_PRE = (
    "white-space:pre-wrap;overflow-wrap:break-word;word-break:normal;margin:.3em 0;padding:.4em .7em;"
    "border-radius:4px;background:#8881;color:inherit;font-size:.92em;line-height:1.4"
)


class Card(NamedTuple):
    """What is known of a check so far. Points are None while it runs, or where the cell gives none."""

    passed: Sequence[str] = ()  # lines of evidence, as they are printed elsewhere
    earned: float | None = None
    possible: float | None = None
    failure: CheckFailed | None = None
    trouble: str = ""  # what ended the cell instead, in one line
    exhibit: str = ""  # HTML of ours
    after: Sequence[tuple[str, str]] = ()  # what can be done next: a text, and a link in the room or ""


def sign(card: Card) -> str:
    """✓ all points, ◐ some, ✗ none, · nothing to judge yet, … still running."""
    if card.failure is not None:
        return "✗"
    if card.trouble:
        return "·"
    if card.earned is None or card.possible is None:
        return "…"
    return "✓" if card.earned >= card.possible else "◐" if card.earned else "✗"


def headline(card: Card) -> str:
    """`3 of 3 points`; what there is to say first, where there are none."""
    if card.earned is not None and card.possible is not None:
        noun = "point" if card.possible == 1 else "points"
        return f"{card.earned:g} of {card.possible:g} {noun}"
    if card.trouble:
        return "Not checked"
    return "This does not hold" if card.failure is not None else "The check is running"


def as_text(card: Card) -> str:
    """The same for a program that shows no HTML."""
    parts = [*card.passed]
    if card.failure is not None:
        parts.append(str(card.failure))
    if card.trouble:
        parts.append(f"· {card.trouble}")
    if card.earned is not None:
        parts.append(headline(card))
    return "\n".join([*parts, *(text for text, _ in card.after)])


def as_html(card: Card) -> str:
    """The panel."""
    mark, colour = sign(card), _COLOURS[sign(card)]
    said = headline(card)
    shown = f'<span aria-hidden="true" style="color:{colour};font-size:1.15em">{mark}</span>'
    parts = [
        f'<div role="status" aria-label="Check: {escape(said)}" style="{_PANEL.format(colour=colour)}">',
        f"<div>{shown} <b>{escape(said)}</b></div>",
    ]
    parts += [f"<div>{_prose(line)}</div>" for line in card.passed]
    if card.trouble:
        parts.append(f"<div>{_prose(card.trouble)}</div>")
    if card.failure is not None:
        parts += _failure(card.failure, card.exhibit)
    if card.after:
        links = " · ".join(
            f'<a href="{escape(link)}">{escape(text)}</a>' if link else _prose(text) for text, link in card.after
        )
        parts.append(f'<div style="margin-top:.5em;border-top:1px solid #8886;padding-top:.3em">{links}</div>')
    return "".join([*parts, "</div>"])


def _failure(failure: CheckFailed, exhibit: str) -> list[str]:
    """What happened, the evidence, why, what to try; then the picture, which may be long. A table is the evidence."""
    is_table = "<table" in exhibit
    parts = [f'<div style="margin-top:.3em"><b>{_prose(failure.happened)}</b></div>']
    if is_table:
        parts.append(f'<div style="margin:.4em 0">{exhibit}</div>')
    elif failure.evidence:
        parts.append(_pre(failure.evidence))
    if failure.why:
        parts.append(f"<div><b>Why this usually happens:</b> {_prose(failure.why)}</div>")
    if failure.attempt:
        parts.append(f"<div><b>Try:</b> {_prose(failure.attempt)}</div>")
    if exhibit and not is_table:
        parts.append(f'<div style="margin:.6em 0 .2em">{exhibit}</div>')
    return parts


def _pre(text: str) -> str:
    return f'<pre style="{_PRE}">{escape(text)}</pre>'


def _prose(text: str) -> str:
    """Text with what stands in backquotes as code. Lines stay lines."""
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text)).replace("\n", "<br>")
