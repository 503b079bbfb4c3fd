"""What is laid out over several devices crosses between the two kernels."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once


def test_arrays_and_programs_on_eight_devices_cross():
    """(In a process of its own: the devices are fixed at the start.)"""
    file = Path(__file__).with_name("eight_devices.py")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--noconftest",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        str(file),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=file.parent)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
