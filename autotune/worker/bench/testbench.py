"""Testbench of a payload: inputs, outputs, expected outputs, and checks for writes that a candidate must not make."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autotune.compiler.lowering.program import BoundProgram, CompiledProgram
from autotune.compiler.panel_weight import PanelWeight
from autotune.core.errors import PayloadError
from autotune.core.host.pages import Pages, aligned_empty
from autotune.core.host.stopwatch import REPORTER
from autotune.core.payload import WRITTEN, Array, Case, Payload, says_what_to_name
from autotune.worker.bench.fences import Fenced, fenced_empty
from autotune.worker.bench.measure import Run, RunFromStart, time_once
from autotune.worker.bench.payload_arrays import PayloadArrays
from autotune.worker.bench.rounding import moved_by_rounding, plain_program
from autotune.worker.bench.verify import Verdict, verify

REPEATS = 4  # further calls that verify a program of several threads
MOST_PAYLOADS = 2  # a GPT-2 with its oracle takes over a gigabyte


class Testbench(PayloadArrays):
    """Inputs, states, outputs and oracle of a payload, created once per worker.

    Attributes:
        fenced: Arrays between fences that a program writes in `verify_alone`, one per state and output.
        expected: Expected states and outputs after a call, in order, for each case; of the oracle's dtype.
    """

    def __init__(self, payload: Payload, seed: int, pages: Pages = "huge") -> None:
        super().__init__(payload, seed, pages)
        self.fenced = [fenced_empty(argument) for argument in payload.written]
        self._stored: dict[tuple[int, int, bool, tuple[int, ...], str], Array] = {}
        self._moved: dict[int, tuple[float, ...]] = {}
        with REPORTER.silent():
            self.expected = [self.ask_oracle(case) for case in self.cases]
        if any(not np.isfinite(array).all() for arrays in self.expected for array in arrays):
            raise PayloadError(
                f"the oracle of {payload.name} must give finite values for random inputs, it gives NaN or infinity; "
                "check that every output is written before it is read"
            )

    def runs(self, program: BoundProgram) -> Run:
        """Return the function that runs a program for timing: all cases in turn, each as often as its weight says.

        If the payload has states, they are reset before every sample.
        """

        def run_cases(calls: int) -> None:
            for case in self.cases:
                self.enter(case)
                program.run(calls * case.weight)

        run = program.run if len(self.cases) == 1 else run_cases
        return RunFromStart(run, self.restore) if self.has_states else run

    def run_from_start(self, program: BoundProgram) -> None:
        """Run a program once in the last case, with reset states and poisoned outputs."""
        self.restart(self.cases[-1])
        program.run()

    def stored(self, weight: PanelWeight) -> Array:
        """Return a weight in panels, packed once for all candidates."""
        key = (weight.source, weight.columns, weight.transposed, weight.shape, weight.precision)
        if key not in self._stored:
            array = aligned_empty(weight.argument(self.payload.arguments[weight.source]), self.pages)
            array[...] = weight.pack(self.arrays[weight.source])
            self._stored[key] = array
        return self._stored[key]

    def ask_oracle(self, case: Case) -> list[Array]:
        """Compute the expected arrays of a case with the payload's reference, else with its plain lowering."""
        self.restart(case)
        if self.payload.reference is not None:
            with says_what_to_name(self.payload.name):
                return [np.asarray(array) for array in self.payload.reference(**self.inputs)]
        plain_program(self.payload).bind(self.arrays).run()
        return [array.copy() for array in self.written]

    def judge(self, number: int, got: Sequence[Array]) -> Verdict:
        """Compare written arrays with the oracle's in a case.

        If the error exceeds the bound for the rounding of sums, the measured effect of rounding on the plain program is
        allowed as well.
        """
        verdict = verify(self.payload, got, self.expected[number])
        if verdict.outcome != "wrong-result":
            return verdict
        return verify(self.payload, got, self.expected[number], moved=self.moved(number))

    def moved(self, number: int) -> tuple[float, ...]:
        """Return how far rounding moves each array that the plain program writes in a case; computed once."""
        if number not in self._moved:
            written = [array.copy() for array in self.written]
            self.restart(self.cases[number])
            self._moved[number] = moved_by_rounding(self.payload, self.arrays, self.seed)
            for array, before in zip(self.written, written, strict=True):
                array[...] = before
        return self._moved[number]

    def bind(self, program: CompiledProgram) -> BoundProgram:
        """Bind a program to the arrays that it is timed with."""
        return program.bind([*self.arrays, *map(self.stored, program.weights)])

    def verify_alone(self, program: CompiledProgram) -> Verdict:
        """Verify a program with fences around its outputs: the outputs are correct, and nothing else is written.

        A program of several threads is run `REPEATS` more times, since the order of its threads varies.
        """
        written, bound = self._fence(program)
        verdict = self._verify(bound, written, is_fenced=True)
        for _ in range(REPEATS if program.threads > 1 else 0):
            if verdict.outcome != "ok":
                break
            again = self._verify(bound, written, is_fenced=True)
            verdict = replace(again, max_error=max(verdict.max_error, again.max_error), seconds=verdict.seconds)
        return verdict

    def _fence(self, program: CompiledProgram) -> tuple[list[Array], BoundProgram]:
        """Return the arrays between fences, and the program bound to them."""
        written = [fence.array for fence in self.fenced]
        fenced = iter(written)
        arguments = zip(self.payload.arguments, self.arrays, strict=True)
        arrays = [next(fenced) if argument.role in WRITTEN else array for argument, array in arguments]
        return written, program.bind([*arrays, *map(self.stored, program.weights)])

    @property
    def hides_parts(self) -> str:
        """Reason why the results of a part cannot be told from elements it does not compute; empty if they can."""
        states = [argument.name for argument in self.payload.written if argument.role == "state"]
        integers = [argument.name for argument in self.payload.written if argument.dtype.startswith("i")]
        reasons = [(states, "keeps what was there before"), (integers, "holds whole numbers")]
        return next((f"{names[0]} {why}" for names, why in reasons if names), "")

    def verify_part(self, program: CompiledProgram) -> Verdict:
        """Verify a part of a program: elements that it does not compute are NaN, and all others must be correct."""
        arrays, bound = self._fence(program)
        worst, numbers = 0.0, 0
        for number, (case, expected) in enumerate(zip(self.cases, self.expected, strict=True)):
            self.restart(case, arrays)
            bound.run()
            if wrong := self.trespass():
                return Verdict("wrong-result", np.inf, wrong)
            computed = [~np.isnan(array) for array in arrays]
            numbers += sum(map(np.count_nonzero, computed))
            filled = [np.where(here, array, full) for here, array, full in zip(computed, arrays, expected, strict=True)]
            verdict = self.judge(number, filled)
            if verdict.outcome != "ok":
                return verdict
            worst = max(worst, verdict.max_error)
        return Verdict("ok", worst, "" if numbers else "all that it writes follows from what a part leaves out")

    def verify_again(self, bound: BoundProgram) -> Verdict:
        """Verify a program again after it was timed: its results must not depend on earlier calls."""
        verdict = self._verify(bound, self.written, is_fenced=False)
        if verdict.outcome == "ok":
            return verdict
        return Verdict(
            verdict.outcome, verdict.max_error, f"right at first, not after many calls: {verdict.diagnostic}"
        )

    def _verify(self, bound: BoundProgram, written: Sequence[Array], *, is_fenced: bool) -> Verdict:
        """Run a program once in every case, with reset states, and compare the written arrays."""
        worst = seconds = 0.0
        for number, case in enumerate(self.cases):
            self.restart(case, written)
            seconds += time_once(bound.run, 1) * (case.weight if len(self.cases) > 1 else 1)
            if is_fenced and (wrong := self.trespass()):
                return Verdict("wrong-result", np.inf, wrong)
            verdict = self.judge(number, written)
            if verdict.outcome != "ok":
                return verdict
            worst = max(worst, verdict.max_error)
        return Verdict("ok", worst, seconds=seconds)

    def trespass(self) -> str:
        """Describe forbidden writes (fences, inputs) and undo them; return an empty string if there were none."""
        sentences = [sentence for fence in self.fenced if (sentence := trespass_of(fence))]
        changed = [name for name, total in self.sums().items() if total != self._sums[name]]
        if changed:
            sentences.append(f"inputs must not be written; {', '.join(changed)} was")
            self.fill(self.payload.make_inputs(self.seed))
            self._stored.clear()
        return "; ".join(sentences)


def trespass_of(fence: Fenced) -> str:
    """Describe an out-of-bounds write and restore the fences; return an empty string if there was none."""
    sentence = fence.trespass()
    if sentence:
        fence.mend()
    return sentence


_prepared: OrderedDict[tuple[str, tuple[Case, ...], int, Pages], Testbench] = OrderedDict()


def open_testbench(payload: Payload, seed: int, pages: Pages = "huge") -> Testbench:
    """Return the testbench of a payload; the last `MOST_PAYLOADS` are cached."""
    key = (payload.sha256, payload.cases, seed, pages)
    if key not in _prepared:
        _prepared[key] = Testbench(payload, seed, pages)
        while len(_prepared) > MOST_PAYLOADS:
            _prepared.popitem(last=False)
    _prepared.move_to_end(key)
    _prepared[key].payload = payload  # the data are the same, but the error budget may differ
    return _prepared[key]
