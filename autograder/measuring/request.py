"""A comparison as it is sent to the measuring process: two functions and their arguments, each in a form that travels.

A jitted function travels as a compiled artefact (`jax.export`), without a line of its Python. Any other, and one
that donates its arguments, travels as code (`functions`). Arrays and numbers travel as raw bytes.
"""

import dataclasses
import itertools
import pickle
import uuid
from collections.abc import Callable

import jax
import jax.export

from autograder.failure import fail
from autograder.instruments.watch_functions import function_name
from autograder.jax_internals import is_jitted, trace_jitted, wants_hashable_static
from autograder.measuring.wire import arrays, functions
from autograder.measuring.wire.messages import Artefact, Inputs, Load, Loaded, Reference, Side, Source

from .bench import Bench

# What stands here for a function of another process, and the arguments, to a function of this process that does the
# same and can be timed; None for any other. See doors/judge.
forms_here: list[Callable[[Callable, tuple], Callable | None]] = []


class Comparison:
    """A candidate, a baseline and their arguments. `load` is the message; `names` and `how` are for the reader.

    A `cold` one is about first calls: both functions travel as source, because an artefact is traced already.
    """

    def __init__(self, candidate: Callable, baseline: Callable, args: tuple, *, cold: bool = False):
        self.cold = cold
        candidate = next((form for here in forms_here if (form := here(candidate, args)) is not None), candidate)
        self.functions: dict[Side, Callable] = {"baseline": baseline, "candidate": candidate}
        self.names: dict[Side, str] = {side: function_name(fn) for side, fn in self.functions.items()}
        self._leaves, self._structure = jax.tree.flatten(args)
        self._data = [i for i, leaf in enumerate(self._leaves) if arrays.is_data(leaf)]  # slot to leaf
        self.load = Load(
            job=uuid.uuid4().hex,
            inputs=Inputs(
                leaves=[arrays.encode(self._leaves[i]) for i in self._data],
                x64=jax.config.jax_enable_x64,
                precision=jax.config.jax_default_matmul_precision,
            ),
            baseline=self._function("baseline"),
            candidate=self._function("candidate"),
            reference=None,
            cold=cold,
        )
        self.loaded: dict[Bench, Loaded] = {}  # the measuring processes that have it, and what they answered

    @property
    def how(self) -> dict[str, str]:
        """How each side travels and runs."""

        if self.cold:
            return dict.fromkeys(("baseline", "candidate"), "source, in a new process for each call")

        def said(function: Artefact | Source) -> str:
            if isinstance(function, Artefact):
                return "compiled artefact"
            return "source, in a process of its own" if function.own_process else "source"

        return {"baseline": said(self.load.baseline), "candidate": said(self.load.candidate)}

    def _function(self, side: Side) -> Artefact | Source:
        return (None if self.cold else self._artefact(self.functions[side])) or self._source(side)

    def _artefact(self, fn: Callable) -> Artefact | None:
        """A jitted function as it is compiled, or None if it must travel as source."""
        if not is_jitted(fn):
            return None
        traced = trace_jitted(fn, *jax.tree.unflatten(self._structure, self._leaves))  # its own errors show here
        if any(info.donated for info in jax.tree.leaves(traced.args_info)):
            return None
        # A Python number may be a static argument, which cannot be an input of the artefact.
        slots = range(len(self._data))
        numbers = [slot for slot in slots if not arrays.is_array(self._leaves[self._data[slot]])]
        for count in range(len(numbers) + 1):
            for static in itertools.combinations(numbers, count):
                dynamic = [slot for slot in slots if slot not in static]
                try:
                    exported = self._exported(fn, dynamic, [self._leaves[self._data[slot]] for slot in dynamic])
                    return Artefact(exported, dynamic)
                except ValueError as error:
                    if not wants_hashable_static(error):
                        return None
                except Exception:  # a callback, for one, cannot be exported
                    return None
        return None

    def _exported(self, fn: Callable, slots: list[int], values: list) -> bytes:
        """`fn` as an artefact of the leaves in some slots, which returns a flat tuple; the others are as given."""

        def flat(*values):
            leaves = list(self._leaves)
            for slot, value in zip(slots, values, strict=True):
                leaves[self._data[slot]] = value
            return tuple(jax.tree.leaves(fn(*jax.tree.unflatten(self._structure, leaves))))

        return bytes(jax.export.export(jax.jit(flat))(*values).serialize())

    def _source(self, side: Side) -> Source:
        fn, template = self.functions[side], list(self._leaves)
        for slot, i in enumerate(self._data):
            template[i] = arrays.Slot(slot)
        try:
            code = functions.dumps((fn, jax.tree.unflatten(self._structure, template)))
        except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
            fail(
                f"the {side} {function_name(fn)} cannot be sent to the measuring process",
                evidence=str(error),
                why="a function that is not jitted travels as its code, with the globals it names; generators, locks,"
                " compiled programs and classes that are registered as pytrees do not travel",
                attempt="jit the function, or let it use arrays, plain values and functions only",
            )
        return Source(code, own_process=side == "candidate")

    def add_reference(self) -> None:
        """Add the baseline in double precision to `load`, as far as that can be exported."""
        baseline, code = self.load.baseline, None
        assert isinstance(baseline, Artefact), "a Source is run in double precision as it is"
        with jax.enable_x64(True):
            values = arrays.wide([self._leaves[self._data[slot]] for slot in baseline.slots])
            try:
                code = self._exported(self.functions["baseline"], baseline.slots, values)
            except Exception:  # a baseline that fixes its dtypes need not trace in double precision
                code = None
        self.load = dataclasses.replace(self.load, reference=Reference(code))

    def operations(self) -> int:
        """Floating-point operations of the candidate's jaxpr; 0 where they cannot be counted."""
        from autograder.instruments.flops import flops

        fn = self.functions["candidate"]
        if not is_jitted(fn):
            return 0
        try:
            return flops(trace_jitted(fn, *jax.tree.unflatten(self._structure, self._leaves)).jaxpr)
        except Exception:  # the share of the limit is then said without its operations
            return 0
