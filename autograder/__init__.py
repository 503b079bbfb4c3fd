"""The checks and instruments of the course Just in Time.

The public names are listed in `__init__.pyi` and are imported when first used, so that pytest and nbgrader, which
load parts of this package in every run, start without JAX.
"""

from importlib import import_module

import lazy_loader

from .versions import require_supported

_import, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str):
    require_supported()
    import_module(f"{__name__}.instruments.fresh_caches")  # before the learner's first function is compiled; see there
    import_module(f"{__name__}.doors.cell_messages").register()
    import_module(f"{__name__}.workbench.in_notebook").register()
    return _import(name)
