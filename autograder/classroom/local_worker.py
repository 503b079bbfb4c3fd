"""What Dask does first in each worker of this machine."""

import signal


def dask_setup(worker) -> None:
    """Let Ctrl-C be the command's: a terminal sends it to all processes, and the command ends its workers itself.

    It is a function that does nothing, and not "ignored", which kernels would inherit, and they are interrupted so.
    """
    signal.signal(signal.SIGINT, lambda number, frame: None)
