"""How many digits of a matrix product this device keeps, and what that allows when results are compared."""

import os
import subprocess
import sys

import _matrix_units
import numpy as np
import pytest

from autograder.measuring.worker import agreement
from autograder.measuring.worker.product import product_roundoff

PRODUCT = """
from autograder.measuring.worker.product import product_roundoff

print(product_roundoff({precision!r}))
"""


def roundoff_under(kind, precision):
    command = [sys.executable, "-c", PRODUCT.format(precision=precision)]
    with _matrix_units.environment(kind) as variables:
        return float(subprocess.check_output(command, env=os.environ | variables, text=True))


@pytest.mark.parametrize(("kind", "bits"), _matrix_units.MANTISSA.items())
def test_what_matrix_units_drop_is_found(kind, bits):
    assert roundoff_under(kind, None) == 2.0**-bits


def test_who_asks_for_the_digits_gets_them():
    assert roundoff_under("tf32", "highest") == 2.0**-23
    assert product_roundoff("highest") == 2.0**-23


def test_a_lossy_product_allows_two_units_of_what_it_keeps(monkeypatch):
    want = [np.float32([1.0, 2.0])]
    got = [np.float32([1.0, 2.0035])]
    for roundoff, agree in ((2.0**-23, False), (2.0**-10, True)):
        monkeypatch.setattr(agreement, "product_roundoff", lambda precision, roundoff=roundoff: roundoff)
        assert (agreement.disagreement(got, want, agreement.strict(got, want)) is None) == agree


def test_integers_stay_exact_whatever_a_product_drops(monkeypatch):
    monkeypatch.setattr(agreement, "product_roundoff", lambda precision: 2.0**-7)
    assert agreement.strict([np.int32([1])], [np.int32([1])]) == [0.0]
