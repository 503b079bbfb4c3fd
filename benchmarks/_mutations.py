"""Mutation operators: each gives, for one node of an answer, what could stand there instead.

The usual ones, as mutmut and cosmic-ray have them, and those of a course on compiling: jit, vmap, axes, dtypes, static
and donated arguments, reductions that are taken for each other. What can make no difference is left out: texts of
errors, annotations, `strict=` of a zip.
"""

import ast
import copy
import re
from collections.abc import Callable, Iterator

from _syntax import Place, made

Changes = Iterator[ast.AST]
OPERATORS: dict[str, Callable[[Place], Changes]] = {}


def operator(name: str):
    """Register a mutation operator under this name."""

    def register(function: Callable[[Place], Changes]) -> Callable[[Place], Changes]:
        OPERATORS[name] = function
        return function

    return register


def is_left_out(place: Place) -> bool:
    """Whether a place is text for readers only: an error's message, an annotation, a docstring."""
    in_raise = any(isinstance(p, ast.Raise) for p in place.parents)
    annotated = place.field in ("annotation", "returns") or any(isinstance(p, ast.arg) for p in place.parents)
    return in_raise or annotated or _is_docstring(place.node) or _is_docstring(place.parent)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def called(node: ast.AST) -> str:
    """The last part of the name of what is called: "jit" of jax.jit(f); empty for anything but a call of a name."""
    if not isinstance(node, ast.Call):
        return ""
    return last_name(node.func)


def last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def copied(node: ast.AST, **fields) -> ast.AST:
    """A copy of a node with other fields."""
    new = copy.copy(node)
    for field, value in fields.items():
        setattr(new, field, value)
    return new


def without(items: list, index: int) -> list:
    return items[:index] + items[index + 1 :]


# --- operators and comparisons

ARITHMETIC = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div, ast.Add],
    ast.Div: [ast.Mult, ast.FloorDiv],
    ast.FloorDiv: [ast.Div, ast.Mod],
    ast.Mod: [ast.FloorDiv],
    ast.Pow: [ast.Mult],
    ast.MatMult: [ast.Mult],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
    ast.BitXor: [ast.BitAnd],
    ast.LShift: [ast.RShift],
    ast.RShift: [ast.LShift],
}
COMPARISONS = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}


@operator("arithmetic")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.BinOp | ast.AugAssign):
        for other in ARITHMETIC.get(type(node.op), []):
            yield copied(node, op=other())


@operator("operand dropped")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.BinOp):
        for kept, dropped in ((node.left, node.right), (node.right, node.left)):
            neutral = 1 if isinstance(node.op, ast.Mult) else 0
            if ast.unparse(dropped) != str(neutral):
                yield kept
    if isinstance(node, ast.BoolOp):
        for i in range(len(node.values)):
            rest = without(node.values, i)
            yield copied(node, values=rest) if len(rest) > 1 else rest[0]
    if isinstance(node, ast.AugAssign):
        yield ast.Assign([node.target], node.value, lineno=node.lineno)


@operator("operands swapped")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.BinOp) and isinstance(
        node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Mod | ast.Pow | ast.MatMult
    ):
        yield copied(node, left=node.right, right=node.left)


@operator("comparison")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            for other in COMPARISONS[type(op)]:
                yield copied(node, ops=[*node.ops[:i], other(), *node.ops[i + 1 :]])


@operator("and/or")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.BoolOp):
        yield copied(node, op=ast.And() if isinstance(node.op, ast.Or) else ast.Or())


@operator("sign or not dropped")
def _(place: Place) -> Changes:
    if isinstance(place.node, ast.UnaryOp) and not isinstance(place.node.operand, ast.Constant):
        yield place.node.operand


@operator("condition")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield copied(node, test=made("not _0", node.test))
    if isinstance(node, ast.comprehension):
        for i, test in enumerate(node.ifs):
            yield copied(node, ifs=[*node.ifs[:i], made("not _0", test), *node.ifs[i + 1 :]])
            yield copied(node, ifs=without(node.ifs, i))


# --- constants

PARTNERS = [("left", "right"), ("wrap", "edge"), ("sum", "mean"), ("min", "max"), ("float32", "float16"), ("C", "F")]
OTHER_TEXT = {**dict(PARTNERS), **{b: a for a, b in PARTNERS}}


