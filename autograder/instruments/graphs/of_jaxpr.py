"""The graph of a jaxpr."""

from collections.abc import Callable, Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal

from autograder.instruments import read_jaxpr
from autograder.jax_internals import argument_names
from autograder.wording import count

from .graph import Graph, Source, operation_label
from .parts import Box, Kind, Node

_DETAILS = ("y", "axes", "axis", "dimension")
_ORDERED = frozenset({"sub", "div", "rem", "pow", "atan2", "lt", "le", "gt", "ge", "dot_general"})
_REDUCTIONS = ("reduce", "arg", "cum", "dot", "conv_", "sort", "psum", "pmax", "pmin")


class JaxprGraph(Graph):
    def __init__(self, jaxpr: ClosedJaxpr, marked: Callable[[JaxprEqn], bool] | None = None):
        super().__init__()
        self._marked = marked or (lambda eqn: False)
        names = argument_names(jaxpr)
        inputs: list[Source] = []
        for index, variable in enumerate(jaxpr.in_avals):
            name = (names[index] if index < len(names) else None) or f"input {index}"
            inputs.append(self.node(self.root, (name, read_jaxpr.type_name(variable)), "input"))
        for index, source in enumerate(self.program(jaxpr, inputs, self.root)):
            self.result(index, len(jaxpr.out_avals), read_jaxpr.type_name(jaxpr.out_avals[index]), source)

    def program(self, jaxpr: Jaxpr | ClosedJaxpr, inputs: Sequence[Source], box: Box) -> list[Source]:
        """Draw a jaxpr into `box`; returns the sources of its outputs."""
        env: dict[Any, Source] = dict(zip(jaxpr.invars, inputs, strict=True))
        for variable in jaxpr.constvars:
            env[variable] = self.node(box, ("constant", read_jaxpr.type_name(variable.aval)), "input")
        for eqn in jaxpr.eqns:
            operands = [self._read(env, atom) for atom in eqn.invars]
            for variable, source in zip(eqn.outvars, self.equation(eqn, operands, box), strict=True):
                env[variable] = source
        return [self._read(env, atom) for atom in jaxpr.outvars]

    def _read(self, env: dict, atom: Any) -> Source:
        if isinstance(atom, Literal):
            return _value(atom.val)
        return env[atom]

    def equation(self, eqn: JaxprEqn, operands: list[Source], box: Box) -> list[Source]:
        name, inner = eqn.primitive.name, read_jaxpr.subjaxprs(eqn)
        if name == "scan":
            return self.scan(eqn, operands, box)
        if name == "while":
            return self.while_loop(eqn, operands, box)
        if name == "cond":
            return self.cond(eqn, operands, box)
        if len(inner) == 1 and len(inner[0].in_avals) == len(operands):
            inside = box if name in read_jaxpr.WRAPPERS else self.box(box, name, marked=self._marked(eqn))
            outputs = self.program(inner[0], operands, inside)
            if len(outputs) == len(eqn.outvars):
                return outputs
        return self.operation(eqn, operands, box)

    def operation(self, eqn: JaxprEqn, operands: list[Source], box: Box) -> list[Source]:
        name = eqn.primitive.name
        details = " ".join(f"{key}={eqn.params[key]}" for key in _DETAILS if eqn.params.get(key) is not None)
        outputs = [v for v in eqn.outvars if not isinstance(v, DropVar)] or eqn.outvars
        types = [read_jaxpr.type_name(variable.aval) for variable in outputs]
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
        lines = operation_label(name, operands, details), *types[:2]
        node = self.node(box, lines, kind, operands, labels, self._marked(eqn))
        return [node] * len(eqn.outvars)

    def scan(self, eqn: JaxprEqn, operands: list[Source], box: Box) -> list[Source]:
        body = eqn.params["jaxpr"]
        consts, carries = read_jaxpr.scan_parts(eqn)
        length = eqn.params["length"]
        inside = self.box(box, f"scan, {count(length, 'time')}", "loop", self._marked(eqn))
        inputs = list(operands[:consts])
        for index in range(consts, len(operands)):
            label = "carry" if index < consts + carries else "slice"
            inputs.append(self.start(inside, label, read_jaxpr.type_name(body.in_avals[index]), operands[index]))
        outputs = self.program(body, inputs, inside)
        for carry, output in zip(inputs[consts : consts + carries], outputs[:carries], strict=True):
            self.edge(output, carry, "next", back=True)
        for index in range(carries, len(outputs)):
            aval = eqn.outvars[index].aval
            outputs[index] = self.node(inside, ("stack", read_jaxpr.type_name(aval)), "control", [outputs[index]])
        return outputs

    def while_loop(self, eqn: JaxprEqn, operands: list[Source], box: Box) -> list[Source]:
        body, condition = eqn.params["body_jaxpr"], eqn.params["cond_jaxpr"]
        first, second = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        carried = operands[first + second :]
        trips = read_jaxpr.trip_count(eqn)
        inside = self.box(
            box, "while" if trips is None else f"while, {count(trips, 'time')}", "loop", self._marked(eqn)
        )
        carries: list[Source] = [
            self.start(inside, "carry", read_jaxpr.type_name(aval), source)
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
            lines = "cond", read_jaxpr.type_name(variable.aval)
            join = self.node(box, lines, "control", [operands[0]], ["which"], self._marked(eqn))
            for title, outputs in zip(titles, results, strict=True):
                self.edge(outputs[index], join, title)
            joins.append(join)
        return joins


def _value(literal: Any) -> str:
    number = literal.item() if hasattr(literal, "item") else literal
    if isinstance(number, int) and not isinstance(number, bool):
        return format(int(number))  # not the name of JAX's own kind of int
    return f"{number:.6g}" if isinstance(number, float) else str(number)
