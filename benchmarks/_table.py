"""The tables of the benchmarks: measurements as csv, and on which machine they were made."""

import csv
import os
import platform
from pathlib import Path


def read(path: Path) -> list[dict]:
    """The rows of a table, none if there is no such file yet."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, fields: list[str], rows: list[dict]) -> None:
    """Write a whole table. A script that is stopped meanwhile leaves the old one, not half of a new one."""
    new = path.with_suffix(".new")
    with new.open("w", newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(rows)
    new.replace(path)


def processor() -> str:
    """What the system says that this processor is; on x86 with family and model, as names are shared by many."""
    info = Path("/proc/cpuinfo")
    said = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line) if info.exists() else {}
    known = {key.strip(): value.strip() for key, value in said.items()}
    name = known.get("model name") or platform.processor() or platform.machine()
    return f"{name}, {known['cpu family']}/{known['model']}" if {"cpu family", "model"} <= known.keys() else name


def machine(versions: set[str]) -> str:
    """One line for the head of a table: processor, cores, system, versions of JAX."""
    kernel = ".".join(platform.release().split(".")[:2])
    model = processor().split(", ")[0]
    return f"{model}, {os.cpu_count()} cores, {platform.system()} {kernel}, JAX {', '.join(sorted(versions))}"
