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


def machine(versions: set[str]) -> str:
    """One line for the head of a table: processor, cores, system, versions of JAX."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = next(iter(names), model)
    kernel = ".".join(platform.release().split(".")[:2])
    return f"{model}, {os.cpu_count()} cores, {platform.system()} {kernel}, JAX {', '.join(sorted(versions))}"
