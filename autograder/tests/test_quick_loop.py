"""`pytest -k NN_name` leaves out what has no test of that unit, before it is imported, and nothing else."""

import subprocess
import sys

import pytest
from conftest import COURSE

pytestmark = pytest.mark.once

UNIT = "05_the_cache"


def test_one_unit_has_the_tests_that_it_has_among_all(request):
    """Of the modules and notebooks that this run has read; all, where everything is run."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-k", UNIT]
    said = subprocess.run(command, cwd=COURSE, capture_output=True, text=True, timeout=300).stdout
    # What a marker leaves out here (`-m`) was left out there, too: both runs have the project's own.
    found = {line for line in said.splitlines() if "::" in line}
    ours = [item for item in request.session.items if not item.get_closest_marker("thorough")]
    here = {item.nodeid.partition("@")[0] for item in ours if UNIT in item.nodeid}  # xdist adds the group's name
    assert f"lessons/{UNIT}.ipynb::runs" in found
    assert here - found == set()
    read = {name.partition("::")[0] for name in found}
    assert "autograder/tests/test_answers.py" in read and "autograder/tests/test_class.py" not in read
    assert not [name for name in read if name.endswith(".ipynb") and UNIT not in name]
