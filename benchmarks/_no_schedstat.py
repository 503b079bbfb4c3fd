"""A system that keeps no scheduler statistics and pins no process to a core, as macOS, played on Linux.

machines.py puts a copy of this file under the name `sitecustomize.py` on PYTHONPATH, which the kernel and the
measuring process inherit: Python runs it when it starts.
"""

import builtins
import io
import os


def _without_schedstat(open_):
    def open(path, *args, **kwargs):
        if str(path).startswith("/proc/") and str(path).endswith("/schedstat"):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return open_(path, *args, **kwargs)

    return open


for _module, _name in ((os, "open"), (io, "open"), (builtins, "open")):
    setattr(_module, _name, _without_schedstat(getattr(_module, _name)))
for _name in ("sched_getaffinity", "sched_setaffinity"):
    if hasattr(os, _name):
        delattr(os, _name)
if hasattr(os, "process_cpu_count"):  # it asks the function that has just gone
    os.process_cpu_count = os.cpu_count
