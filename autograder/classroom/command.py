"""The command line: `grade`, one command for a laptop and for a cluster."""

import re
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_SETTING = re.compile(r"--[A-Z]\w*(\.\w+)+=.*", re.DOTALL)
_MISSING = (
    "Grading a class needs the course's extra `class`, and {name} is missing: "
    "`.venv/bin/pip install -c requirements.lock -e '.[class]'`"
)


@app.command(context_settings={"ignore_unknown_options": True})
def grade(
    units: Annotated[list[str] | None, typer.Argument(help="which units: 05_the_cache, or 5")] = None,
    every: Annotated[bool, typer.Option("--all", help="every unit that somebody has handed in")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="how many at once; if not said, one for each core")] = None,
    scheduler: Annotated[str | None, typer.Option(help="a Dask cluster: tcp://host:8786 or tls://host:8786")] = None,
    student: Annotated[list[str] | None, typer.Option(help="this student alone; several times: these")] = None,
    again: Annotated[bool, typer.Option("--again", help="also what has a grade for this very text")] = False,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="open Dask's pages: what runs where")] = False,
    report: Annotated[bool, typer.Option("--report", help="write report/UNIT.html: where the class falls")] = False,
    table: Annotated[Path | None, typer.Option("--csv", help="write the points into this file, too")] = None,
) -> None:
    """Grade a class at once, with the points of `nbgrader autograde`.

    The grades go into nbgrader's gradebook. What is in submitted/ and has no grade yet is graded, on all cores of this
    machine or on a cluster. It can be stopped at any moment; the same command goes on. Settings of nbgrader's can
    follow: --RunNotebook.memory=2

    The exit status is 0 if every submission has a grade, also one in which something went wrong; 1 if one has none, if
    a file could not be written, or if it was stopped; 2 if nothing was begun.
    """
    words = units or []
    settings = [word for word in words if _SETTING.fullmatch(word)]
    names = [word for word in words if word not in settings]
    if unknown := next((name for name in names if name.startswith("-")), ""):
        raise typer.BadParameter(f"there is no option {unknown}; `--help` lists them.")
    try:
        import distributed  # noqa: F401

        from .grading import Wishes, grade_class
    except ModuleNotFoundError as error:
        typer.echo(_MISSING.format(name=error.name))
        raise typer.Exit(2) from None
    from rich.console import Console

    wishes = Wishes(names, every, workers, scheduler, student or [], again, dashboard, table, report, settings)
    raise typer.Exit(grade_class(wishes, Console()))


def main() -> None:
    """`course grade`, alone."""
    app(prog_name="course grade")
