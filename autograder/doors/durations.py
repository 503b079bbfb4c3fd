"""How long a notebook takes whoever works through it, estimated from its words, its code and its tasks.

In a text, `{duration}` stands for the whole notebook and `{stage}` for the part from that cell to the next with a
`{stage}`; the build writes the estimates there, so that they stay true when a lesson grows. Stages add up to the whole.
"""

import itertools
import math
import re
from collections.abc import Sequence

from nbformat import NotebookNode

# Adults read plain prose at some 238 words a minute (Brysbaert 2019, doi 10.1016/j.jml.2019.104047), and new technical
# text more slowly. The other rates are rough: seconds to read a line of code, to look at what a cell shows, to think of
# a guess, and to find, write and try one line of an answer.
WORDS_A_MINUTE = 150
MINUTES_A_LINE = 5 / 60
MINUTES_AN_OUTPUT = 15 / 60
MINUTES_A_GUESS = 45 / 60
MINUTES_AN_ANSWER_LINE = 1.25

_GUESS = re.compile(r"^guess\w* = None", re.MULTILINE)
_ANSWER = re.compile(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", re.DOTALL)
_HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS\n.*?### END HIDDEN TESTS", re.DOTALL)


def is_folded(cell: NotebookNode) -> bool:
    """Whether JupyterLab shows what the cell prints and not its source."""
    return bool(cell.metadata.get("jupyter", {}).get("source_hidden"))


def minutes(cells: Sequence[NotebookNode]) -> float:
    """Minutes that these cells take: reading what is in view, guessing, and writing the answers."""
    total = 0.0
    for cell in cells:
        if cell.cell_type == "markdown":
            total += len(cell.source.split()) / WORDS_A_MINUTE
            continue
        answers = [line for answer in _ANSWER.findall(cell.source) for line in answer.splitlines() if line.strip()]
        total += len(answers) * MINUTES_AN_ANSWER_LINE + MINUTES_AN_OUTPUT
        total += len(_GUESS.findall(cell.source)) * MINUTES_A_GUESS
        if not is_folded(cell):
            read = _HIDDEN.sub("", _ANSWER.sub("", cell.source)).splitlines()
            total += sum(bool(line.strip()) for line in read) * MINUTES_A_LINE
    return total


def in_words(time: float) -> str:
    """Minutes as one says them: "15 minutes", "an hour and a half", "3 hours"."""
    if time < 57.5:
        return f"{max(5, 5 * round(time / 5))} minutes"
    halves = round(time / 30)
    hours, half = divmod(halves, 2)
    whole = "an hour" if hours == 1 else f"{hours} hours"
    if not half:
        return whole
    return "an hour and a half" if hours == 1 else f"{hours} and a half hours"


def in_fives(times: Sequence[float]) -> list[int]:
    """Minutes as multiples of five, none of them 0, that add up to the rounded sum: what lost most is rounded up."""
    rounded = [max(5, 5 * math.floor(time / 5)) for time in times]
    left = max(0, round((sum(times) - sum(rounded)) / 5))
    for place in sorted(range(len(times)), key=lambda i: rounded[i] - times[i])[:left]:
        rounded[place] += 5
    return rounded


def write_durations(cells: Sequence[NotebookNode]) -> None:
    """Put the estimates where the text of these cells asks for them."""
    starts = [i for i, cell in enumerate(cells) if cell.cell_type == "markdown" and "{stage}" in cell.source]
    stages = in_fives([minutes(cells[start:end]) for start, end in itertools.pairwise([*starts, len(cells)])])
    for start, time in zip(starts, stages, strict=True):
        cells[start].source = cells[start].source.replace("{stage}", in_words(time))
    whole = in_words(minutes(cells))
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = cell.source.replace("{duration}", whole)
