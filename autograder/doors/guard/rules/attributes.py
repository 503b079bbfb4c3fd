"""Rules for attributes, of modules and of whatever else: `a.b`, "{0.b}".format(a); and for what is written into."""

import ast
import builtins
import contextlib
import re
import string

from ..names import Scope, is_its_class, root_of
from ..words import (
    AS_DECORATOR,
    ASKED_FIRST,
    ASKED_OF_JITTED,
    ASKED_OF_VALUES,
    ATTRIBUTE_FUNCTIONS,
    BANS,
    BUILTINS,
    CLOCKS,
    EVERYTHING,
    FITTING,
    FORBIDDEN,
    GETTERS,
    HANDED_ON,
    MODULES,
    MUTATORS,
    OF_A_FUNCTION,
    OF_A_PARENT,
    OF_HANDED_ON,
    OF_IMPORTED,
    OF_MODULES,
    OF_OWN,
    OF_PACKAGES,
    OF_PALLAS,
    OTHER_SETTINGS,
    PATHS,
    POOL,
    PRINTING,
    PRIVATE,
    PRIVATE_OF_LIBRARIES,
    SETTING_FUNCTIONS,
    TIMERS,
    UNDER_ANOTHER_NAME,
    UNDERSCORE,
    is_mangled,
    is_private,
)
from .reading import ONLY_CALCULATES, READ_FROM_OUTSIDE, Reading

_THEIR_OWN = {"__name__", "__qualname__", "__doc__"}  # what an answer may write on its own functions
SHOWN = {"__str__", "__repr__"}  # how an object shows itself
_OF_JITTED = ("_cache_", "_fun", "_jit", "_cpp", "_clear", "_signature", "_apply", "_src", "_core", "_sys", "_os")
_COUNTS = "autograder.assert_max_traces"


