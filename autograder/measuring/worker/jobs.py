"""The jobs of one measuring process: comparisons whose two sides are loaded, agree, and can be timed."""

import dataclasses
import itertools

import jax
import jax.export

from autograder.measuring.wire import arrays

from . import agreement, limits
from .contest import calibrate, contest, time_block
from .sides import Guest, Local, Raised, Remote, artefact, build, told

KEPT = 6
LARGE = 1_000_000  # bytes that take longer to compare than to compute


class Jobs:
    """Answers the messages of the notebook. `script` and `arguments` start a guest like this process."""

    def __init__(self, script: str, arguments: list[str]):
        self._start_guest = lambda: Guest(script, arguments)
        self._guest: Guest | None = None
        self._jobs: dict[str, dict] = {}

    def answer(self, header: dict, blobs: list[bytes]) -> dict:
        """The reply to one message; an exception of the side being worked on becomes {"raised": ...}."""
        self._side = "baseline"
        try:
            return {"load": self.load, "contest": self.contest, "roofline": self.roofline}[header["op"]](header, blobs)
        except Raised as error:
            return {"raised": [self._side, error.kind, error.text]}
        except Exception as error:
            return {"raised": [self._side, *told(error)]}

    def close(self) -> None:
        """End the guest, whatever it is doing."""
        if self._guest is not None:
            self._guest.close()

    def rehearse(self) -> list[dict]:
        """Compare, time and drop a function and itself: what happens once in a process happens before anyone waits."""
        twice, ones = jax.jit(lambda x: x + x), jax.numpy.ones(8)
        meta, blob = arrays.encode(ones)
        code = bytes(jax.export.export(twice)(ones).serialize())
        side = {"how": "artefact", "slots": [0]}
        load = {"op": "load", "job": "rehearsal", "leaves": [meta], "x64": False, "precision": None}
        replies = [
            self.answer({**load, "baseline": side, "candidate": side}, [blob, code, code]),
            self.answer({"op": "contest", "job": "rehearsal", "bar": None, "budget": 0}, []),
            self.answer({"op": "roofline", "bytes": 4096, "seconds": 0.08}, []),
        ]
        self._jobs.pop("rehearsal", None)
        return replies

    def load(self, header: dict, blobs: list[bytes]) -> dict:
        """Make both sides ready, call each once on the arguments as given, and compare the results."""
        while len(self._jobs) >= KEPT:
            self._drop(next(iter(self._jobs)))
        sides, first, results = {}, {}, {}
        for self._side in ("baseline", "candidate"):
            sides[self._side] = side = self._make(header, self._side, blobs)
            first[self._side] = time_block(side, 1, 1.0)[0] / 1e9
            results[self._side] = side.result()
        got, want = results["candidate"], results["baseline"]
        reply = {
            "first": first,
            "device": jax.devices()[0].device_kind,
            "platform": jax.default_backend(),
            "results": [agreement.describe(leaf) for leaf in want],
            "bytes": [arrays.size(sides["baseline"].leaves), arrays.size(want)],
        }
        if problem := agreement.structure(got, want):
            return {**reply, "structure": problem}
        allowed = agreement.strict(got, want)
        if agreement.difference(got, want, allowed):
            truth = self._truth(header, sides["baseline"], blobs[len(header["leaves"]) + 2 :])
            if truth is None and header["baseline"]["how"] == "artefact" and not header.get("last"):
                return {**reply, "needs_truth": True}
            allowed = agreement.derived(got, want, truth)
            if wrong := agreement.difference(got, want, allowed):
                return {**reply, "wrong": wrong}
        job = self._jobs[header["job"]] = {**sides, "allowed": allowed, "returned": arrays.size(want)}
        self._calibrate(job)
        return {**reply, "allowed": allowed, "per_call": job["per_call"]}

    def _calibrate(self, job: dict) -> None:
        job["per_call"] = []
        for self._side in ("baseline", "candidate"):
            side = job[self._side]
            if isinstance(side, Remote):
                side.overhead = 0
                side.overhead = min(time_block(side, 0, 1.0)[0] for _ in range(7))
            job["per_call"].append(calibrate(side))

    def contest(self, header: dict, blobs: list[bytes]) -> dict:
        """Run the rule at one bar; the results are compared for every pair."""
        job = self._jobs.get(header["job"])
        if job is None:
            return {"unknown": True}
        if header.get("calibrate"):
            self._calibrate(job)
        self._side = "candidate"
        baseline, candidate, allowed = job["baseline"], job["candidate"], job["allowed"]

        pairs = itertools.count(1)
        large = arrays.size(baseline.leaves) + job["returned"] > LARGE

        def agree(got, want):
            # An artefact computes the same from the same inputs; code that may remember is checked every time.
            if large and next(pairs) > 2 and isinstance(candidate, Local):
                return None
            problem = agreement.structure(got, want)
            return {"structure": problem} if problem else agreement.difference(got, want, allowed)

        outcome = contest(baseline, candidate, header["bar"], job["per_call"], header["budget"], agree)
        return {**dataclasses.asdict(outcome), "scheduled": candidate.clock.scheduled}

    def roofline(self, header: dict, blobs: list[bytes]) -> dict:
        """This machine's limits at one size of data, measured the way the sides are."""
        return limits.measure(header["bytes"], header["seconds"])

    def _make(self, header: dict, side: str, blobs: list[bytes]):
        if not header[side].get("guest"):
            return build(header, side, blobs)
        if self._guest is None or self._guest.process.poll() is not None:
            self._guest = self._start_guest()
        leaves = [arrays.decode(meta, blob) for meta, blob in zip(header["leaves"], blobs, strict=False)]
        return Remote(self._guest, header, blobs, leaves)

    def _drop(self, job: str) -> None:
        side = self._jobs.pop(job)["candidate"]
        if isinstance(side, Remote):
            side.clock.close()
            if side.guest.process.poll() is None:
                side.guest.ask({"op": "drop", "job": job})

    def _truth(self, header: dict, side, exported: list[bytes]) -> list | None:
        """The baseline's results in double precision, or None where that cannot be had."""
        try:
            with jax.enable_x64(True):
                values = arrays.wide(side.leaves)
                if exported:
                    out = artefact(exported[0])(*values)
                elif header["baseline"]["how"] == "source":
                    out = side.call(*side.arrange(values))
                else:
                    return None
                out = jax.tree.leaves(jax.block_until_ready(out))
                return out if all(agreement.is_double(leaf) for leaf in out) else None
        except Exception:  # a baseline that fixes its dtypes need not run in double precision
            return None
