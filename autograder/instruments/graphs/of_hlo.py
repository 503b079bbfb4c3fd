"""The graph of an HLO module."""

from collections.abc import Collection

from autograder.instruments import read_hlo
from autograder.wording import count

from .graph import Graph, Source, operation_label
from .parts import Box, Kind, Node

_REDUCTIONS = frozenset({"reduce", "reduce-window", "dot", "convolution", "sort"}) | read_hlo.COLLECTIVES


class HloGraph(Graph):
    def __init__(self, module: read_hlo.Module, marked: Collection[str] = ()):
        super().__init__()
        self._marked = marked  # operations
        self.module = module
        inputs = {}
        for instruction in module.computations[module.entry]:
            if instruction.opcode == "parameter":
                label = instruction.origin or instruction.name.rsplit(".", 1)[0]
                node = self.node(self.root, (label, read_hlo.type_name(instruction.type)), "input")
                inputs[int(instruction.operands[0])] = node
        result = self.computation(module.entry, [inputs[index] for index in sorted(inputs)], self.root)
        root = next(i for i in module.computations[module.entry] if i.root)
        types = read_hlo.tuple_types(root.type)
        results = result if isinstance(result, tuple) and len(result) == len(types) else [result] * len(types)
        for index, (source, kind) in enumerate(zip(results, types, strict=True)):
            self.result(index, len(types), read_hlo.type_name(kind), source)

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

    def instruction(self, instruction: read_hlo.Instruction, operands: list[Source], box: Box) -> Source:
        opcode, roles = instruction.opcode, dict(instruction.called)
        if opcode == "constant":
            if "[]" in instruction.type:
                return instruction.operands[0]
            return self.node(box, ("constant", read_hlo.type_name(instruction.type)), "input")
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
        if opcode in read_hlo.BOOKKEEPING or read_hlo.operation(instruction) is None:
            return operands[0] if operands else ()
        if opcode == "while":
            return self.while_loop(instruction, operands[0], box)
        if opcode == "conditional":
            return self.conditional(instruction, operands, box)
        return self.operation(instruction, operands, box)

    def _element(self, instruction: read_hlo.Instruction, source: Source) -> Source:
        index = int(instruction.attributes.split("index=")[1].split(",")[0])
        return source[index] if isinstance(source, tuple) and index < len(source) else source

    def operation(self, instruction: read_hlo.Instruction, operands: list[Source], box: Box) -> Node:
        name = read_hlo.operation(instruction) or instruction.opcode
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
        kind: Kind = "reduction" if name in _REDUCTIONS else "compute"
        label = operation_label(name, operands, details)
        lines = label, read_hlo.type_name(instruction.type)
        return self.node(box, lines, kind, operands, labels, name in self._marked)

    def while_loop(self, instruction: read_hlo.Instruction, start: Source, box: Box) -> Source:
        roles = dict(instruction.called)
        trips = instruction.trip_count
        inside = self.box(box, "while" if trips is None else f"while, {count(trips, 'time')}", "loop")
        parts = start if isinstance(start, tuple) else (start,)
        types = read_hlo.tuple_types(instruction.type)
        carries = [
            self.start(inside, "carry", read_hlo.type_name(kind), source)
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

    def conditional(self, instruction: read_hlo.Instruction, operands: list[Source], box: Box) -> Node:
        branches = [name for _, name in instruction.called]
        lines = "conditional", read_hlo.type_name(instruction.type)
        join = self.node(box, lines, "control", [operands[0]], ["which"])
        for index, (name, operand) in enumerate(zip(branches, operands[1:], strict=False)):
            self.edge(self.computation(name, [operand], self.box(box, f"branch {index}", "loop")), join, str(index))
        return join
