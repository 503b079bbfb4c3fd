"""What travels to the measuring process: two functions and their arguments, each in the form in which it can.

A jitted function travels as a compiled artefact (`jax.export`), without a line of its Python. Any other, and one
that donates its arguments, travels as code (`functions`). Arrays and numbers travel as raw bytes.
"""

import itertools
import pickle
import uuid
from collections.abc import Callable

import jax
import jax.export

from autograder.failure import fail
from autograder.instruments.read_jaxpr import is_jitted
from autograder.measuring.wire import arrays, functions


class Parcel:
    """A comparison as messages. `names` and `how` are for the reader; `header` and `blobs` for `jobs.Jobs.load`."""

    def __init__(self, candidate: Callable, baseline: Callable, args: tuple):
        self.functions = {"baseline": baseline, "candidate": candidate}
        self.names = [name_of(candidate), name_of(baseline)]
        self.leaves, self.structure = jax.tree.flatten(args)
        self.id = uuid.uuid4().hex
        self.header: dict = {}
        self.blobs: list[bytes] = []
        self.how: dict[str, str] = {}
        self.loaded_in: object = None  # the measuring process that has it, and that process's reply
        self.reply: dict = {}
        self._pack()

    def _pack(self) -> None:
        data = [i for i, leaf in enumerate(self.leaves) if arrays.is_data(leaf)]
        place = {leaf: slot for slot, leaf in enumerate(data)}
        encoded = [arrays.encode(self.leaves[i]) for i in data]
        config = {"x64": jax.config.jax_enable_x64, "precision": jax.config.jax_default_matmul_precision}
        self.header = {"op": "load", "job": self.id, "leaves": [meta for meta, _ in encoded], **config}
        self.blobs = [blob for _, blob in encoded]
        for side, fn in self.functions.items():
            exported = self._export(fn, data)
            if exported:
                blob, dynamic = exported
                self.header[side] = {"how": "artefact", "slots": [place[i] for i in dynamic]}
                self.how[side] = "compiled artefact"
            else:
                template = [arrays.Slot(place[i]) if i in place else leaf for i, leaf in enumerate(self.leaves)]
                blob = self._source(side, fn, template)
                self.header[side] = {"how": "source", "guest": side == "candidate"}
                self.how[side] = "source, in a process of its own" if side == "candidate" else "source"
            self.blobs.append(blob)

    def _export(self, fn: Callable, data: list[int]) -> tuple[bytes, list[int]] | None:
        """A jitted function as (artefact, the leaves it takes), or None if it must travel as source."""
        if not is_jitted(fn):
            return None
        traced = fn.trace(*jax.tree.unflatten(self.structure, self.leaves))  # its own errors show here
        if any(info.donated for info in jax.tree.leaves(traced.args_info)):
            return None
        # A Python number may be a static argument, which cannot be an input of the artefact.
        numbers = [i for i in data if not arrays.is_array(self.leaves[i])]
        for count in range(len(numbers) + 1):
            for static in itertools.combinations(numbers, count):
                dynamic = [i for i in data if i not in static]
                try:
                    flat = jax.jit(self._flat(fn, dynamic))
                    exported = jax.export.export(flat)(*[self.leaves[i] for i in dynamic])
                    return bytes(exported.serialize()), dynamic
                except ValueError as error:
                    if "hashable static" not in str(error):
                        return None
                except Exception:  # a callback, for one, cannot be exported
                    return None
        return None

    def _flat(self, fn: Callable, dynamic: list[int]) -> Callable:
        """`fn` as a function of some leaves, with the other leaves fixed, that returns a flat tuple."""

        def flat(*values):
            leaves = list(self.leaves)
            for i, value in zip(dynamic, values, strict=True):
                leaves[i] = value
            return tuple(jax.tree.leaves(fn(*jax.tree.unflatten(self.structure, leaves))))

        return flat

    def _source(self, side: str, fn: Callable, template: list) -> bytes:
        try:
            return functions.dumps((fn, jax.tree.unflatten(self.structure, template)))
        except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
            fail(
                f"the {side} {name_of(fn)} cannot be sent to the measuring process",
                evidence=str(error),
                why="a function that is not jitted travels as its code, with the globals it names; generators, locks,"
                " compiled programs and classes that are registered as pytrees do not travel",
                attempt="jit the function, or let it use arrays, plain values and functions only",
            )

    def with_truth(self) -> tuple[dict, list[bytes]]:
        """The message with the baseline in double precision added, as far as that can be exported."""
        exported = None
        dynamic = [i for i, leaf in enumerate(self.leaves) if arrays.is_data(leaf)]
        dynamic = [dynamic[slot] for slot in self.header["baseline"]["slots"]]
        with jax.enable_x64(True):
            values = arrays.wide([self.leaves[i] for i in dynamic])
            try:
                exported = jax.export.export(jax.jit(self._flat(self.functions["baseline"], dynamic)))(*values)
            except Exception:  # a baseline that fixes its dtypes need not trace in double precision
                exported = None
        return {**self.header, "last": True}, [*self.blobs, *([bytes(exported.serialize())] if exported else [])]

    def operations(self) -> int:
        """Floating-point operations of the candidate's jaxpr; 0 where they cannot be counted."""
        from autograder.instruments.flops import flops

        fn = self.functions["candidate"]
        if not is_jitted(fn):
            return 0
        try:
            return flops(fn.trace(*jax.tree.unflatten(self.structure, self.leaves)).jaxpr)
        except Exception:  # the share of the limit is then said without its operations
            return 0


def name_of(fn: Callable) -> str:
    """The name of a function as its author wrote it."""
    return getattr(fn, "__name__", None) or getattr(getattr(fn, "func", None), "__name__", type(fn).__name__)
