"""Mutants of the reference answers, graded: does a small change of a right answer lose points?

    python benchmarks/mutants.py                            every mutant that has no verdict for the text of its task
    python benchmarks/mutants.py --unit 05 --task bucket    of one unit, of one task
    python benchmarks/mutants.py --unit 05 --only-survivors those that survived, again
    python benchmarks/mutants.py --unit 05 --most 20        at most so many of a task; always the same ones
    python benchmarks/mutants.py --unit 05 --survivors      list the survivors of the table, with their cells
    python benchmarks/mutants.py --unit 05 --toml           list the survivors as entries of mutants/05_the_cache.toml
    python benchmarks/mutants.py --unit 05 --prove          list the mutants that die in a hidden region only
    python benchmarks/mutants.py --unit 05 --try file.py    grade the cells of a file of wrong or right answers
    python benchmarks/mutants.py --unit 05 --try file.py --times 20   so often each; name those that end differently
    python benchmarks/mutants.py --list --unit 05           only list the mutants
    python benchmarks/mutants.py --table                    write mutants.md from what has been graded

When a task changes, only those are graded again that survived or were killed by something that has changed.

Reads the text of a solution (.py), no notebook. Writes mutants/NN_name.csv, and mutants.md. A mutant that survives is
either a hole in a check or does what the answer does: then it is listed in mutants/NN_name.toml, with the reason.
"""

import argparse
import json
import random
import time
import tomllib
from collections import Counter
from collections.abc import Container
from pathlib import Path

import jax
import jupytext
from _grader import Grader, NotSolved, Verdict, last_line
from _mutants import Mutant, mutants
from _table import machine, read, write
from _unit import COURSE, UNITS, VISIBLE, Unit, unit_from_text

TABLES = Path(__file__).with_suffix("")
FIELDS = ["unit", "task", "operator", "change", "line", "verdict", "by", "region", "proves", "said", "jax", "text"]
FIELDS += ["rests_on"]
OWN_CELL = "its own cell"  # in `by`, of a mutant that does not run
SECONDS = 10
SLOW = 9  # seconds of a mutant that is worth a line
SAID = 160  # characters of a message that are kept


def table_of(unit: str) -> Path:
    return TABLES / f"{unit}.csv"


def key(row: dict) -> tuple[str, str, str]:
    return row["task"], row["operator"], row["change"]


def equivalents(unit: str) -> dict[tuple[str, str, str], str]:
    """The mutants that do what the answer does -> the reason, from the file that is written by hand."""
    file = TABLES / f"{unit}.toml"
    entries = tomllib.loads(file.read_text())["equivalent"] if file.exists() else []
    found = {key(entry): entry["reason"] for entry in entries}
    if len(found) < len(entries):
        raise SystemExit(f"{file.name}: a mutant is listed twice")
    return found


def faults(unit: str, rows: list[dict]) -> list[str]:
    """What is wrong with the list of equivalents: an entry that is no mutant any more, or one that is killed."""
    verdicts = {key(row): row for row in rows}
    found = []
    for name in equivalents(unit):
        if name not in verdicts:
            found.append(f"{unit}.toml lists a mutant that does not exist: {', '.join(name)}")
        elif verdicts[name]["verdict"] == "killed":
            found.append(f"{unit}.toml calls equivalent what {verdicts[name]['by']} kills: {', '.join(name)}")
    return found


def row_of(unit: Unit, mutant: Mutant, verdict: Verdict, text: str) -> dict:
    return {
        "unit": unit.name,
        "task": mutant.task,
        "operator": mutant.operator,
        "change": mutant.change,
        "line": mutant.line,
        "verdict": "killed" if verdict.killed else "survived",
        "by": verdict.by or (OWN_CELL if verdict.killed else ""),
        "region": verdict.region or "",
        "proves": "; ".join(verdict.proves),
        "said": sentence(verdict.said)[:SAID],
        "jax": jax.__version__,
        "text": text,
        "rests_on": unit.rests_on(mutant.task, verdict.by, verdict.region) if is_seen(verdict) else "",
    }


