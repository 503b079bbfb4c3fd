"""Numbers and counters as words."""

from collections import Counter


def count(number: int, noun: str) -> str:
    """`1 equation`, `1,200 equations`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def tally(counter: Counter[str], most: int = 12) -> str:
    """`mul 200, sub 200, add 1`: the most frequent first."""
    names = [f"{name} {number}" for name, number in counter.most_common(most)]
    return ", ".join(names + ["..."] * (len(counter) > most)) or "nothing"
