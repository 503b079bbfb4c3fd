"""The rule of the speed verdict: first to lead by seven.

Pure bookkeeping, without a clock and without jax: it is fed pairs of times and says pass, fail or not yet.

One *pair* is one block of baseline calls and one block of candidate calls, timed next to each other. A pair
votes for the candidate when baseline / candidate is at least the bar, else against it. The first side that
leads by `LEAD` votes wins. This is Wald's sequential test on the sign of log(ratio / bar): it supposes nothing
about the shape of the noise, and at a true ratio equal to the bar it is a fair coin.

Where the calls are slow, seven pairs take long. So if each of the first `CLEAR` pairs is off the bar by more than
`FAR`, all on one side, they decide at once.

Wald's test with p wins in a pair errs with probability 1 / (1 + (p / (1 - p))^7): 6e-5 at p = 0.8, 1e-9 at 0.95.

That holds for the noise inside a process. But now and then a whole process is off, by more than a fifth, for as long as
it lives, and no number of pairs inside it shows that. So near the bar no single process decides: see `settle`. A second
one that only confirms the first needs a smaller lead, `CONFIRM`: both must err for a wrong answer, at p = 0.8 with
probability 6e-5 times 4e-3; where it errs alone, a third is asked.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

LEAD = 7
CONFIRM = 4  # the lead of the process that is asked second
CLEAR, FAR = 4, 2.0
NEAR = 2.0  # a median ratio within this factor of the bar needs the word of a second process
SLOW = 1.4  # a core is, on which a plain loop takes so many times its best: a busy twin makes it 1.5 to 2
VOTES, PROCESSES = 2, 3  # so many processes must say the same, of at most so many that are asked

Answer = Literal["pass", "fail"]


@dataclass
class Verdict:
    """The state of the rule at one bar (a ratio of times, no unit)."""

    bar: float
    lead: int = LEAD
    balance: int = field(default=0, init=False)
    pairs: int = field(default=0, init=False)
    answer: Answer | None = field(default=None, init=False)  # None while nobody leads far enough
    _clear: int = field(default=0, init=False)

    def add(self, ratio: float) -> None:
        """Count one pair; pairs that come after the decision change nothing."""
        if self.answer is not None:
            return
        won = ratio >= self.bar
        self.pairs += 1
        self.balance += 1 if won else -1
        if ratio > self.bar * FAR or ratio < self.bar / FAR:
            self._clear += 1 if won else -1
        if abs(self.balance) >= self.lead or (self.pairs == CLEAR and abs(self._clear) == CLEAR):
            self.answer = "pass" if self.balance > 0 else "fail"


def settle(found: Sequence[tuple[Answer | None, float]], bar: float) -> Answer | Literal["undecided"] | None:
    """What processes that were asked one after the other say together; None where one more must be asked.

    found  of each process its answer, None where its rule had none, and the median of its ratios.

    Far from the bar, by more than `NEAR`, one process is enough, as long as none says the opposite. Near it an answer
    needs two processes. So two that disagree are settled by a third; and where a process has no answer, it counts for
    neither side.
    """
    said = [answer for answer, _ in found]
    for answer, ratio in found:
        if answer is None:
            continue
        far = not bar / NEAR <= ratio <= bar * NEAR
        if said.count(answer) >= VOTES or (far and said.count(answer) + said.count(None) == len(said)):
            return answer
    most = max(said.count("pass"), said.count("fail"))
    return None if most + PROCESSES - len(said) >= VOTES else "undecided"


def interval(ratios: list[float], z: float = 1.96) -> tuple[float, float, float]:
    """(low, median, high) of the true ratio, from order statistics: no assumption on the shape of the noise.

    The 95 % interval of a median lies between the order statistics n/2 - z sqrt(n)/2 and its mirror image;
    below six pairs no two of them hold 95 %, and the whole range is returned.
    """
    ordered = sorted(ratios)
    n = len(ordered)
    if n == 0:
        return math.nan, math.nan, math.nan
    below = max(0, math.floor(n / 2 - z * math.sqrt(n) / 2))
    middle = ordered[n // 2] if n % 2 else math.sqrt(ordered[n // 2 - 1] * ordered[n // 2])
    return ordered[below], middle, ordered[n - 1 - below]