class OfAttributes(Reading):
    """Refuses attributes that lead behind the checks, and what writes into things that are not the answer's own."""

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """`a.b`, which is read, written or deleted."""
        if isinstance(node.ctx, ast.Load):
            inner = node.value.attr if isinstance(node.value, ast.Attribute) else ""
            if node.attr in ("__name__", "__qualname__") and inner == "__class__":
                self.fitting.add(node.value)  # `x.__class__.__name__` is a text
            self.attribute(node, node.value, node.attr)
            if node not in self.allowed:
                for origin in self.origins(node):
                    self.bare(node, origin)
        else:
            self.written(node, node.value, node.attr)
        if node.attr in _THEIR_OWN or not self._in_one_way_alone(node.value):
            self.followed(node.value)
        self.visit(node.value)

    def followed(self, value: ast.AST) -> None:
        """A module may stand where an attribute of it is asked for, and so may whatever is no more than a value."""
        if isinstance(value, ast.Name | ast.Attribute):
            self.allowed.add(value)

    def _in_one_way_alone(self, value: ast.AST) -> bool:
        """Whether there are rules for how this is called: `open.__call__` and `attrgetter.mro()[0]` are it again."""
        if isinstance(value, ast.Name) and value.id in {*ATTRIBUTE_FUNCTIONS, "type", "super", "open", "vars"}:
            return True
        if isinstance(value, ast.Attribute) and value.attr in OF_A_PARENT | BANS:
            return True
        return any(
            origin in FITTING | TIMERS | GETTERS | AS_DECORATOR | {POOL, "types.SimpleNamespace"}
            or origin.startswith("jax.tree_util.register_")
            or origin.endswith(".ABCMeta")
            for origin in self.origins(value)
        )

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        """Its keywords are attributes, which it reads."""
        for name in node.kwd_attrs:
            self.attribute(node, ast.Name("_", ast.Load()), name)
            if name.startswith("_") or name in MUTATORS | ASKED_FIRST | self.cells.writers:
                self.refuse(node, f"asks for .{name}", "nobody can see here of what", f"Write the dot: x.{name}.")
        self.generic_visit(node)

    def attribute(self, node: ast.AST, value: ast.AST, attr: str) -> None:
        """An attribute that is read."""
        modules = self.origins(value)
        root = root_of(value)
        sure = modules if not (isinstance(root, ast.Name) and root.id in self.cells.otherwise) else frozenset()
        for module in modules:
            self.of_module(node, module, attr)
        if attr in ("format", "format_map"):
            self.formats(node, value, asked=node in self.fitting)
        if not sure and (attr in PATHS or (self.cells.hand_on and attr in OF_HANDED_ON)):
            self.refuse(node, f"asks for .{attr}", "nobody can see here what that leads to", "Import what you need.")
        if attr == "loads" and sure != {"json"}:
            self.refuse(node, "asks for .loads", "what is read may be run")
        if attr in MUTATORS and self.is_kind(value):
            what = f"asks for {ast.unparse(value)[:40]}.{attr}"
            self.refuse(node, what, "nobody can see here what it changes", "Call the method.")
        if attr in self.cells.writers and isinstance(value, ast.Name) and value.id in self.cells.classes:
            what = f"asks for {value.id}.{attr}"
            self.refuse(node, what, "that writes attributes of whatever it is given", "Call the method of an object.")
        of_own = attr in OF_OWN & self._of_own_classes() and not modules and isinstance(node, ast.Attribute)
        if (
            attr in FORBIDDEN
            and not of_own
            and not any(f"{m}.{attr}" in (*MODULES, *GETTERS) or ("pallas" in m and attr in OF_PALLAS) for m in sure)
            and node not in self.fitting
        ):
            self.refuse(node, f"asks for .{attr}", READ_FROM_OUTSIDE)
        if attr == "disable_jit":
            self.without_jit(node)
        if attr in PRINTING:
            self.printing(node, attr)
        if attr == "keywords" and not isinstance(node, ast.Attribute):
            self.refuse(node, "asks for keywords by its name", "they could be changed", "Write `.keywords`.")
        if attr in BANS and node not in self.allowed:
            self.refuse(
                node, f"asks for .{attr}", "it can lift what a check forbids", f"Write `with jax.{attr}(True):`."
            )
        usual = attr in (OF_IMPORTED if sure else OF_IMPORTED & UNDERSCORE if modules else UNDERSCORE)
        if not attr.startswith("_") or usual or (node in self.allowed and attr in OF_A_PARENT):
            return
        if attr == "__dict__" and (
            self._me_unreachable(value) or (self._compares() and isinstance(node, ast.Attribute))
        ):
            return  # the value is asked, see `own_objects`
        if attr in ("__class__", *SHOWN) and node in self.fitting:
            return
        if attr == "__class__" and isinstance(node, ast.Attribute) and self._my_object(value):
            return
        if is_mangled(attr) and self._me(value):
            return
        mine = self._me(value) or (self._own_function(value) and not attr.startswith(_OF_JITTED))
        if attr in self.cells.private and not modules and (attr not in PRIVATE_OF_LIBRARIES or mine):
            return
        self.refuse(
            node, f"asks for .{attr}", "such names belong to Python or to a library, and lead behind the checks"
        )

    def _of_own_classes(self) -> frozenset[str]:
        """What objects are asked for that an answer may have made: those of its classes, and Flax's networks."""
        of_flax = any("flax.nnx" in origins for origins in self.cells.imported.values())
        return self.cells.methods | self.cells.fields | ({"eval"} if of_flax else set())

    def visit_Compare(self, node: ast.Compare) -> None:
        """`a.__class__ is b.__class__`: classes are compared, and handed to nobody."""
        values = [node.left, *node.comparators]
        same = all(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops)
        equal = all(isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops)
        if same or (equal and all(map(self._is_plain_class, values))):
            self.fitting.update(value for value in values if is_its_class(value))
        self.generic_visit(node)

    def _is_plain_class(self, node: ast.AST) -> bool:
        """Whether this is a class that equals itself alone: no answer has classes of another kind."""
        if isinstance(node, ast.Name):
            plain = node.id in BUILTINS and isinstance(getattr(builtins, node.id, None), type)
            return self._own_class(node.id) or (plain and self.is_pythons(node.id))
        of_type = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"
        return is_its_class(node) or (of_type and self.is_pythons("type"))

    def of_module(self, node: ast.AST, module: str, attr: str) -> None:
        """`module.attr`, for a module that may be imported, or for what stands in one."""
        whole = f"{module}.{attr}"
        if whole in UNDER_ANOTHER_NAME:
            self.refuse(node, f"uses {whole}", "that is a module with a name of its own", f"Write `import {attr}`.")
        if whole in FITTING and node in self.fitting:
            return
        if (
            whole in self.course.imported.values()
            or whole in MODULES
            or any(name.startswith(f"{whole}.") for name in MODULES)
        ):
            return
        if module in MODULES:
            names = MODULES[module]
            if names is not EVERYTHING and attr not in names:
                self.refuse(node, f"uses {whole}", ONLY_CALCULATES)
        elif not self._of_known(module) or any(name.startswith(f"{module}.") for name in MODULES):
            self.refuse(node, f"uses {whole}", "that is for the checks alone")
        package = OF_PACKAGES.get(module.partition(".")[0], set())
        if MODULES.get(module, ()) is EVERYTHING and attr in OF_MODULES | package:
            self.refuse(node, f"uses {whole}", "that module is not one for answers")

    def bare(self, node: ast.AST, origin: str) -> None:
        """Something imported that is not followed by a dot."""
        if origin.endswith(".ABCMeta"):
            self.refuse(node, "uses ABCMeta otherwise than as a metaclass", "it makes classes", "Derive from ABC.")
        if origin in FITTING | TIMERS and node not in self.fitting:
            self.refuse(node, f"uses {origin} in an unusual way", "nobody can see here what it does", "Leave it out.")
        if origin.rpartition(".")[2] in PRINTING and isinstance(node, ast.Name):
            self.printing(node, origin.rpartition(".")[2])
        if origin == "types.SimpleNamespace":
            why = "from a table it makes an object with any attributes"
            self.refuse(node, "hands SimpleNamespace on", why, "Call it here, with keywords.")
        if origin in GETTERS:
            self.refuse(node, f"hands {origin} on", "a name that is asked for must be seen here", "Call it here.")
        if origin == POOL:
            what = "uses ThreadPoolExecutor otherwise than in a `with`"
            self.refuse(
                node, what, "its threads would run on behind the answer", "Write `with ThreadPoolExecutor(…) as …:`."
            )
        if origin in SETTING_FUNCTIONS | {"jax.config"}:
            self.settings()
        if origin.rsplit(".", 1)[-1].startswith("register_") and origin.startswith("jax.tree_util"):
            self.refuse(
                node, f"hands {origin} on", "it also changes what checks compare", "Call it here, with your class."
            )
        if origin in AS_DECORATOR:
            self.refuse(node, f"uses {origin.split('.')[1]} otherwise than with an @", "it changes what it is given")
        if origin in MODULES:
            if origin not in HANDED_ON:
                why = "nobody can see then what of it is used"
                self.refuse(
                    node, f"hands the module {origin} on", why, "Use its names, or import it where you need it."
                )
        elif not self._of_known(origin):
            self.refuse(node, f"uses {origin}", "that is for the checks alone")

    def without_jit(self, node: ast.AST) -> None:
        """JAX is asked to trace nothing."""
        if _COUNTS in self.course.imported.values():
            why = "the checks count traces, and then there are none"
            self.refuse(node, "asks for disable_jit", why, "Leave it out once you have looked.")

    def printing(self, node: ast.AST, name: str) -> None:
        """NumPy is told how to print. What it prints may be compared: so that is put back after a cell, or a block."""
        if node not in self.fitting and (name == "printoptions" or len(self.scopes) > 1):
            where = "otherwise than in a `with`" if name == "printoptions" else "inside a function"
            instead = "Write `with np.printoptions(…):`, in a function that returns."
            self.refuse(node, f"uses {name} {where}", "the checks would print like that, too", instead)

    def settings(self) -> None:
        """A setting is changed whose name is not seen: the words of the cell are looked through, once."""
        if self._settings_seen:
            return
        self._settings_seen = True  # and nothing was refused, or the reading has ended
        for part in self.scopes[0].parts:
            said = part.value if isinstance(part, ast.Constant) else part.arg if isinstance(part, ast.keyword) else ""
            if isinstance(said, str) and " " not in said and any(word in said for word in OTHER_SETTINGS):
                self.refuse(part, f"may change the setting {said}", "the checks and the baselines have it, too")

    def written(self, node: ast.AST, value: ast.AST, attr: str) -> None:
        """An attribute that is written or deleted."""
        if attr in FORBIDDEN and not (attr in OF_OWN and self._my_object(value)):
            self.refuse(node, f"writes .{attr}", READ_FROM_OUTSIDE)
        if attr in CLOCKS:
            self.refuse(node, f"writes .{attr}", "the checks measure with what has that name", "Take another name.")
        if self._me(value) is not None and (is_mangled(attr) or not attr.startswith("__")):
            return
        mine = value.args[0] if isinstance(value, ast.Call) and ast.unparse(value).startswith("type(") else None
        mine = value.value if is_its_class(value) else mine  # type: ignore[attr-defined]
        if mine is not None and self._me(mine) and not attr.startswith("_") and attr not in ASKED_OF_JITTED:
            return  # `type(self).count += 1`
        own = isinstance(value, ast.Name) and (value.id in self.cells.names or self.home(value.id) is not None)
        unknown = isinstance(value, ast.Name) and self._is_parameter(value.id)
        own = own and (not unknown or self._own_function(value))
        private = self.cells.private - PRIVATE
        if attr == "__qualname__" and not self._own_function(value):
            what = f"writes {ast.unparse(value)[:40]}.{attr}"
            self.refuse(node, what, "a class that has it can pass for another one")
        of_own = is_private(attr) and not attr.startswith(_OF_JITTED) and self._own_function(value)
        if attr.startswith("_") and attr not in private and not (own and attr in _THEIR_OWN) and not of_own:
            self.refuse(node, f"writes .{attr}", "such names belong to Python or to a library")
        self.not_of_others(node, value, f"writes .{attr}")
        # Where it is not seen whose this is, the value is asked, see `own_objects`. It may be jitted.
        known = own or attr in self.cells.fields
        asked = ASKED_OF_JITTED if known else ASKED_OF_JITTED | ASKED_OF_VALUES
        of_a_function = attr in OF_A_FUNCTION and self._own_function(value)
        if attr in asked | self.course.methods and not (own and attr in _THEIR_OWN) and not of_a_function:
            why = "nobody can see here that this is an object of your own class, or your own function"
            self.refuse(node, f"writes .{attr}", why, "Let the class set it.")

    def not_of_others(self, node: ast.AST, value: ast.AST, what: str) -> None:
        """Something is to be changed: refuse that if it is not the answer's own."""
        root, whose = root_of(value), self.owner(value)
        if isinstance(root, ast.IfExp) and not whose:  # (a if c else b)[k] = v
            for branch in (root.body, root.orelse):
                self.not_of_others(node, branch, what)
            return
        if whose:
            of = {"import": "a library", "course": "the course", "class": "a class"}[whose]
            name = f" of {ast.unparse(value)[:40]}"
            self.refuse(node, f"{what}{name}", f"that belongs to {of}, and the checks use it", "Change a copy of it.")
        if not isinstance(root, ast.Name | ast.Call) or isinstance(root, ast.Call) and what.startswith("writes ."):
            self.refuse(node, what, "nobody can see here whose it is", "Give the object a name first.")

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """`a[b]`, which is read, written or deleted."""
        if not isinstance(node.ctx, ast.Load) and not self._environment(node):
            self.not_of_others(node, node.value, "writes a part")
        self.generic_visit(node)

    def _environment(self, node: ast.Subscript) -> bool:
        """Whether this is a setting of JAX or XLA, which has no effect any more when an answer runs."""
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return "os.environ" in self.origins(node.value) and str(key).startswith(("XLA_", "JAX_"))

    def formats(self, node: ast.AST, value: ast.AST, *, asked: bool = False) -> None:
        """A format string can ask for attributes. `asked`: the text is asked when it is there, see `own_objects`."""
        if self._is_module(value):
            return
        if isinstance(value, ast.JoinedStr):
            texts: list[object] = [part.value for part in value.values if isinstance(part, ast.Constant)] or [""]
        else:
            texts = [value.value] if isinstance(value, ast.Constant) else self.texts(value)
        asking = r"\{[^{}]*[.\[]\s*_|\{[^{}]*(?:gi_|f_|tb_|cr_)"
        unseen = not texts or any(not isinstance(text, str) for text in texts)
        if (unseen and not asked) or any(re.search(asking, text) for text in texts if isinstance(text, str)):
            self.refuse(node, "calls format of a text that is not seen here", "such a text can ask for anything")
        for text in texts:
            self.asked_in(node, str(text))

    def asked_in(self, node: ast.AST, text: str) -> None:
        """The attributes that a format string asks for, in its fields and in how they are to be shown."""
        with contextlib.suppress(ValueError):  # no format string: it says so when it is used
            for _, field, shown, _ in string.Formatter().parse(text):
                for name in re.findall(r"\.([^.\[\]]+)", field or ""):
                    place = ast.copy_location(ast.Name("_", ast.Load()), node)
                    self.attribute(place, place, name)
                self.asked_in(node, shown or "")

    def texts(self, value: ast.AST) -> list[object]:
        """What a function's own name may stand for, if each of its assignments says that with a constant."""
        home = self.home(value.id) if isinstance(value, ast.Name) else None
        if home is None or home.node is None or home.kind != "function":
            return []
        name: str = value.id  # type: ignore[attr-defined]
        if name not in home.texts:
            home.texts[name] = [] if self._is_parameter(name) else self._texts_of(home, name)
        return home.texts[name]

    def _texts_of(self, home: Scope, name: str) -> list[object]:
        found: list[object] = []
        constant = [s for s in home.parts if isinstance(s, ast.Assign) and isinstance(s.value, ast.Constant)]
        for statement in constant:
            if [ast.unparse(target) for target in statement.targets] == [name]:
                found.append(statement.value.value)  # type: ignore[attr-defined]
        kinds = ast.Name | ast.arg | ast.alias | ast.FunctionDef | ast.ClassDef
        names = [n for n in home.parts if isinstance(n, kinds)]
        stores = [n for n in names if not isinstance(n, ast.Name) or not isinstance(n.ctx, ast.Load)]
        said = [getattr(n, "id", getattr(n, "arg", getattr(n, "asname", "") or getattr(n, "name", ""))) for n in stores]
        hidden = ast.match_case | ast.ExceptHandler | ast.Nonlocal | ast.Global
        return [] if any(isinstance(n, hidden) for n in home.parts) or said.count(name) != len(found) else found