@operator("constant")
def _(place: Place) -> Changes:
    node = place.node
    if not isinstance(node, ast.Constant) or _is_strict(place.parent):
        return
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
        yield ast.Constant(value - 1)
    elif isinstance(value, float):
        yield ast.Constant(value * 2 if value else 1.0)
        yield ast.Constant(value * 1.01 if value else -1.0)
    elif isinstance(value, str) and value and not isinstance(place.parent, ast.JoinedStr):
        yield ast.Constant(OTHER_TEXT.get(value, "XX" + value))


def _is_strict(node: ast.AST) -> bool:
    return isinstance(node, ast.keyword) and node.arg == "strict"


@operator("strong for weak")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.Constant) and isinstance(node.value, float):
        yield made("jnp.float32(_0)", node)


@operator("element dropped")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load) and len(node.elts) > 1:
        for i in range(len(node.elts)):
            yield copied(node, elts=without(node.elts, i))
    if isinstance(node, ast.Dict) and len(node.keys) > 1:
        for i in range(len(node.keys)):
            yield copied(node, keys=without(node.keys, i), values=without(node.values, i))


@operator("elements swapped")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.Tuple | ast.List) and len(node.elts) > 1:
        for i in range(len(node.elts) - 1):
            yield copied(node, elts=_swapped(node.elts, i))


def _swapped(items: list, index: int) -> list:
    return [*items[:index], items[index + 1], items[index], *items[index + 2 :]]


# --- statements, loops, slices


@operator("statement deleted")
def _(place: Place) -> Changes:
    node, around = place.node, place.parent
    kept = ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom | ast.Pass | ast.Return
    if isinstance(node, ast.stmt) and place.index is not None and not isinstance(node, kept):
        if not isinstance(around, ast.Module) or not isinstance(node, ast.Assign | ast.AnnAssign):
            yield ast.Pass()
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            yield ast.Pass()  # f = jax.jit(f), below the def
    if isinstance(node, ast.For | ast.While | ast.With | ast.If):
        yield ast.If(ast.Constant(True), node.body, [])  # once, or always


@operator("returns None")
def _(place: Place) -> Changes:
    if isinstance(place.node, ast.Return) and place.node.value:
        yield ast.Return(ast.Constant(None))


@operator("break/continue")
def _(place: Place) -> Changes:
    if isinstance(place.node, ast.Break):
        yield ast.Continue()
    if isinstance(place.node, ast.Continue):
        yield ast.Break()


@operator("slice bound")
def _(place: Place) -> Changes:
    node = place.node
    if not isinstance(node, ast.Slice):
        return
    for bound in ("lower", "upper", "step"):
        value = getattr(node, bound)
        if value is not None:
            yield copied(node, **{bound: None})
            number = value.operand if isinstance(value, ast.UnaryOp) else value
            if not isinstance(number, ast.Constant):  # those have an operator of their own
                yield copied(node, **{bound: made("_0 + 1", value)})
                yield copied(node, **{bound: made("_0 - 1", value)})
    if node.lower is None:
        yield copied(node, lower=ast.Constant(1))
    if node.upper is None:
        yield copied(node, upper=ast.Constant(-1))


@operator("loop bound")
def _(place: Place) -> Changes:
    node = place.node
    if called(node) in ("range", "arange", "fori_loop"):
        for i in range(min(2, len(node.args))):
            if not isinstance(node.args[i], ast.Constant):
                for template in ("_0 + 1", "_0 - 1"):
                    new = made(template, node.args[i])
                    yield copied(node, args=[*node.args[:i], new, *node.args[i + 1 :]])
        if len(node.args) == 1:
            yield copied(node, args=[ast.Constant(1), node.args[0]])
    if isinstance(node, ast.keyword) and node.arg in ("length", "steps", "n", "num"):
        yield copied(node, value=made("_0 + 1", node.value))
        yield copied(node, value=made("_0 - 1", node.value))


