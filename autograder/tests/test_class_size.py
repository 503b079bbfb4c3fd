"""The simulation by which a large class is reckoned, where the answer is known."""

import pytest
from class_size import simulated

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("each", "write", "workers", "seconds"),
    [
        (4, 0, 4, 100),  # nobody waits
        (4, 1, 1, 401),  # grades are written while the worker works, but the last
        (1, 2, 50, 201),  # the writer is never done
        (5, 1, 5, 105),  # five come back at once, and their grades are written while the next five run
    ],
)
def test_a_hundred_submissions_take(each, write, workers, seconds):
    assert simulated([each] * 100, [write] * 100, workers) == seconds
