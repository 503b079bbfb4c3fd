"""What Dask does first in each worker of this machine."""

import signal


def dask_setup(worker) -> None:
    """Let Ctrl-C be the command's: a terminal sends it to all processes, and the command ends its workers itself.

    From here on a function that does nothing takes it. It was blocked until now (see `engine`), and is neither blocked
    nor "ignored" any more: kernels would inherit that, and they are interrupted so.
    """
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