def is_seen(verdict: Verdict) -> bool:
    """Whether it is a kill, and known where: not that of a mutant that ran too long."""
    return verdict.killed and verdict.region is not None


def still_dies(unit: Unit, row: dict) -> bool:
    """Whether a mutant is killed by what has killed it: that check asks what it asked, and stops where it stopped."""
    if not row["rests_on"] or row["by"] not in {OWN_CELL, *unit.fed_by(row["task"])}:
        return False
    by, (_, _, lines) = "" if row["by"] == OWN_CELL else row["by"], row["rests_on"].partition("/")
    now = unit.rests_on(row["task"], by, int(row["region"] or VISIBLE), int(lines) if lines else None)
    return now == row["rests_on"]


def sentence(message: str) -> str:
    """What a message says, for a wrong answer that is to fail with it: no line that may hold a random number."""
    happened = last_line(message).removeprefix("✗ ")
    why = next((line for line in message.splitlines() if "Why this usually happens:" in line), "")
    if any(character.isdigit() for character in happened) and why:
        happened = why.split(":", 1)[1].strip()
    return happened.split(". ")[0].removesuffix(".")


def grade_unit(unit: Unit, chosen: argparse.Namespace) -> None:
    """Grade what is chosen and has no verdict yet, task by task; the table is written after each."""
    rows = {key(row): row for row in read(table_of(unit.name))}
    listed = equivalents(unit.name)
    with Grader(unit, chosen.seconds) as grader:
        for task in chosen.task or unit.answers:
            if task not in unit.answers:
                continue
            text, all_mutants = unit.digest(task), mutants(unit, task)
            sampled = all_mutants if chosen.most is None else sample(all_mutants, chosen.most)
            names = {mutant.key for mutant in all_mutants}
            rows = {name: row for name, row in rows.items() if name[0] != task or name in names}
            if not chosen.again:
                for row in rows.values():
                    if row["task"] == task and still_dies(unit, row):
                        row["text"] = text
            waiting = [m for m in sampled if is_waiting(rows.get(m.key), text, chosen)]
            if not waiting:
                continue
            began = time.perf_counter()
            print(f"{unit.name} {task}: {len(waiting)} of {len(all_mutants)} mutants", flush=True)
            graded = grade_task(grader, waiting)
            for mutant, verdict in graded:
                rows[mutant.key] = row_of(unit, mutant, verdict, text)
            keep(unit, rows, listed)
            alive = [m for m, verdict in graded if not verdict.killed and m.key not in listed]
            for mutant in alive:
                print(f"  survived: {mutant.operator}: {mutant.change}   (line {mutant.line})")
            seconds = time.perf_counter() - began
            print(
                f"  {len(graded) - len(alive)} killed or equivalent, {len(alive)} survived, {seconds:.0f} s", flush=True
            )
    keep(unit, rows, listed)  # a kill that still stands is of today's text
    for fault in faults(unit.name, list(rows.values())):
        print(fault)


def keep(unit: Unit, rows: dict, listed: Container) -> None:
    """Write the unit's table, in the order of its tasks. `listed`: the mutants that are called equivalent."""
    order = {task: i for i, task in enumerate(unit.answers)}
    kept = sorted((r for r in rows.values() if r["task"] in order), key=lambda r: order[r["task"]])
    for row in kept:
        if row["verdict"] != "killed":
            row["verdict"] = "equivalent" if key(row) in listed else "survived"
    TABLES.mkdir(exist_ok=True)
    write(table_of(unit.name), FIELDS, kept)


def is_waiting(row: dict | None, text: str, chosen: argparse.Namespace) -> bool:
    """Whether a mutant is to be graded, which has this row in the table."""
    if chosen.only_survivors:
        return row is not None and row["verdict"] == "survived"
    return chosen.again or row is None or (row["text"], row["jax"]) != (text, jax.__version__)


