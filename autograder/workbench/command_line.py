"""`course`, the command line: what each command is asked, what it prints, and how it ends.

0: all is well. 1: points are lacking, or something must be mended. 2: it cannot do what it was asked. 130: Ctrl-C.
What a command needs is imported when it runs, so that `course` and `course --help` answer at once.
"""

import importlib
import importlib.util
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from .bad_input import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from .outline import Task, Unit

BESIDE = {"grade": "autograder.classroom.command"}  # commands of another wing: name -> the module that holds its `app`


class _Commands(TyperGroup):
    """The commands of this module and, where they are installed, those of the wings beside it, imported when needed."""

    def list_commands(self, ctx):
        """As in the parent class."""
        return [*super().list_commands(ctx), *(name for name in BESIDE if _is_there(BESIDE[name]))]

    def get_command(self, ctx, cmd_name):
        """As in the parent class."""
        if cmd_name in BESIDE and _is_there(BESIDE[cmd_name]):
            other = typer.main.get_command(importlib.import_module(BESIDE[cmd_name]).app)
            return getattr(other, "commands", {}).get(cmd_name, other)
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx):
        """As in the parent class."""
        with _one_line():
            return super().invoke(ctx)


@contextmanager
def _one_line() -> Iterator[None]:
    """Whatever cannot be done in this block ends the command with one line, and so does Ctrl-C."""
    try:
        yield
    except BadInput as error:
        typer.echo(f"course: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("\ncourse: stopped. Nothing is lost.", err=True)
        sys.exit(130)


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: boxes take as long to import as all the rest
    context_settings={"help_option_names": ["-h", "--help"]},
)

_WHICH = "say which task: {}/1, for instance."
_UNIT = "5, 05, the_cache or 05_the_cache"
_TASK = f"{_UNIT}; a task by its number or name: 5/3"
OneUnit = Annotated[str | None, typer.Argument(metavar="UNIT", help=_UNIT, show_default=False)]
OneTask = Annotated[str, typer.Argument(metavar="UNIT[/TASK]", help=_TASK)]
Seconds = Annotated[float, typer.Option("--cell-seconds", min=1, help="Time limit of each cell in seconds.")]


def _say_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"course {version('just-in-time')} (JAX {version('jax')}, Python {sys.version.split()[0]})")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def where(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show which version this is.")
    ] = False,
) -> None:
    """Just in Time: how JAX compiles Python.

    Without a command: where you are, and the one thing to do next.
    """
    if ctx.invoked_subcommand is None:
        _show_where()


def _show_where() -> None:
    from .course_map import print_map
    from .outline import find_course, read_units
    from .progress import next_thing, progress_in
    from .room import keep_record, room_of

    course = find_course()
    room = room_of(course)
    keep_record(course)
    progress = progress_in(room, read_units(course))
    print_map(_console(), progress, next_thing(room, progress))


