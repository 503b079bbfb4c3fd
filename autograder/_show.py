"""Pictures of programs: a jaxpr, and the HLO that XLA was given or made of it."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from jax.extend.core import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn
from jax.extend.core import Literal as JaxprLiteral

from . import _hlo, _jaxpr
from ._mermaid import Box, Edge, Kind, Node, flowchart
from ._traces import function_name

MAX_NODES = 60  # more than this is a hairball at 100 % zoom
MAX_LINES = 60


class _View:
    """What a picture has in common: Mermaid where it can be drawn, text where it cannot."""

    text: str
    mermaid: str

    def summary(self) -> str:
        raise NotImplementedError

    def _readable(self) -> str:
        return self.text

    def __str__(self) -> str:
        lines = self._readable().strip().splitlines()
        if len(lines) > MAX_LINES:
            lines[MAX_LINES:] = [f"... {len(lines) - MAX_LINES} more lines; .text has all of it"]
        return "\n".join([*lines, self.summary()])

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/vnd.mermaid": self.mermaid, "text/plain": str(self)}


class JaxprView(_View):
    """A jaxpr and its counts; see `_jaxpr` for what counts how.

    primitives: Counter of names, into every sub-jaxpr. equations: int. flops: int, loop lengths multiplied;
    flops_lower_bound: whether part of it cannot be known. largest: type of the largest intermediate,
    "float32[1000,1000]"; largest_size: its elements. text: the jaxpr as JAX prints it. mermaid: the graph.
    """

    def __init__(self, name: str, jaxpr: ClosedJaxpr):
        counts = _jaxpr.statistics(jaxpr)
        self.name = name
        self.jaxpr = jaxpr
        self.primitives: Counter[str] = counts.primitives
        self.equations: int = counts.equations
        self.flops: int = counts.flops
        self.flops_lower_bound: bool = counts.flops_lower_bound
        self.largest: str = counts.largest
        self.largest_size: int = counts.largest_size
        self.text = jaxpr.pretty_print(use_color=False)  # in a notebook, str() adds colours, which break comparisons

    @property
    def mermaid(self) -> str:
        return _draw(_JaxprPicture(self.jaxpr), f"{self.name}: {self.summary()}", self.primitives)

    def summary(self) -> str:
        least = "at least " if self.flops_lower_bound else ""
        return (
            f"{count(self.equations, 'equation')}, {least}{count(self.flops, 'FLOP')}, "
            f"largest intermediate {self.largest}"
        )


class HloView(_View):
    """The HLO of one stage; see `_hlo` for what counts how.

    ops: Counter of HLO operations. fusions: int. collectives: Counter. bytes, flops, temp_bytes: XLA's estimates, or
    None; with loops=True a loop's body is counted once in them. text: as XLA prints it. mermaid: the graph.
    """

    def __init__(self, name: str, hlo: _hlo.Hlo):
        self.name = name
        self.stage = hlo.stage
        self.module = hlo.module
        self.ops: Counter[str] = hlo.module.ops
        self.fusions: int = hlo.module.fusions
        self.collectives: Counter[str] = hlo.module.collectives
        self.loops: bool = hlo.module.loops
        self.bytes: int | None = hlo.bytes
        self.flops: int | None = hlo.flops
        self.temp_bytes: int | None = hlo.temp_bytes
        self.text = hlo.text

    @property
    def mermaid(self) -> str:
        return _draw(_HloPicture(self.module), f"{self.name}, {self.stage}: {self.summary()}", self.ops)

    def summary(self) -> str:
        parts = [count(self.ops.total(), "op")]
        if self.stage == "optimized":
            parts.append(count(self.fusions, "fusion"))
        if self.collectives:
            parts.append(count(self.collectives.total(), "collective"))
        if self.bytes is not None:
            once = " (each loop counted once)" if self.loops else ""
            parts.append(f"{self.bytes:,} bytes accessed{once}")
        return ", ".join(parts)

    def _readable(self) -> str:
        return _hlo.tidy(self.text)


def show_jaxpr(fn: Callable, *args: Any) -> JaxprView:
    """The jaxpr of `fn(*args)`: a graph in JupyterLab, text elsewhere, and counts to compute with.

    `fn` may be jitted, with static arguments, or plain. Looking changes nothing: the function is traced for itself,
    and its next call traces or hits the cache as it would have done anyway (`jax.make_jaxpr`, in contrast, shares the
    tracing cache of `jit`). Errors that `fn` raises under a tracer are JAX's own.
    """
    return JaxprView(function_name(fn), _jaxpr.trace(fn, *args))


def show_hlo(fn: Callable, *args: Any, stage: _hlo.Stage = "optimized") -> HloView:
    """The HLO of `fn(*args)`: before ("lowered") or after ("optimized") XLA's passes.

    A graph in JupyterLab, each fusion a box that holds its operations; text elsewhere. A plain function is jitted
    first. The caches of `fn` are left alone, as in `show_jaxpr`.
    """
    return HloView(function_name(fn), _hlo.hlo(fn, *args, stage=stage))


def count(number: int, noun: str) -> str:
    """`1 equation`, `1,200 equations`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def tally(counter: Counter[str], most: int = 12) -> str:
    """`mul 200, sub 200, add 1`: the most frequent first."""
    names = [f"{name} {number}" for name, number in counter.most_common(most)]
    return ", ".join(names + ["..."] * (len(counter) > most)) or "nothing"


