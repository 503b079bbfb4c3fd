"""Rules for calls: some functions may be called in one way alone."""

import ast

from ..magics import as_written, magic_called
from ..names import is_its_class, name_called
from ..words import (
    AS_DECORATOR,
    ASKED_FIRST,
    ASKS,
    ATTRIBUTE_FUNCTIONS,
    BANS,
    BUILTINS,
    FORBIDS,
    GETTERS,
    MUTATORS,
    NOT_IN_A_THREAD,
    OF_A_PARENT,
    POOL,
    READ_MODES,
    SETTING_FUNCTIONS,
    STREAMS,
    TIMERS,
    WRITES_INTO,
)
from .attributes import SHOWN, OfAttributes

# Their first argument is a format string.
_FORMATS = {"jax.debug.print", "jax.debug.log", "jax.experimental.pallas.debug_print"}


def _either(value: ast.expr) -> list[ast.expr]:
    """What `a if c else b` may be, or the value alone."""
    return [*_either(value.body), *_either(value.orelse)] if isinstance(value, ast.IfExp) else [value]


class OfCalls(OfAttributes):
    """Refuses calls by which a name could be asked for that is not seen, a class be made, or a setting changed."""

    def visit_Call(self, node: ast.Call) -> None:
        """A call. Some functions may be called in one way alone."""
        function = node.func
        if magic_called(node):
            self.refuse(node, f"has {as_written(node)}, which is no Python", "a check cannot know what it does")
        if isinstance(function, ast.Name) and self.home(function.id) is None:
            self.call_by_name(node, function.id)
        elif isinstance(function, ast.Attribute):
            self.call_of_method(node, function)
        if is_its_class(function):
            self.fitting.add(function)  # it is the type of the value, which is asked, see `own_objects`
        if (self.owner(function) == "class" or is_its_class(function)) and not self._is_my_class(function):
            if len(node.args) > 2 or node.keywords and len(node.args) > 1:
                self.refuse(node, "calls a type with three arguments", "with that, classes can be made")
            if is_its_class(function) and self.is_class(function.value):  # type: ignore[attr-defined]
                self.refuse(node, "asks for the type of a class", "with that, classes can be made")
        self.call_of_kinds(node)
        self.call_that_writes(node)
        if self.origins(function) & GETTERS:
            self.getter(node)
        if "numpy.ndarray" in self.origins(function):  # the kernel refuses the others, see `restorer`
            why = "it can take any memory for its numbers"
            self.refuse(node, "calls np.ndarray", why, "Make arrays with np.zeros, np.empty or np.asarray.")
        mine = bool(node.args) and (self._me(node.args[0]) is not None or self._own_function(node.args[0]))
        if "functools.update_wrapper" in self.origins(function) and len(node.args) == 2 and mine and not node.keywords:
            self.fitting.add(function)
        if "warnings.warn" in self.origins(function) and self._warns_plainly(node):
            self.fitting.add(function)
        if "types.SimpleNamespace" in self.origins(function) and not node.args:
            self.allowed.add(function)
        if self.origins(function) & TIMERS:
            plain = all(keyword.arg in ("number", "repeat") for keyword in node.keywords)
            if len(node.args) == 1 and isinstance(node.args[0], ast.Lambda) and plain:
                self.fitting.add(function)  # a text would be run, and a name may be one
        for place, arg in enumerate(node.args):  # map(type, values)
            if isinstance(arg, ast.Name) and arg.id == "type" and not place and len(node.args) <= 2:
                name = ast.unparse(function).rsplit(".", 1)[-1]
                if name in ("map", "tree_map", "asked", "sorted"):
                    self.allowed.add(arg)
        if isinstance(function, ast.Name) and function.id in ("isinstance", "issubclass") and len(node.args) == 2:
            kinds = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else node.args[1:]
            if self.is_pythons(function.id):  # Python's own: it hands the type to nobody
                self.allowed.update(kind for kind in kinds if isinstance(kind, ast.Name) and kind.id == "type")
        self.generic_visit(node)

    def _is_my_class(self, node: ast.AST) -> bool:
        """Whether this is the class of a method's own object, which is asked whose it is: `type(self)`."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
            return node.func.id == "type" and self.is_pythons("type") and self._my_object(node.args[0])
        return is_its_class(node) and self._my_object(node.value)  # type: ignore[attr-defined]

    def _warns_plainly(self, node: ast.Call) -> bool:
        """Whether `warn` is told what to say alone; of which caller it speaks, would show who calls."""
        plain = len(node.args) <= 2 and not any(isinstance(arg, ast.Starred) for arg in node.args)
        return plain and all(
            keyword.arg in ("message", "category", "source", "stacklevel") for keyword in node.keywords
        )

    def _forbids(self, node: ast.Call) -> bool:
        """Whether a call of one of JAX's bans asks for it."""
        said = [*node.args, *(keyword.value for keyword in node.keywords)]
        return all(isinstance(arg, ast.Constant) and arg.value in FORBIDS for arg in said)

    def call_by_name(self, node: ast.Call, name: str) -> None:
        one = len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred)
        if name == "type" and one and self.is_class(node.args[0]):
            self.refuse(node, "asks for the type of a class", "with that, classes can be made")
        if name == "super":
            second = node.args[1] if len(node.args) == 2 else None
            if node.keywords or (node.args and (second is None or self._me(second) is None)):
                what = "calls super of something else than a method's own object"
                self.refuse(node, what, "it also writes attributes of other objects", "Write super().")
            self.allowed.add(node.func)
        in_a_class = any(scope.kind == "class" for scope in self.scopes) and not self._compares()
        own = one and (self._me_unreachable(node.args[0]) or not in_a_class)  # the value is asked, see `own_objects`
        if name == "print" and "print" not in self.cells.names:
            for where in (keyword.value for keyword in node.keywords if keyword.arg == "file"):
                self.fitting |= {where} if self.origins(where) & {"sys.stdout", "sys.stderr"} else set()
        if one and (name == "type" or name == "vars" and own) or name == "open" and self._reads(node):
            self.allowed.add(node.func)
        elif name in ATTRIBUTE_FUNCTIONS and name not in self.cells.names:
            self.asks_by_name(node, name)

    def _reads(self, node: ast.Call) -> bool:
        """Whether `open` is called to read a file; which one, it is asked when it is there (see `own_objects`)."""
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        modes = [*node.args[1:], *(value for name, value in named.items() if name == "mode")]
        plain = all(isinstance(mode, ast.Constant) and mode.value in READ_MODES for mode in modes)
        seen = bool(node.args) and not isinstance(node.args[0], ast.Starred)
        return plain and seen and named.keys() <= {"mode", "encoding"} and len(modes) <= 1

    def call_of_kinds(self, node: ast.Call) -> None:
        """A call that may make a class: a table of special methods stands in it."""
        for part in (*node.args, *(k.value for k in node.keywords)):
            for key in part.keys if isinstance(part, ast.Dict) else ():
                text = key.value if isinstance(key, ast.Constant) else ""
                if isinstance(text, str) and (text in ASKS or text.startswith("__") and text.endswith("__")):
                    self.refuse(node, f"hands over a table with {text}", "with that, classes can be made")
        unseen = any(keyword.arg in ("module", None) for keyword in node.keywords)
        if unseen and "warnings.catch_warnings" in self.origins(node.func):
            self.refuse(node, "says module", "catch_warnings changes the module that it is given", "Leave it out.")
        if "inspect.signature" in self.origins(node.func) and any(k.arg is None for k in node.keywords):
            self.refuse(node, "calls signature in an unusual way", "what it is asked must be seen here")

    def asks_by_name(self, node: ast.Call, function: str) -> None:
        """getattr(x, "name") and its like, where the name can be read here."""
        if len(node.args) < 2 or node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
            self.refuse(node, f"calls {function} in an unusual way", "a name that is asked for must be seen here")
        value, name = node.args[:2]
        self.allowed.add(node.func)
        if isinstance(name, ast.Constant) and type(name.value) is str:
            place = ast.Name("_", ast.Load(), lineno=node.lineno, col_offset=0)
            if function in ("getattr", "hasattr"):
                self.attribute(place, value, name.value)
                for origin in self.origins(value):
                    self.bare(place, f"{origin}.{name.value}")
            else:
                self.written(place, value, name.value)
            if not self._in_one_way_alone(value):
                self.followed(value)
            return
        # The name is asked when it is there, see `own_objects`: of what a method writes on, its own object alone.
        if function not in ("getattr", "hasattr") and self._me(value) is None:
            what = f"calls {function} with a name that is put together"
            self.refuse(node, what, "a name that is written must be seen here", "Write the name as it is.")

    def getter(self, node: ast.Call) -> None:
        """attrgetter("name", ...) and methodcaller("name", ...), which ask any object for these attributes."""
        calls = "operator.methodcaller" in self.origins(node.func)
        for given in node.args[:1] if calls else node.args:
            text = given.value if isinstance(given, ast.Constant) else None
            if not isinstance(text, str):
                what = f"calls {ast.unparse(node.func)} with a name that is put together"
                self.refuse(node, what, "a name that is asked for must be seen here", "Write the name as it is.")
            for name in str(text).split("."):
                self.attribute(node, ast.Name("_", ast.Load()), name)
                if name.startswith("_") or name in MUTATORS | ASKED_FIRST | self.cells.writers:
                    self.refuse(node, f"asks for .{name}", "nobody can see here of what", "Write a function.")
        self.allowed.add(node.func)

    def call_of_method(self, node: ast.Call, function: ast.Attribute) -> None:
        name, value = function.attr, function.value
        if name == "format":
            self.fitting.add(function)  # its text is asked when it is there, see `own_objects`
        parent = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super"
        if name in SHOWN and not node.args and not node.keywords and (parent or self._my_object(value)):
            self.fitting.add(function)  # as `str(self)`
        if name in OF_A_PARENT:
            first = node.args[0] if node.args else None
            me = first is not None and self._me_unreachable(first)
            known = isinstance(value, ast.Name) and value.id in BUILTINS and value.id not in self.cells.names
            known = known or (
                isinstance(value, ast.Name) and ast.unparse(first or value) == value.id
            )  # cls.__new__(cls)
            made = first.id if name == "__new__" and known and isinstance(first, ast.Name) else ""
            maker = made and (self.home(made) is not None or self._own_class(made))
            if parent or (isinstance(value, ast.Name | ast.Attribute) and (me or maker)):
                if name == "__setattr__":
                    if node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
                        self.refuse(node, "calls __setattr__ in an unusual way", "a name that is written must be seen")
                    given = node.args[0 if parent else 1 :][:1]
                    if given and isinstance(given[0], ast.Constant) and str(given[0].value).startswith("__"):
                        self.refuse(node, f"writes .{given[0].value!s}", "such names belong to Python")
                    handed_on = given and isinstance(given[0], ast.Name) and self._is_parameter(given[0].id)
                    method = next((scope.method for scope in reversed(self.scopes) if scope.kind == "function"), "")
                    if given and not isinstance(given[0], ast.Constant) and not (handed_on and method == name):
                        why = "a name that is written must be seen here"
                        self.refuse(node, "writes an attribute whose name is put together", why)
                self.allowed.add(function)
        elif self.origins(function) & SETTING_FUNCTIONS:
            self.setting(node)
        elif name == "add" and isinstance(value, ast.Subscript) and getattr(value.value, "attr", "") == "at":
            return  # x.at[i].add(y), which makes another array
        elif name in MUTATORS and not self._is_module(value):
            if isinstance(value, ast.Name) and value.id in BUILTINS - self.own and self.home(value.id) is None:
                self.refuse(node, f"calls {value.id}.{name}", "nobody can see here what it changes", "Call the method.")
            if self.owner(value):
                self.not_of_others(node, value, f"calls .{name}")

    def setting(self, node: ast.Call) -> None:
        """jax.config.update(name, value)."""
        name = node.args[0] if node.args else None
        if isinstance(name, ast.Constant):
            if name.value not in self.course.settings:
                self.refuse(node, f"changes the setting {name.value!r}", "the checks and the baselines have it, too")
        else:
            self.settings()

    def call_that_writes(self, node: ast.Call) -> None:
        function = name_called(node)
        into = [keyword.value for keyword in node.keywords if keyword.arg == "out"]
        if function == "nan_to_num" and any(keyword.arg in ("copy", None) for keyword in node.keywords):
            self.refuse(node, "says copy", "nan_to_num may write into what it is given", "Leave it out.")
        if self.origins(node.func) & _FORMATS and node.args:
            put_together = isinstance(node.args[0], ast.BinOp) and isinstance(node.args[0].op, ast.Add)
            self.formats(node, node.args[0], asked=put_together)  # then `str` looks at it, see `closing`
        for keyword in node.keywords:
            said = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if keyword.arg == "stacklevel" and function == "warn" and said in (1, 2):
                continue  # when it is graded, it is 1 (see `asking`)
            if keyword.arg and keyword.arg.startswith("__") and keyword.arg.endswith("__"):
                self.refuse(node, f"says {keyword.arg}", "an object that has it can pass for something else")
            if keyword.arg in ASKS:
                self.refuse(node, f"says {keyword.arg}", ASKS[keyword.arg])
        if function in WRITES_INTO or function == "at" and node.args:
            into += node.args[:1]
        if any(origin.startswith("jax.tree_util.register_") for origin in self.origins(node.func)):
            named = [keyword.value for keyword in node.keywords if keyword.arg == "nodetype"]
            first = next(iter([*node.args, *named]), None)
            if not (isinstance(first, ast.Name) and self._own_class(first.id)):
                what = f"calls {function} with a class that is not its own"
                self.refuse(node, what, "it changes what the checks compare", "Define the class in this notebook.")
            self.allowed.add(node.func)
        for target in into:
            if self.owner(target) == "course":
                self.not_of_others(node, target, "changes a part")

    def jits(self, node: ast.AST) -> bool:
        """Whether a decorator can be nothing but `jax.jit`."""
        if isinstance(node, ast.Call) and self.origins(node.func) == {"functools.partial"} and node.args:
            return self.origins(node.args[0]) == {"jax.jit"}
        return self.origins(node.func if isinstance(node, ast.Call) else node) == {"jax.jit"}

    def decorator(self, node: ast.AST, above_plain: bool) -> None:
        """`@...` above a function or a class. `above_plain`: nothing but `jax.jit` stands between it and a function."""
        called = node.func if isinstance(node, ast.Call) else node
        args = node.args if isinstance(node, ast.Call) and not node.keywords else []
        if isinstance(node, ast.Call) and "functools.partial" in self.origins(node.func) and node.args:
            self.decorator(node.args[0], False)
        for origin in self.origins(called):
            if origin == "functools.wraps":
                if not (above_plain and len(args) == 1 and isinstance(args[0], ast.Name | ast.Attribute)):
                    what = "uses wraps otherwise than right above a function, with one argument"
                    self.refuse(node, what, "it changes what it is given")
                self.allowed.add(called)
            elif origin.startswith("jax.tree_util.register_") or (
                origin in AS_DECORATOR and not (isinstance(node, ast.Call) and node.args)
            ):
                self.allowed.add(called)
        self.visit(node)

    def visit_With(self, node: ast.With) -> None:
        """Threads end with the block that they are made for, and so does what is forbidden in it."""
        held = any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(node))  # open between two values
        entered = ((call, item.optional_vars) for item in node.items for call in _either(item.context_expr))
        for call, name in entered:
            if not isinstance(call, ast.Call):
                continue
            origins = self.origins(call.func)
            bans = isinstance(call.func, ast.Attribute) and call.func.attr in BANS and self._forbids(call)
            if bans and name is None and not held:
                self.allowed.add(call.func)  # nobody keeps what it returns, and could lift a check's by it
            if POOL in origins:
                self.pool(call, held)
                self.allowed.add(call.func)
            if (origins & STREAMS or name_called(call) == "printoptions") and not held:
                self.fitting.add(call.func)
        self.generic_visit(node)

    def pool(self, node: ast.AST, held: bool) -> None:
        """Threads are made, for a block, which a generator may have `held` open."""
        if held:
            why = "between two values of a generator its threads would run on behind the answer"
            self.refuse(node, "uses ThreadPoolExecutor in a generator", why, "Write a function that returns.")
        for ban in sorted(self.course.bans & NOT_IN_A_THREAD):
            why = f"the checks forbid something by jax.{ban}, which another thread does not know"
            self.refuse(node, "uses ThreadPoolExecutor", why, "Calculate without threads.")
