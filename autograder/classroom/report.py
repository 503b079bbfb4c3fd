"""A page about a graded class: points by task, where students fall, how hard each task is. It needs no network."""

import io
import statistics
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .copies import alike
from .marks import Paper, Task
from .screen import Row

_INK = "#123456"  # what is drawn in it gets the page's colour of text
_INKED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
_BANDS = [("nothing", "#c8553d"), ("a part", "#e3b341"), ("everything", "#2f7fb5")]
ALL = 0.999  # of a task's points, from which on it is everything; sums of parts are rounded
_WIDTH = 34  # characters of a title beside its bar
_TEMPLATES = Path(__file__).parent / "templates"


def write_report(
    path: Path, unit: str, papers: list[Paper], tasks: list[Task], rows: list[Row], untouched: dict[str, str]
) -> None:
    """Write the page. `untouched` are the answers' forms as they were released. Raises OSError."""
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, trim_blocks=True)
    totals = [paper.total for paper in papers]
    page = environment.get_template("report.html.j2").render(
        unit=unit,
        students=len(papers),
        possible=sum(task.possible for task in tasks),
        median=statistics.median(totals),
        mean=statistics.mean(totals),
        tasks=tasks,
        rows=sorted(rows, key=lambda row: (row.points is not None, -(row.points or 0), row.student)),
        all=ALL,
        titles={task.name: task.title for task in tasks},
        alike=alike({paper.student: _own(paper, untouched) for paper in papers}),
        by_task=_svg(partial(_by_task, tasks), 0.8 + 0.42 * len(tasks)),
        totals=_svg(partial(_totals, totals, sum(task.possible for task in tasks)), 2.4),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(page, encoding="utf-8")
    new.replace(path)


def _own(paper: Paper, untouched: dict[str, str]) -> dict[str, str]:
    return {task: answer for task, answer in paper.answers.items() if answer != untouched.get(task)}


def _by_task(tasks: list[Task], figure: Figure) -> None:
    """A bar for each task: the share of students with nothing, a part, everything."""
    axes = figure.subplots()
    left = [0.0] * len(tasks)
    for band, (label, colour) in enumerate(_BANDS):
        widths = [100 * sum(_band(share) == band for share in task.shares) / len(task.shares) for task in tasks]
        axes.barh(
            [textwrap.fill(task.title, _WIDTH) for task in tasks],
            widths,
            left=left,
            color=colour,
            label=label,
            height=0.7,
        )
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of students")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.legend(loc="outside upper right", ncols=3, frameon=False)


def _band(share: float) -> int:
    return 0 if share <= 0 else 2 if share >= ALL else 1


def _totals(totals: list[float], possible: float, figure: Figure) -> None:
    """How many students have how many points."""
    axes = figure.subplots()
    axes.hist(totals, bins=min(20, max(1, int(possible))), range=(0, possible or 1), color="#4c82c3", rwidth=0.9)
    axes.set_xlabel("points")
    axes.set_ylabel("students")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)


def _svg(draw: Callable[[Figure], None], height: float) -> str:
    """The picture as part of a page, in the page's own colours of text and ground."""
    text = io.StringIO()
    style: dict[Any, Any] = dict.fromkeys(_INKED, _INK) | {"svg.fonttype": "none", "svg.hashsalt": "report"}
    with rc_context(style):
        figure = Figure(figsize=(8, height), layout="constrained")
        draw(figure)
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :].replace(_INK, "currentColor")
