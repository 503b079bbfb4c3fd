"""Mutations of the package: does a small change of a module fail the tests that are meant for it?

    python -m pip install cosmic-ray                                whose operators make the mutations
    python benchmarks/package_mutations.py                          every module of TESTS
    python benchmarks/package_mutations.py checks/equal tolerance   these modules
    python benchmarks/package_mutations.py --sample 20              at most so many of a module; always the same ones
    python benchmarks/package_mutations.py --survivors [checks/equal]  list the survivors of the table, with their lines
    python benchmarks/package_mutations.py --table                  write package_mutations.md from what has been run

Works on a copy of the course, and writes package_mutations.csv and .md. A mutation for which the csv holds a verdict on
today's text of its module and of its tests is not run again. Each mutation is run in a process that is forked from one
that has imported JAX and pytest; it is killed when a test fails or when the tests take ten times what they took without
it. A survivor is a hole in the tests, or harmless: then package_mutations.toml says why.
"""

import argparse
import contextlib
import hashlib
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import NamedTuple

from _table import machine, read, write

COURSE = Path(__file__).parents[1]
TABLE = Path(__file__).with_suffix(".csv")
REASONS = Path(__file__).with_suffix(".toml")
FIELDS = ["module", "operator", "line", "change", "verdict", "text", "machine"]
ENOUGH = 0.85  # of the mutations that are not harmless
MEMORY = 8 << 30  # bytes that tests may ask for; a list that a mutation lets grow for ever ends here

# Module -> the files of its own tests.
TESTS = {
    "tolerance": ["tolerance", "values"],
    "failure": ["failure"],
    "wording": ["wording"],
    "not_begun": ["cell_messages"],
    "versions": ["versions"],
    "checks/allclose": ["values", "tolerance"],
    "checks/alone_child": ["run_alone"],
    "checks/compare_trees": ["values", "tolerance"],
    "checks/equal": ["check_equal"],
    "checks/exhibits": ["exhibits"],
    "checks/hlo": ["check_hlo"],
    "checks/max_traces": ["check_traces", "exhibits"],
    "checks/partial_credit": ["credit"],
    "checks/plain_values": ["check_equal", "prediction"],
    "checks/prediction": ["prediction"],
    "checks/primitives": ["check_jaxpr"],
    "checks/run_alone": ["run_alone"],
    "instruments/benchmark": ["timing"],
    "instruments/call_signature": ["traces", "check_traces"],
    "instruments/flops": ["jaxpr"],
    "instruments/graphs/graph": ["show"],
    "instruments/graphs/layout": ["show", "graph_drawing"],
    "instruments/graphs/of_hlo": ["show"],
    "instruments/graphs/of_jaxpr": ["show"],
    "instruments/graphs/parts": ["show", "graph_drawing"],
    "instruments/graphs/svg": ["show", "graph_drawing"],
    "instruments/guess": ["prediction"],
    "instruments/jaxpr_statistics": ["jaxpr"],
    "instruments/read_hlo": ["hlo", "check_hlo"],
    "instruments/read_jaxpr": ["jaxpr", "check_jaxpr"],
    "instruments/read_kernel": ["kernel"],
    "instruments/run_flops": ["jaxpr"],
    "instruments/show": ["show"],
    "instruments/trace_log": ["traces", "check_traces"],
    "instruments/watch_functions": ["traces", "check_traces"],
    "measuring/bench": ["bench"],
    "measuring/picture": ["picture"],
    "measuring/programs": ["fork_server", "solved_programs"],
    "measuring/request": ["request"],
    "measuring/roofline": ["roofline"],
    "measuring/speedup": ["speedup"],
    "measuring/verdict": ["verdict"],
    "measuring/wire/arrays": ["travel", "agreement"],
    "measuring/wire/codec": ["wire"],
    "measuring/wire/frames": ["wire"],
    "measuring/wire/functions": ["travel"],
    "measuring/wire/messages": ["travel", "wire"],
    "measuring/worker/agreement": ["agreement"],
    "measuring/worker/clock": ["clock", "verdict"],
    "measuring/worker/cold": ["cold"],
    "measuring/worker/contest": ["measure"],
    "measuring/fork_server": ["fork_server"],
    "measuring/worker/inputs": ["inputs"],
    "measuring/worker/jobs": ["jobs"],
    "measuring/worker/limits": ["limits"],
    "measuring/worker/main": ["bench", "fork_server"],
    "measuring/worker/product": ["product"],
    "measuring/worker/refusal": ["refusal"],
    "measuring/worker/sides": ["sides"],
    "measuring/worker/yardstick": ["yardstick"],
}
# What the tests import of others, once for all processes that are forked: four seconds of five. No backend is started.
IMPORTED = (
    *("pytest", "jax.numpy", "jax.export", "jax.extend.core", "jax.experimental.pallas", "matplotlib.figure"),
    *("IPython", "jupyter_client", "jupytext", "nbclient", "nbconvert", "nbformat", "cloudpickle", "flatbuffers"),
)
# One change for each place; a union in an annotation is no place.
REPLACEMENTS = {
    "ReplaceBinaryOperator": "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_Add Pow_Mul LShift_RShift BitAnd_BitXor",
    "ReplaceComparisonOperator": "Eq_NotEq NotEq_Eq Lt_LtE LtE_Lt Gt_GtE GtE_Gt Is_IsNot IsNot_Is",
    "ReplaceUnaryOperator": "Delete_Not Delete_USub",
}
OPERATORS = [f"core/{kind}_{pair}" for kind, pairs in REPLACEMENTS.items() for pair in pairs.split()] + [
    f"core/{name}"
    for name in (
        *("AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
        *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "NumberReplacer", "RemoveDecorator"),
        *("ZeroIterationForLoop", "ExceptionReplacer"),
    )
]