@operator("a part of the loop")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.For | ast.comprehension) and called(node.iter) not in ("range", "items", "enumerate"):
        yield copied(node, iter=made("list(_0)[:1]", node.iter))
        yield copied(node, iter=made("list(_0)[1:]", node.iter))
        yield copied(node, iter=made("list(_0)[:-1]", node.iter))
        if not _has_no_order(place):
            yield copied(node, iter=made("list(_0)[::-1]", node.iter))


def _has_no_order(place: Place) -> bool:
    """Whether a loop's rounds may come in any order: all of them are added up, or become a set or a dict."""
    if isinstance(place.parent, ast.SetComp | ast.DictComp):
        return True
    return len(place.parents) > 1 and called(place.parents[-2]) in {
        "sum",
        "any",
        "all",
        "set",
        "frozenset",
        "min",
        "max",
    }


@operator("first leaf only")
def _(place: Place) -> Changes:
    node = place.node
    if called(node) == "leaves":
        yield made("_0[:1]", node)
    if called(node) == "block_until_ready" and node.args:
        yield copied(node, args=[made("jax.tree.leaves(_0)[:1]", node.args[0])])


# --- calls

FAMILIES = [
    ("min", "max"),
    ("minimum", "maximum"),
    ("argmin", "argmax"),
    ("mean", "median", "sum", "max"),
    ("var", "std"),
    ("any", "all"),
    ("sin", "cos"),
    ("cumsum", "cumprod"),
    ("zeros", "ones"),
    ("zeros_like", "ones_like"),
    ("floor", "ceil"),
    ("dot", "multiply"),
    ("jacfwd", "jacrev"),
    ("psum", "pmean", "pmax"),
    ("float32", "float64", "float16", "bfloat16"),
    ("float64", "float32"),
    ("int32", "float32", "int8"),
    ("int64", "int32"),
    ("bool_", "float32"),
    ("switch", "cond"),
    ("append", "insert"),
]
UNWRAPPED = {
    *("abs", "absolute", "sqrt", "square", "exp", "log", "log1p", "expm1", "tanh", "real", "round", "floor", "ceil"),
    *("sorted", "sort", "reversed", "flip", "tuple", "list", "set", "frozenset", "int", "float", "str", "repr", "bool"),
    *("float32", "float64", "int32", "asarray", "array", "ravel", "flatten", "squeeze", "copy", "astype", "reshape"),
    *("stop_gradient", "block_until_ready", "device_put", "checkpoint", "remat", "jit", "vmap", "pmap", "partial"),
    *("conj", "transpose", "unreplicate", "type", "typeof", "clip", "where", "pad", "fold_in", "enumerate", "len"),
    *(
        "optimization_barrier",
        "psum",
        "pmean",
        "all_gather",
        "cumsum",
        "roll",
        "concatenate",
        "stack",
        "with_sharding_constraint",
    ),
}
MODULES = {"jnp", "np", "jax", "lax", "functools", "tree", "random", "nnx"}
REDUCTIONS = {
    "sum",
    "mean",
    "var",
    "std",
    "min",
    "max",
    "argmin",
    "argmax",
    "any",
    "all",
    "prod",
    "cumsum",
    "median",
    "sort",
}

COMMUTE = {"min", "max", "minimum", "maximum", "add", "multiply", "gcd", "logaddexp", "logical_and", "logical_or"}


@operator("another function")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
        name = last_name(node)
        family = next((f for f in FAMILIES if f[0] == name), None) or next((f for f in FAMILIES if name in f), ())
        is_function = isinstance(node, ast.Attribute) or place.field == "func"
        for other in family if is_function else ():
            if other != name:
                yield copied(node, **{"attr" if isinstance(node, ast.Attribute) else "id": other})


@operator("call dropped")
def _(place: Place) -> Changes:
    node = place.node
    if called(node) in UNWRAPPED:
        method = isinstance(node.func, ast.Attribute) and last_name(node.func.value) not in MODULES
        if method:
            yield node.func.value
        elif node.args and not isinstance(node.args[0], ast.Starred):
            yield node.args[0]
    if isinstance(node, ast.Attribute) and node.attr in ("T", "mT", "real") and isinstance(node.ctx, ast.Load):
        yield node.value


@operator("keyword dropped")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.Call):
        for i, keyword in enumerate(node.keywords):
            if keyword.arg and not _is_strict(keyword):
                yield copied(node, keywords=without(node.keywords, i))


