"""In the kernel, when a notebook is graded: a method that writes attributes of its object is given its own objects.

Called as a function, as `put(thing, value)` after `put = Label.put`, it would write them on whatever it is handed:
on a primitive of JAX's, or on the class whose objects a check asks. The reader of a cell knows names and no values, so
it cannot see that; the method itself can.
"""

import ast
from typing import Any

_WRITES = {"setattr", "delattr", "vars"}
_BY_NAME = {"__setattr__", "__delattr__", "__dict__"}


class OwnObjects(ast.NodeTransformer):
    """Changes a cell: methods that write attributes of their first argument ask first whose it is."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """A class."""
        self.generic_visit(node)
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name != "__new__" and _writes(method):
                me = [*method.args.posonlyargs, *method.args.args][0].arg
                ask = ast.parse(f"__import__({__name__!r}, fromlist=['_']).own({me}, __class__)").body[0]
                documented = ast.get_docstring(method, clean=False) is not None
                for part in ast.walk(ask):
                    ast.copy_location(part, method.body[0])
                method.body.insert(int(documented), ask)
        return node


def own(me: Any, kind: type) -> None:
    """Raise TypeError if `me` is no object of `kind`. A class that was made anew, as with slots, has its name."""
    name = (kind.__module__, kind.__qualname__)
    if not any((base.__module__, base.__qualname__) == name for base in type(me).__mro__):
        raise TypeError(
            f"a method of {kind.__name__} that writes attributes was given an object of {type(me).__name__}"
        )


def _writes(method: ast.FunctionDef) -> bool:
    """Whether a method writes attributes of its first argument, as far as its text says."""
    places = [*method.args.posonlyargs, *method.args.args]
    kinds = {ast.unparse(decorator).rsplit(".", 1)[-1] for decorator in method.decorator_list}
    if not places or kinds & {"staticmethod", "classmethod"}:
        return False
    for part in ast.walk(method):
        if isinstance(part, ast.Attribute) and (not isinstance(part.ctx, ast.Load) or part.attr in _BY_NAME):
            return True
        if isinstance(part, ast.Name) and part.id in _WRITES:
            return True
    return False