class Mutation(NamedTuple):
    operator: str
    line: int
    change: str  # "old -> new", the lines that differ
    code: str  # of the whole module

    @property
    def key(self) -> tuple[str, str]:
        return self.operator, self.change


def mutations(source: str) -> list[Mutation]:
    """Every mutation of a module's source, in order; the same change at two places is made twice."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    found: dict[str, Mutation] = {}
    for name in OPERATORS:
        operator = get_operator(name)()
        for occurrence in range(10_000):
            try:
                code = mutate_code(source, operator, occurrence)
            except AttributeError:
                continue  # cosmic-ray 8.7 cannot replace an exception that is caught by a name with a dot
            if code is None:
                break
            if code not in found and code != source:
                found[code] = Mutation(name.removeprefix("core/"), *_difference(source, code), code)
    return sorted(found.values(), key=lambda mutation: mutation.line)


def _difference(old: str, new: str) -> tuple[int, str]:
    """The first line that differs, counted from 1, and "old -> new"."""
    before, after = old.splitlines(), new.splitlines()
    at = next(i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b)
    return at + 1, f"{before[at].strip()} -> {after[at].strip()}"


def digest(module: str) -> str:
    """Of the module and of its tests: a verdict holds as long as both stand as they stood."""
    files = [path_of(module), *(COURSE / name for name in tests_of(module))]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:12]


def path_of(module: str, course: Path = COURSE) -> Path:
    return course / "autograder" / f"{module}.py"


def tests_of(module: str) -> list[str]:
    return [f"autograder/tests/test_{name}.py" for name in TESTS[module]]


def run(course: Path, module: str, seconds: float) -> bool:
    """Whether the module's tests pass in this copy of the course, within so many seconds."""
    child = os.fork()
    if not child:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        os.chdir(course)
        sys.path.insert(0, str(course))
        os.environ["PYTHONPATH"] = str(course)  # of the measuring process
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # two mutations of one second have the same time stamp
        sys.dont_write_bytecode = True
        import pytest

        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not notebooks"]
        os._exit(int(pytest.main([*options, *tests_of(module)])))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            _kill(child)  # what it left running
            return status == 0
        time.sleep(0.02)
    _kill(child)
    os.waitpid(child, 0)
    return False


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def grade(module: str, most: int | None, rows: list[dict]) -> Iterator[dict]:
    """A row for each mutation of a module that `rows` has no verdict for."""
    source, text = path_of(module).read_text(), digest(module)
    made = mutations(source)
    if most is not None and len(made) > most:
        shuffled = random.Random(module).sample(made, len(made))  # a larger sample holds the smaller one
        made = sorted(shuffled[:most], key=lambda mutation: mutation.line)
    known = {(row["operator"], row["change"]) for row in rows if row["module"] == module and row["text"] == text}
    made = [mutation for mutation in made if mutation.key not in known]
    if not made:
        return
    with tempfile.TemporaryDirectory() as folder:
        course = Path(folder, "course")
        left_out = shutil.ignore_patterns(".git", ".venv", "__pycache__")
        shutil.copytree(COURSE, course, ignore=left_out)
        began = time.monotonic()
        if not run(course, module, 600):
            raise SystemExit(f"{module}: its tests fail before anything is changed")
        limit = 10 * (time.monotonic() - began) + 10
        where = machine({metadata.version("jax")})
        for mutation in made:
            path_of(module, course).write_text(mutation.code)
            verdict = "survived" if run(course, module, limit) else "killed"
            yield {
                "module": module,
                "operator": mutation.operator,
                "line": mutation.line,
                "change": mutation.change,
                "verdict": verdict,
                "text": text,
                "machine": where,
            }


