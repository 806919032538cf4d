"""A payload with its data: inputs, outputs, the oracle's answer, and what a candidate must leave alone."""

from collections import OrderedDict

import numpy as np

from autotune.canary import Fenced, fenced_empty, word_sum
from autotune.errors import PayloadError
from autotune.ir.lower import PLAIN
from autotune.ir.panels import PanelWeight
from autotune.ir.program import BoundProgram, Program, aligned_empty, compile_program
from autotune.task import Array, Payload
from autotune.verify import Verdict, poison, verify

KEPT_PAYLOADS = 2  # a GPT-2 with its oracle takes over a gigabyte


class PreparedPayload:
    """Inputs, outputs and oracle of a payload, made once a worker."""

    def __init__(self, payload: Payload, seed: int) -> None:
        self.payload = payload
        self.seed = seed
        self.arrays = [aligned_empty(argument) for argument in payload.arguments]
        values = payload.make_inputs(seed)
        self.fill(values)
        self.outputs = [a for a, arg in zip(self.arrays, payload.arguments, strict=True) if arg.role == "output"]
        self.fenced = [fenced_empty(argument) for argument in payload.outputs]
        self._stored: dict[tuple[int, int, bool], Array] = {}
        self.expected = self.ask_oracle(payload, values)
        if any(not np.isfinite(array).all() for array in self.expected):
            raise PayloadError(
                f"the oracle of {payload.name} must give finite values for random inputs, it gives NaN or infinity; "
                "check that every output is written before it is read"
            )

    def fill(self, values: dict[str, Array]) -> None:
        """Write the inputs, and remember their sums."""
        for argument, array in zip(self.payload.arguments, self.arrays, strict=True):
            if argument.role != "output":
                array[...] = values[argument.name]
        self._sums = self.sums()

    def sums(self) -> dict[str, int]:
        """The sum of the words of every input."""
        arrays = zip(self.payload.arguments, self.arrays, strict=True)
        return {argument.name: word_sum(array) for argument, array in arrays if argument.role != "output"}

    def stored(self, weight: PanelWeight) -> Array:
        """A weight in panels; packed once, however many candidates want it."""
        key = (weight.source, weight.columns, weight.transposed)
        if key not in self._stored:
            array = aligned_empty(weight.argument(self.payload.arguments[weight.source]))
            array[...] = weight.pack(self.arrays[weight.source])
            self._stored[key] = array
        return self._stored[key]

    def ask_oracle(self, payload: Payload, values: dict[str, Array]) -> list[Array]:
        """The reference's outputs, or those of the plain lowering where there is no reference."""
        if payload.reference is not None:
            return [np.asarray(array) for array in payload.reference(**values)]
        for array in self.outputs:
            poison(array)
        compile_program(payload, None, PLAIN).bind(self.arrays).run()
        return [array.copy() for array in self.outputs]

    def bind(self, program: Program) -> BoundProgram:
        """A program on the arrays that it is timed with."""
        return program.bind([*self.arrays, *map(self.stored, program.weights)])

    def verify_alone(self, program: Program) -> Verdict:
        """Run a program once, its outputs between fences; right if it wrote what it should, there, and nothing else."""
        fenced = iter(self.fenced)
        arguments = zip(self.payload.arguments, self.arrays, strict=True)
        arrays = [next(fenced).array if argument.role == "output" else array for argument, array in arguments]
        for fence in self.fenced:
            poison(fence.array)
        program.bind([*arrays, *map(self.stored, program.weights)]).run()
        if wrong := self.trespass():
            return Verdict("wrong-result", np.inf, wrong)
        return verify(self.payload, [fence.array for fence in self.fenced], self.expected)

    def verify_again(self, bound: BoundProgram) -> Verdict:
        """Run a program that was timed once more: what it computes must not depend on the calls before."""
        for array in self.outputs:
            poison(array)
        bound.run()
        verdict = verify(self.payload, self.outputs, self.expected)
        if verdict.outcome == "ok":
            return verdict
        return Verdict(
            verdict.outcome, verdict.max_error, f"right at first, not after many calls: {verdict.diagnostic}"
        )

    def trespass(self) -> str:
        """Say what was written that must not be, and restore it; empty if all is well."""
        found = [sentence for fence in self.fenced if (sentence := trespass_of(fence))]
        changed = [name for name, total in self.sums().items() if total != self._sums[name]]
        if changed:
            found.append(f"inputs must not be written; {', '.join(changed)} was")
            self.fill(self.payload.make_inputs(self.seed))
            self._stored.clear()
        return "; ".join(found)


def trespass_of(fence: Fenced) -> str:
    """What a fence tells; it is whole again afterwards."""
    found = fence.trespass()
    if found:
        fence.mend()
    return found


_prepared: OrderedDict[tuple[str, int], PreparedPayload] = OrderedDict()


def prepare(payload: Payload, seed: int) -> PreparedPayload:
    """The prepared payload, from this worker's memory if it is there."""
    key = (payload.sha256, seed)
    if key not in _prepared:
        _prepared[key] = PreparedPayload(payload, seed)
        while len(_prepared) > KEPT_PAYLOADS:
            _prepared.popitem(last=False)
    _prepared.move_to_end(key)
    return _prepared[key]