def sample(all_mutants: list[Mutant], most: int) -> list[Mutant]:
    """At most so many mutants, always the same ones."""
    some = set(random.Random(0).sample(range(len(all_mutants)), min(most, len(all_mutants))))
    return [mutant for i, mutant in enumerate(all_mutants) if i in some]


def grade_task(grader: Grader, waiting: list[Mutant]) -> list[tuple[Mutant, Verdict]]:
    """The verdicts. A mutant that spoils the kernel for those after it is found, and they are graded again."""
    graded: list[tuple[Mutant, Verdict]] = []
    for start in range(0, len(waiting), 20):
        some = waiting[start : start + 20]
        found = []
        for mutant in some:
            began = time.perf_counter()
            found.append((mutant, grader.grade(mutant.task, mutant.source)))
            if (seconds := time.perf_counter() - began) > SLOW:
                print(f"  took {seconds:.0f} s: {mutant.operator}: {mutant.change}", flush=True)
        if not grader.solution_passes(some[0].task):
            found = []
            for mutant in some:
                found.append((mutant, grader.grade(mutant.task, mutant.source)))
                grader.solution_passes(mutant.task)  # if not, the next one gets a new kernel
        graded += found
    return graded


def show(unit: Unit, rows: list[dict], wanted) -> None:
    """The mutants of some rows, each as a cell of a file of wrong answers."""
    for task in unit.answers:
        by_name = {mutant.key: mutant for mutant in mutants(unit, task)}
        if {row["text"] for row in rows if row["task"] == task} - {unit.digest(task)}:
            print(f"# {task} has changed since: python benchmarks/mutants.py --unit {unit.name[:2]} --task {task}\n")
        for row in rows:
            if row["task"] == task and wanted(row) and key(row) in by_name:
                checks = [proof.split()[0] for proof in row["proves"].split("; ") if proof] or [row["by"]]
                fails = str(checks).replace("'", '"')
                name, said = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (row["change"], row["said"]))
                hidden = f" hidden={row['region']}" if row["proves"] else ""
                print(f'# %% task="{task}" name="{row["operator"]}: {name}" fails={fails}{hidden} message="{said}"')
                print(by_name[key(row)].source)


def as_toml(unit: Unit, rows: list[dict]) -> None:
    """The survivors as entries of the list of equivalents; the reasons are to be written."""
    for row in rows:
        if row["verdict"] == "survived":
            named = (
                f"{field} = {json.dumps(row[field], ensure_ascii=False)}" for field in ("task", "operator", "change")
            )
            print("[[equivalent]]", *named, 'reason = ""\n', sep="\n")


def prove(unit: Unit) -> None:
    """For each hidden region, the mutants that pass all that is visible and die there."""
    rows = read(table_of(unit.name))
    for check, number in unit.regions():
        proofs = [row for row in rows if f"{check} {number}" in row["proves"].split("; ")]
        print(f"# {'=' * 20} {check}, region {number}: {len(proofs)} mutants die here and nowhere before\n")
        names = {key(row) for row in proofs}
        show(unit, rows, lambda row, names=names: key(row) in names)


def try_file(unit: Unit, file: Path, seconds: float, times: int) -> None:
    """Grade the cells of a file of answers (metadata `task`, `name`), and say where each one failed.

    Hidden tests draw numbers. Graded several times, an answer whose verdict hangs on them gives itself away: then only
    those are named that did not end alike.
    """
    cells = [c for c in jupytext.read(file).cells if c.cell_type == "code" and "task" in c.metadata]
    with Grader(unit, seconds) as grader:
        for cell in cells:
            verdicts = [grader.grade(cell.metadata["task"], cell.source) for _ in range(times)]
            name = f"{cell.metadata['task']}, {cell.metadata['name']!r}"
            if times == 1:
                print(f"{name}: {ending(verdicts[0])}", flush=True)
                if verdicts[0].killed:
                    print("    " + verdicts[0].said.replace("\n", "\n    "))
            elif len(endings := Counter(map(ending, verdicts))) > 1:
                print(f"{name}: {'; '.join(f'{count}x {end}' for end, count in endings.items())}", flush=True)