@app.command()
def start(
    unit: OneUnit = None,
    options: Annotated[list[str] | None, typer.Argument(metavar="[-- OPTIONS]", help="Options of JupyterLab.")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser: print the address.")] = False,
) -> None:
    """Open JupyterLab in your room, at UNIT or at what is next."""
    from . import jupyterlab
    from .outline import find_unit
    from .progress import next_in, next_thing, progress_in

    more = list(options or [])
    if unit is not None and unit.startswith("-"):  # what stands after `--`, when no unit stands before it
        more.insert(0, unit)
        unit = None
    course, units = _course()
    wanted = None if unit is None else find_unit(units, unit)
    room = _open_room(course, units)
    progress = progress_in(room, units)
    ahead = next_thing(room, progress) if wanted is None else next_in(room, progress[units.index(wanted)])
    opened = room / units[0].lesson if ahead is None else ahead.place
    jupyterlab.run(jupyterlab.learners_command(room, opened, ["--no-browser"] * no_browser + more), course)


@app.command()
def check(
    task: Annotated[str | None, typer.Argument(metavar="UNIT[/TASK]", help=_TASK, show_default=False)] = None,
    cell_seconds: Seconds = 60,
) -> None:
    """Run the checks of a unit, of a task, or of what you have begun.

    Ends with 0 if every point was earned, with 1 if not.
    """
    from .first_page import write_page
    from .progress import State, progress_in

    course, units = _course()
    chosen = [] if task is None else [_tasks_called(units, task)]
    room = _open_room(course, units)
    if task is None:
        begun = (p.unit for p in progress_in(room, units) if p.tasks and p.state is not State.NOT_BEGUN)
        chosen = [(unit, unit.tasks) for unit in begun]
        if not chosen:
            typer.echo("No exercise is begun yet. `course` says what is next.")
            raise typer.Exit(1)

    from .run_checks import print_checks  # the rest of the grader

    console = _console()
    complete = [print_checks(console, unit, unit.exercise_in(room), tasks, cell_seconds) for unit, tasks in chosen]
    write_page(room, units)
    raise typer.Exit(0 if all(complete) else 1)


@app.command()
def watch(
    task: Annotated[str | None, typer.Argument(metavar="UNIT[/TASK]", help=_TASK, show_default=False)] = None,
    cell_seconds: Seconds = 60,
) -> None:
    """Run the checks again each time you save. Ctrl-C ends it."""
    from .first_page import write_page
    from .watch import saved_units

    course, units = _course()
    chosen = [(unit, unit.tasks) for unit in units if unit.tasks] if task is None else [_tasks_called(units, task)]
    room = _open_room(course, units)

    from .run_checks import print_checks

    console = _console()
    where = "the exercises"
    if task is not None:
        ((unit, tasks),) = chosen
        one = f", task {tasks[0].number}: {tasks[0].title}," if len(tasks) < len(unit.tasks) else ""
        where = f"{unit.number} · {unit.title}{one}"
    console.print(
        f"Watching {where} in {room}: save a notebook, and its checks run. Ctrl-C ends.", markup=False, highlight=False
    )
    tasks_of = {unit.name: tasks for unit, tasks in chosen}
    for saved in saved_units({unit.exercise_in(room): unit for unit, _ in chosen}):
        console.rule()
        try:
            print_checks(console, saved, saved.exercise_in(room), tasks_of[saved.name], cell_seconds)
        except BadInput as error:  # half a notebook, for instance: the next time it is saved it may be whole
            typer.echo(f"course: {error}", err=True)
        write_page(room, units)


@app.command()
def hint(
    task: OneTask,
    again: Annotated[bool, typer.Option("--again", help="Show once more what was shown.")] = False,
) -> None:
    """Show the next hint of a task: one more each time, three in all."""
    from .hints import next_hints
    from .outline import find_task

    course, units = _course()
    unit, one, cell = find_task(units, task)
    if one is None:
        raise BadInput(_WHICH.format(int(unit.number)) if unit.tasks else "lessons have no hints.")
    room = _open_room(course, units)
    console = _console()
    for text in next_hints(room, unit, one, cell, again):
        console.print(text, end="\n\n", markup=False, highlight=False)


@app.command()
def solution(task: OneTask) -> None:
    """Show our answer to a task, once you have all of its points.

    Ends with 1 if points are lacking.
    """
    from .outline import find_task
    from .room import room_of
    from .solution import answers, lacking

    course, units = _course()
    unit, one, _ = find_task(units, task)
    if one is None:
        raise BadInput(_WHICH.format(int(unit.number)) if unit.tasks else "lessons have no solutions.")
    if line := lacking(room_of(course), unit, one):
        typer.echo(line)
        raise typer.Exit(1)
    typer.echo("\n\n\n".join(answers(unit, one)))


@app.command()
def reset(
    task: Annotated[str, typer.Argument(metavar="UNIT[/TASK]", help=f"{_UNIT}; 5/3 for a task, 5/lesson for a lesson")],
    beside: Annotated[
        bool, typer.Option("--beside", help="Leave yours as it is, and put the course's text beside it.")
    ] = False,
) -> None:
    """Back to the untouched text; a copy of yours is kept beside it."""
    from .first_page import write_page
    from .outline import LESSON, find_task
    from .reset import put_beside, reset_notebook, reset_task

    course, units = _course()
    unit, one, what = find_task(units, task)
    room = _open_room(course, units)
    place = unit.lesson if what == LESSON or unit.exercise is None else unit.exercise
    try:
        if beside:
            typer.echo(f"The course's text lies in {put_beside(room, unit, place)}; yours is as it was.")
            return
        if one is None:
            kept = reset_notebook(room, unit, place)
            said = f"{room / place} is as it came"
        else:
            kept = reset_task(room, unit, one)
            said = f"Task {one.number} of {room / place} is as it came; the other tasks are yours"
    except OSError as error:
        raise BadInput(f"{error.filename}: this cannot be written ({error.strerror}).") from None
    write_page(room, units)
    if kept is None:
        typer.echo(f"{said}. There was nothing of yours to keep.")
        return
    typer.echo(f"{said}.")
    typer.echo(f"What was there is kept in {kept}.")
    typer.echo("If it is open in JupyterLab: File, Reload Notebook from Disk.")


@app.command()
def doctor() -> None:
    """What this machine has, and what mends what does not fit.

    Ends with 1 if something must be mended.
    """
    from rich.table import Table
    from rich.text import Text

    from .doctor import Fit, findings
    from .outline import find_course, read_units

    course, console, found = find_course(), _console(), []
    with console.status("looking around") as status:
        for finding in findings(course, read_units(course)):
            found.append(finding)
            status.update(f"{finding.what} was looked at")
    styles = {Fit.FITS: "green", Fit.NOTE: "yellow", Fit.MEND: "red"}
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for what, line, fit, _ in found:
        table.add_row(Text(fit, style=styles[fit]), Text(what), Text(line))
    console.print(table)
    for title, kind in ((f"To be mended, in {course}:", Fit.MEND), (f"If you like, in {course}:", Fit.NOTE)):
        commands = {finding.mend: finding.what for finding in found if finding.fit is kind and finding.mend}
        if commands:
            console.print(f"\n{title}", style=styles[kind])
            for mend, what in commands.items():  # a command stands on a line of its own, to be copied whole
                console.print(f"  {what}\n    {mend}", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(1 if any(finding.fit is Fit.MEND for finding in found) else 0)


@app.command()
def export(
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="A .json or .csv; else JSON is shown.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Your own record: unit, task, points, and when its checks ran last."""
    from .export import as_json, rows, write
    from .outline import find_course, read_units
    from .room import room_of

    course = find_course()
    table = rows(room_of(course), read_units(course))
    if to is None:
        typer.echo(as_json(table), nl=False)
    else:
        write(table, to, force)
        typer.echo(f"{to} holds {len(table)} tasks.")


@app.command()
def teach(
    options: Annotated[list[str] | None, typer.Argument(metavar="[-- OPTIONS]", help="Options of JupyterLab.")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser: print the address.")] = False,
) -> None:
    """Open JupyterLab for a teacher: solutions, nbgrader's panels."""
    from . import jupyterlab
    from .outline import find_course

    course = find_course()
    jupyterlab.run(jupyterlab.teachers_command(course, ["--no-browser"] * no_browser + list(options or [])), course)


@app.command(name="new-unit")
def new_unit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="07_pytrees; or pytrees, for the next free number.")],
    title: Annotated[str, typer.Option("--title", help="What it is called; else its name in words.")] = "",
    into: Annotated[
        Path | None, typer.Option("--into", metavar="FOLDER", help="A course of your own; made if it is not there.")
    ] = None,
) -> None:
    """For a teacher: a whole small unit to begin from.

    It builds, and its solution earns every point; replace it piece by piece. Nothing is ever written over.
    """
    from .new_unit import new_unit
    from .outline import find_course

    made = new_unit(into or find_course(), name, title)
    typer.echo(f"The unit {made.name} is begun in {made.course.resolve()}:")
    for place in made.files:
        typer.echo(f"  {place}")
    typer.echo("Next, in that folder:")
    typer.echo("  build-notebooks                 # the lesson, the solution and the exercise as notebooks")
    typer.echo("  course teach                    # JupyterLab, with solutions and nbgrader's panels")
    typer.echo(f"  pytest solutions/{made.name}/{made.name[3:]}.ipynb    # does the solution earn every point?")
    if made.row:
        typer.echo(f"A line for the table of units in README.md:\n  {made.row}")
    if made.has_tests:
        typer.echo('What else this course\'s tests ask for is in CONTRIBUTING.md, "Add a unit", from 4 on.')


def _console() -> "Console":
    from rich.console import Console

    return Console()


def _course() -> "tuple[Path, list[Unit]]":
    """The course's folder and its units. A name is looked for in them before anything is written."""
    from .outline import find_course, read_units

    course = find_course()
    return course, read_units(course)


def _tasks_called(units: "list[Unit]", name: str) -> "tuple[Unit, list[Task]]":
    """The unit and those of its tasks that `UNIT[/TASK]` means. Raises `BadInput`, also for what has no checks."""
    from .outline import LESSON, find_task

    unit, one, what = find_task(units, name)
    if what == LESSON or not unit.tasks:
        raise BadInput(f"the lesson of {unit.name} has no checks.")
    return unit, [one] if one else unit.tasks


def _open_room(course: Path, units: "list[Unit]") -> Path:
    """The learner's room, made or brought up to date; says what was done."""
    from .first_page import write_page
    from .room import name_of, open_room, room_of

    room = room_of(course)
    opened = open_room(course, units)
    if opened.made:
        typer.echo(f"Your room is made: {room}. What you do there is yours.")
    for name in opened.refreshed:
        typer.echo(f"{name} follows the course's new text; you had changed nothing in it.")
    for name in opened.behind:
        line = f"`course reset {name_of(name)} --beside` puts it beside yours."
        typer.echo(f"{name} is yours, and the course has a new text: {line}")
    write_page(room, units)
    return room


def main() -> None:
    """The command `course`. Alone it is answered at once: what Typer needs to read a command line takes longer."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a block or a tick shows a question mark
    if len(sys.argv) > 1:
        app(prog_name="course")
    with _one_line():
        _show_where()