# --- graphs ---

# What an edge comes from: a node, a literal to be written into the label, or a tuple of these.
Source = Node | str | tuple


class _Picture:
    """Builds a graph: `env` maps the variables of a program to their sources."""

    def __init__(self):
        self.graph = Box("graph", "")
        self.edges: list[Edge] = []
        self._names = 0

    def _id(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def box(self, parent: Box, title: str, kind: str = "box") -> Box:
        box = Box(self._id(), title, kind)
        parent.content.append(box)
        return box

    def node(
        self, box: Box, lines: Iterable[str], kind: Kind = "compute", sources: Iterable = (), labels: Iterable = ()
    ) -> Node:
        node = Node(self._id(), tuple(lines), kind)
        box.content.append(node)
        labels = list(labels)
        for index, source in enumerate(sources):
            self.edge(source, node, label=labels[index] if labels else "")
        return node

    def start(self, box: Box, label: str, type_name: str, source: Source) -> Node:
        """A value that goes round in a loop, or comes in slice by slice."""
        value = f" = {source}" if isinstance(source, str) else ""
        return self.node(box, (label + value, type_name), "control", [source])

    def result(self, index: int, number: int, type_name: str, source: Source) -> None:
        name = "result" if number == 1 else f"result {index}"
        value = f" = {source}" if isinstance(source, str) else ""
        self.node(self.graph, (name + value, type_name), "input", [source])

    def edge(self, source: Source, target: Source, label: str = "", back: bool = False) -> None:
        if isinstance(source, tuple):
            for part in source:
                self.edge(part, target, label, back)
        elif isinstance(source, Node) and isinstance(target, Node):
            edge = Edge(source.id, target.id, label, back)
            if edge not in self.edges:
                self.edges.append(edge)


def _draw(picture: _Picture, title: str, operations: Counter[str]) -> str:
    size = sum(1 for _ in picture.graph.nodes())
    picture.graph.title = title
    _prune(picture.graph)
    if size <= MAX_NODES:
        return flowchart(picture.graph, picture.edges)
    note = Node("n1", (f"too many operations to draw ({operations.total():,})", tally(operations, 6)))
    return flowchart(Box("graph", title, content=[note]), [])


def _prune(box: Box) -> None:
    """Drop boxes with nothing in them, such as a fusion that only broadcasts a constant."""
    for item in box.content:
        if isinstance(item, Box):
            _prune(item)
    box.content = [item for item in box.content if not isinstance(item, Box) or item.content]


def _operation_label(name: str, operands: list[Source], details: str = "") -> str:
    """`mul 2.0 ·`: literals are written out, a dot stands for each arrow. Without literals just `mul`."""
    if any(isinstance(operand, str) for operand in operands):
        name = " ".join([name, *(operand if isinstance(operand, str) else "·" for operand in operands)])
    return f"{name} {details}".strip()


def _value(literal: Any) -> str:
    number = literal.item() if hasattr(literal, "item") else literal
    if isinstance(number, int) and not isinstance(number, bool):
        return format(int(number))  # not the name of JAX's own kind of int
    return f"{number:.6g}" if isinstance(number, float) else str(number)


# --- jaxpr ---

_DETAILS = ("y", "axes", "axis", "dimension")
_ORDERED = frozenset({"sub", "div", "rem", "pow", "atan2", "lt", "le", "gt", "ge", "dot_general"})
_REDUCTIONS = ("reduce", "arg", "cum", "dot", "conv_", "sort", "psum", "pmax", "pmin")


class _JaxprPicture(_Picture):
    def __init__(self, jaxpr: ClosedJaxpr):
        super().__init__()
        names = getattr(_jaxpr.open_jaxpr(jaxpr).debug_info, "arg_names", None) or ()
        inputs = []
        for index, variable in enumerate(jaxpr.in_avals):
            name = names[index] if index < len(names) and names[index] else f"input {index}"
            inputs.append(self.node(self.graph, (name, _jaxpr.type_name(variable)), "input"))
        for index, source in enumerate(self.program(jaxpr, inputs, self.graph)):
            self.result(index, len(jaxpr.out_avals), _jaxpr.type_name(jaxpr.out_avals[index]), source)

    def program(self, closed: Jaxpr | ClosedJaxpr, inputs: list[Source], box: Box) -> list[Source]:
        """Draw a jaxpr into `box`; returns the sources of its outputs."""
        jaxpr = _jaxpr.open_jaxpr(closed)
        env: dict[Any, Source] = dict(zip(jaxpr.invars, inputs, strict=True))
        for variable in jaxpr.constvars:
            env[variable] = self.node(box, ("constant", _jaxpr.type_name(variable.aval)), "input")
        for eqn in jaxpr.eqns:
            operands = [self._read(env, atom) for atom in eqn.invars]
            for variable, source in zip(eqn.outvars, self.equation(eqn, operands, box), strict=True):
                env[variable] = source
        return [self._read(env, atom) for atom in jaxpr.outvars]

    def _read(self, env: dict, atom: Any) -> Source:
        if isinstance(atom, JaxprLiteral):
            return _value(atom.val)
        return env[atom]

    def equation(self, eqn: JaxprEqn, operands: list[Source], box: Box) -> list[Source]:
        name, inner = eqn.primitive.name, _jaxpr.subjaxprs(eqn)
        if name == "scan":
            return self.scan(eqn, operands, box)
        if name == "while":
            return self.while_loop(eqn, operands, box)
        if name == "cond":
            return self.cond(eqn, operands, box)
        if len(inner) == 1 and len(inner[0].in_avals) == len(operands):
            inside = box if name in _jaxpr.WRAPPERS else self.box(box, name)
            outputs = self.program(inner[0], operands, inside)
            if len(outputs) == len(eqn.outvars):
                return outputs
        return self.operation(eqn, operands, box)

    def operation(self, eqn: JaxprEqn, operands: list[Source], box: Box) -> list[Source]:
        name = eqn.primitive.name
        details = " ".join(f"{key}={eqn.params[key]}" for key in _DETAILS if eqn.params.get(key) is not None)
        outputs = [v for v in eqn.outvars if not isinstance(v, DropVar)] or eqn.outvars
        types = [_jaxpr.type_name(variable.aval) for variable in outputs]
        arrows = [operand for operand in operands if isinstance(operand, Node)]
        labels: list[str] = []
        if name == "select_n":
            cases = ["false", "true"] if len(operands) == 3 else list(map(str, range(len(operands) - 1)))
            labels = ["which", *cases]
        elif name in _ORDERED and len(set(arrows)) > 1:
            labels = ["1", "2"]
        kind: Kind = "compute"
        if name.startswith(_REDUCTIONS) and name != "reduce_precision":
            kind = "reduction"
        elif "callback" in name:
            kind = "control"
        node = self.node(box, (_operation_label(name, operands, details), *types[:2]), kind, operands, labels)
        return [node] * len(eqn.outvars)

    def scan(self, eqn: JaxprEqn, operands: list[Source], box: Box) -> list[Source]:
        body = eqn.params["jaxpr"]
        # Consts, then carries, then slices of the xs; the carries come first among the outputs. A slice has one axis
        # less inside than outside, and that is how they are told apart on every version of JAX.
        carries = sum(
            len(v.aval.shape) == len(inner.shape) for v, inner in zip(eqn.outvars, body.out_avals, strict=True)
        )
        slices = sum(len(v.aval.shape) > len(inner.shape) for v, inner in zip(eqn.invars, body.in_avals, strict=True))
        consts = len(operands) - carries - slices
        length = eqn.params["length"]
        inside = self.box(box, f"scan, {count(length, 'time')}", "loop")
        inputs = list(operands[:consts])
        for index in range(consts, len(operands)):
            label = "carry" if index < consts + carries else "slice"
            inputs.append(self.start(inside, label, _jaxpr.type_name(body.in_avals[index]), operands[index]))
        outputs = self.program(body, inputs, inside)
        for carry, output in zip(inputs[consts : consts + carries], outputs[:carries], strict=True):
            self.edge(output, carry, "next", back=True)
        for index in range(carries, len(outputs)):
            aval = eqn.outvars[index].aval
            outputs[index] = self.node(inside, ("stack", _jaxpr.type_name(aval)), "control", [outputs[index]])
        return outputs

    def while_loop(self, eqn: JaxprEqn, operands: list[Source], box: Box) -> list[Source]:
        body, condition = eqn.params["body_jaxpr"], eqn.params["cond_jaxpr"]
        first, second = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        carried = operands[first + second :]
        trips = _jaxpr.trip_count(eqn)
        inside = self.box(box, "while" if trips is None else f"while, {count(trips, 'time')}", "loop")
        carries = [
            self.start(inside, "carry", _jaxpr.type_name(aval), source)
            for aval, source in zip(body.in_avals[second:], carried, strict=True)
        ]
        test = self.program(condition, operands[:first] + carries, self.box(inside, "condition"))
        outputs = self.program(body, operands[first : first + second] + carries, inside)
        for carry, output in zip(carries, outputs, strict=True):
            if output is not carry:
                self.edge(output, carry, "next", back=True)
        self.node(inside, ("go on?",), "control", test)
        return carries  # what the condition turned down last, not what the body made of it

    def cond(self, eqn: JaxprEqn, operands: list[Source], box: Box) -> list[Source]:
        branches = eqn.params["branches"]
        titles = ["false", "true"] if len(branches) == 2 else [f"branch {index}" for index in range(len(branches))]
        results = [
            self.program(branch, operands[1:], self.box(box, title, "loop"))
            for title, branch in zip(titles, branches, strict=True)
        ]
        joins: list[Source] = []
        for index, variable in enumerate(eqn.outvars):
            join = self.node(box, ("cond", _jaxpr.type_name(variable.aval)), "control", [operands[0]], ["which"])
            for title, outputs in zip(titles, results, strict=True):
                self.edge(outputs[index], join, title)
            joins.append(join)
        return joins


# --- HLO ---

_HLO_REDUCTIONS = frozenset({"reduce", "reduce-window", "dot", "convolution", "sort"}) | _hlo.COLLECTIVES


class _HloPicture(_Picture):
    def __init__(self, module: _hlo.Module):
        super().__init__()
        self.module = module
        inputs = {}
        for instruction in module.computations[module.entry]:
            if instruction.opcode == "parameter":
                label = instruction.origin or instruction.name.rsplit(".", 1)[0]
                node = self.node(self.graph, (label, _hlo.type_name(instruction.type)), "input")
                inputs[int(instruction.operands[0])] = node
        result = self.computation(module.entry, [inputs[index] for index in sorted(inputs)], self.graph)
        root = next(i for i in module.computations[module.entry] if i.root)
        types = _hlo.tuple_types(root.type)
        results = result if isinstance(result, tuple) and len(result) == len(types) else [result] * len(types)
        for index, (source, kind) in enumerate(zip(results, types, strict=True)):
            self.result(index, len(types), _hlo.type_name(kind), source)

    def computation(self, name: str, inputs: list[Source], box: Box) -> Source:
        """Draw a computation into `box`; returns the source of its root."""
        env: dict[str, Source] = {}
        root: Source = ()
        for instruction in self.module.computations[name]:
            if instruction.opcode == "parameter":
                source = inputs[int(instruction.operands[0])]
            else:
                operands = [env.get(operand, operand) for operand in instruction.operands]
                source = self.instruction(instruction, operands, box)
            env[instruction.name] = source
            root = source if instruction.root else root
        return root

    def instruction(self, instruction: _hlo.Instruction, operands: list[Source], box: Box) -> Source:
        opcode, roles = instruction.opcode, dict(instruction.called)
        if opcode == "constant":
            if "[]" in instruction.type:
                return instruction.operands[0]
            return self.node(box, ("constant", _hlo.type_name(instruction.type)), "input")
        if opcode == "broadcast" and isinstance(operands[0], str):
            return operands[0]
        if opcode == "tuple":
            return tuple(operands)
        if opcode == "get-tuple-element":
            return self._element(instruction, operands[0])
        if opcode == "fusion":
            return self.computation(roles["calls"], operands, self.box(box, "fusion"))
        if opcode == "call" or (opcode == "async-start" and "calls" in roles):
            return self.computation(next(iter(roles.values())), operands, box)
        if opcode in _hlo.BOOKKEEPING or _hlo.operation(instruction) is None:
            return operands[0] if operands else ()
        if opcode == "while":
            return self.while_loop(instruction, operands[0], box)
        if opcode == "conditional":
            return self.conditional(instruction, operands, box)
        return self.operation(instruction, operands, box)

    def _element(self, instruction: _hlo.Instruction, source: Source) -> Source:
        index = int(instruction.attributes.split("index=")[1].split(",")[0])
        return source[index] if isinstance(source, tuple) and index < len(source) else source

    def operation(self, instruction: _hlo.Instruction, operands: list[Source], box: Box) -> Node:
        name = _hlo.operation(instruction) or instruction.opcode
        roles = dict(instruction.called)
        details = ""
        if "to_apply" in roles:
            combiner = self.module.computations.get(roles["to_apply"], ())
            details = "".join(f"({i.opcode})" for i in combiner if i.root)
            if name.startswith("reduce"):
                operands = [operand for operand in operands if not isinstance(operand, str)]  # the initial value
        if name == "compare" and "direction=" in instruction.attributes:
            details = instruction.attributes.split("direction=")[1][:2]
        if name == "custom-call":
            details = instruction.attributes.split('custom_call_target="')[-1].split('"')[0]
        arrows = {operand for operand in operands if isinstance(operand, Node)}
        labels = []
        if name == "select":
            labels = ["which", "true", "false"]
        elif name in ("subtract", "divide", "remainder", "power", "atan2", "compare", "dot") and len(arrows) > 1:
            labels = ["1", "2"]
        kind: Kind = "reduction" if name in _HLO_REDUCTIONS else "compute"
        label = _operation_label(name, operands, details)
        return self.node(box, (label, _hlo.type_name(instruction.type)), kind, operands, labels)

    def while_loop(self, instruction: _hlo.Instruction, start: Source, box: Box) -> Source:
        roles = dict(instruction.called)
        trips = instruction.trip_count
        inside = self.box(box, "while" if trips is None else f"while, {count(trips, 'time')}", "loop")
        parts = start if isinstance(start, tuple) else (start,)
        types = _hlo.tuple_types(instruction.type)
        carries = [
            self.start(inside, "carry", _hlo.type_name(kind), source)
            for source, kind in zip(parts, types, strict=False)
        ]
        carried: Source = tuple(carries) if isinstance(start, tuple) else carries[0]
        test = self.computation(roles["condition"], [carried], self.box(inside, "condition"))
        outputs = self.computation(roles["body"], [carried], inside)
        for carry, output in zip(carries, outputs if isinstance(outputs, tuple) else (outputs,), strict=False):
            if output is not carry:
                self.edge(output, carry, "next", back=True)
        self.node(inside, ("go on?",), "control", [test])
        return carried  # what the condition turned down last, not what the body made of it

    def conditional(self, instruction: _hlo.Instruction, operands: list[Source], box: Box) -> Node:
        branches = [name for _, name in instruction.called]
        join = self.node(box, ("conditional", _hlo.type_name(instruction.type)), "control", [operands[0]], ["which"])
        for index, (name, operand) in enumerate(zip(branches, operands[1:], strict=False)):
            self.edge(self.computation(name, [operand], self.box(box, f"branch {index}", "loop")), join, str(index))
        return join