def ending(verdict: Verdict) -> str:
    if not verdict.killed:
        return "earns every point"
    where = f"hidden region {verdict.region}" if verdict.region else "the visible part"
    proves = f"; proves {', '.join(verdict.proves)}" if verdict.proves else ""
    return f"fails in {where} of {verdict.by or 'its own cell'}{proves}"


def table() -> str:
    """The figures of each unit, and its survivors, as markdown."""
    rows = {unit: read(table_of(unit)) for unit in UNITS}
    versions = {row["jax"] for unit in UNITS for row in rows[unit]}
    lines = [
        "# Mutants of the reference answers",
        "",
        f"Graded on: {machine(versions)}. `died hidden`: in a hidden region, after all that is visible had passed.",
        "",
        "| unit | mutants | equivalent | killed | died hidden | survived | killed of those not equivalent |",
        "|---|---|---|---|---|---|---|",
    ]
    for unit, its in rows.items():
        count = {
            verdict: sum(row["verdict"] == verdict for row in its) for verdict in ("killed", "survived", "equivalent")
        }
        counted = count["killed"] + count["survived"]
        share = f"{100 * count['killed'] / counted:.1f} %" if counted else "–"
        hidden = sum(bool(row["proves"]) for row in its)
        figures = [unit[:2], len(its), count["equivalent"], count["killed"], hidden, count["survived"], share]
        lines.append(f"| {' | '.join(map(str, figures))} |")
    lines += ["", "## Survivors", ""]
    for unit, its in rows.items():
        lines += [
            f"- {unit[:2]} {r['task']}, {r['operator']}: `{r['change']}`" for r in its if r["verdict"] == "survived"
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unit", action="append", metavar="NN", help="may be repeated; all without")
    parser.add_argument("--task", action="append", metavar="ID", help="may be repeated; all without")
    parser.add_argument("--most", type=int, metavar="N", help="at most so many mutants of a task")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"least time limit of a cell, {SECONDS} without")
    parser.add_argument("--again", action="store_true", help="grade what has a verdict, too")
    parser.add_argument("--only-survivors", action="store_true", help="grade those again that survived")
    parser.add_argument("--list", action="store_true", help="list the mutants, grade none")
    parser.add_argument("--survivors", action="store_true", help="print the survivors of the table as cells")
    parser.add_argument("--toml", action="store_true", help="print the survivors as entries of mutants/NN_name.toml")
    parser.add_argument("--prove", action="store_true", help="print what dies in hidden regions only as cells")
    parser.add_argument("--try", type=Path, dest="tried", metavar="FILE", help="grade the answers in a file")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="with --try: grade each so often")
    parser.add_argument("--table", action="store_true", help="only write mutants.md")
    chosen = parser.parse_args()
    names = [unit for unit in UNITS if not chosen.unit or unit[:2] in chosen.unit]
    for name in [] if chosen.table else names:
        unit = unit_from_text(name)
        if chosen.list:
            for mutant in (m for task in chosen.task or unit.answers for m in mutants(unit, task)):
                print(f"{mutant.task}, {mutant.operator}: {mutant.change}")
        elif chosen.survivors:
            show(unit, read(table_of(name)), lambda row: row["verdict"] == "survived")
        elif chosen.toml:
            as_toml(unit, read(table_of(name)))
        elif chosen.prove:
            prove(unit)
        elif chosen.tried:
            try_file(unit, chosen.tried, chosen.seconds, chosen.times)
        else:
            try:
                grade_unit(unit, chosen)
            except NotSolved as error:
                print(f"{name} is left out, its solution loses points: {error}", flush=True)
    if not (chosen.list or chosen.survivors or chosen.toml or chosen.prove or chosen.tried):
        (COURSE / "benchmarks/mutants.md").write_text(table())


if __name__ == "__main__":
    main()