def reasons() -> dict[tuple[str, str, str], str]:
    """The mutations that are harmless -> why, from the file that is written by hand."""
    entries = tomllib.loads(REASONS.read_text()).get("harmless", []) if REASONS.exists() else []
    return {(entry["module"], entry["operator"], entry["change"]): entry["reason"] for entry in entries}


def survivors(rows: list[dict]) -> list[dict]:
    known = reasons()
    return [r for r in rows if r["verdict"] == "survived" and (r["module"], r["operator"], r["change"]) not in known]


def report(rows: list[dict]) -> list[str]:
    """Figures of each module, and what survived and is not called harmless."""
    left = survivors(rows)
    lines = [
        "| module | run | killed | harmless | survived | killed of the others |",
        "|---|---|---|---|---|---|",
    ]

    def figures(name: str, of: list[dict], survived: int) -> str:
        killed = sum(row["verdict"] == "killed" for row in of)
        rate = f"{killed / (killed + survived):.0%}" if killed + survived else ""
        return f"| {name} | {len(of)} | {killed} | {len(of) - killed - survived} | {survived} | {rate} |"

    for module in sorted({row["module"] for row in rows}, key=list(TESTS).index):
        of = [row for row in rows if row["module"] == module]
        lines.append(figures(module, of, sum(row["module"] == module for row in left)))
    lines.append(figures("all", rows, len(left)))
    listed = [f"- {row['module']}:{row['line']}, {row['operator']}: `{row['change']}`" for row in left]
    return [*lines, "", "Survived and not harmless:", "", *(listed or ["none"])]


def write_report(rows: list[dict]) -> None:
    """package_mutations.md: what the csv says, where it was run, and how large the sample is."""
    of = {module: [row for row in rows if row["module"] == module] for module in TESTS}
    changed = [module for module in TESTS if {row["text"] for row in of[module]} - {digest(module)}]
    left = [module for module in TESTS if not of[module]]
    machines = Counter(row["machine"] for row in rows).most_common()
    lines = [
        "# Mutations of the package",
        "",
        "Small changes of each module, each run against its own tests: `package_mutations.py` says how. A sample:",
        f"at most {max(map(len, of.values()))} mutations of a module, drawn by chance and always the same ones; "
        "more than 2,300 can be made. For a survivor that did harm a test was written: another sample may do worse.",
        f"Run on: {'; '.join(f'{name} ({count})' for name, count in machines)}.",
        "",
    ]
    if changed:
        lines += [f"Changed since they were run, or their tests were: {', '.join(changed)}.", ""]
    if left:
        lines += [f"Not run yet: {', '.join(left)}.", ""]
    TABLE.with_suffix(".md").write_text("\n".join([*lines, *report(rows)]) + "\n")


def faults(rows: list[dict]) -> list[str]:
    """What package_mutations.toml calls harmless, and was not run or is killed."""
    survived = {(row["module"], row["operator"], row["change"]) for row in rows if row["verdict"] == "survived"}
    return [": ".join(key) for key in reasons() if key not in survived]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("modules", nargs="*", choices=[*TESTS, []], metavar="module", help="e.g. checks/equal")
    parser.add_argument("--sample", type=int, help="at most so many mutations of a module")
    parser.add_argument("--survivors", action="store_true", help="list those of the table")
    parser.add_argument("--table", action="store_true", help="only write package_mutations.md")
    given = parser.parse_args()
    rows = read(TABLE)
    if given.survivors:
        for row in survivors(rows):
            if not given.modules or row["module"] in given.modules:
                print(f"{row['module']}:{row['line']}: {row['operator']}: {row['change']}")
        return
    if not given.table:
        for name in IMPORTED:
            import_module(name)
        for module in given.modules or TESTS:
            text = digest(module)
            rows = [row for row in rows if row["module"] != module or row["text"] == text]
            began, counted = time.monotonic(), {"killed": 0, "survived": 0}
            for row in grade(module, given.sample, rows):
                rows.append(row)
                counted[row["verdict"]] += 1
                write(TABLE, FIELDS, rows)
            seconds = time.monotonic() - began
            print(f"{module}: {counted['killed']} killed, {counted['survived']} survived, {seconds:.0f} s", flush=True)
    write_report(rows)


if __name__ == "__main__":
    main()