@operator("argument dropped")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.Call) and (len(node.args) > 1 or (node.args and called(node) in REDUCTIONS)):
        yield copied(node, args=node.args[:-1])


@operator("arguments swapped")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.Call) and called(node) not in COMMUTE:
        for i in range(len(node.args) - 1):
            pair = node.args[i : i + 2]
            if ast.dump(pair[0]) != ast.dump(pair[1]) and not any(isinstance(a, ast.Starred) for a in pair):
                yield copied(node, args=_swapped(node.args, i))


SAME_IN_BOTH = {"float32", "int32", "float64", "int64", "pi", "inf", "nan", "newaxis", "ndarray"}


@operator("np for jnp")
def _(place: Place) -> Changes:
    node = place.node
    in_both = isinstance(place.parent, ast.Attribute) and place.parent.attr not in SAME_IN_BOTH
    if isinstance(node, ast.Name) and node.id in ("np", "jnp") and in_both:
        yield copied(node, id="jnp" if node.id == "np" else "np")


@operator("None for an axis")
def _(place: Place) -> Changes:
    node = place.node
    axes = ("in_axes", "out_axes", "axis")
    if isinstance(node, ast.keyword) and node.arg in axes:
        for child in ast.walk(node.value):
            if child is node.value and isinstance(child, ast.Constant):
                yield copied(node, value=ast.Constant(None if child.value is not None else 0))
        if isinstance(node.value, ast.Tuple):
            for i, entry in enumerate(node.value.elts):
                if isinstance(entry, ast.Constant):
                    new = ast.Constant(None if entry.value is not None else 0)
                    elements = [*node.value.elts[:i], new, *node.value.elts[i + 1 :]]
                    yield copied(node, value=copied(node.value, elts=elements))


@operator("reverse")
def _(place: Place) -> Changes:
    node = place.node
    if called(node) in ("scan", "cumsum", "associative_scan") and not any(k.arg == "reverse" for k in node.keywords):
        yield copied(node, keywords=[*node.keywords, ast.keyword("reverse", ast.Constant(True))])


@operator("gradient stopped")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.Return) and node.value is not None:
        yield copied(node, value=made("jax.lax.stop_gradient(_0)", node.value))


# --- functions


@operator("decorator dropped")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        for i in range(len(node.decorator_list)):
            yield copied(node, decorator_list=without(node.decorator_list, i))


@operator("jit added")
def _(place: Place) -> Changes:
    node = place.node
    if not isinstance(node, ast.FunctionDef) or isinstance(place.parent, ast.ClassDef):
        return
    jitted = any("jit" in ast.unparse(decorator) for decorator in node.decorator_list)
    if node.args.args and not jitted and re.search(r"\b(jnp|jax|lax)\.", ast.unparse(node)):
        yield copied(node, decorator_list=[made("jax.jit"), *node.decorator_list])
        yield copied(node, decorator_list=[made("jax.jit(static_argnums=_0)", _all(node))])


def _all(function: ast.FunctionDef) -> ast.expr:
    return ast.Tuple([ast.Constant(i) for i in range(len(function.args.args))], ast.Load())


@operator("static or donated added")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.FunctionDef):
        for i, decorator in enumerate(node.decorator_list):
            if "jit" not in ast.unparse(decorator):
                continue
            before = decorator.keywords if isinstance(decorator, ast.Call) else []
            given = {k.arg for k in before}
            for word, value in [
                *(("static_argnames", arg.arg) for arg in node.args.args if "static_argnames" not in given),
                ("donate_argnums", 0),
            ]:
                if word not in given:
                    keywords = [*before, ast.keyword(word, ast.Constant(value))]
                    new = ast.Call(made("jax.jit"), [], keywords)
                    yield copied(node, decorator_list=[*node.decorator_list[:i], new, *node.decorator_list[i + 1 :]])


@operator("parameters swapped")
def _(place: Place) -> Changes:
    node = place.node
    if isinstance(node, ast.arguments) and isinstance(place.parent, ast.FunctionDef | ast.Lambda):
        free = len(node.args) - len(node.defaults)
        for i in range(free - 1):
            if node.args[i].arg not in ("self", "cls"):
                yield copied(node, args=_swapped(node.args, i))
