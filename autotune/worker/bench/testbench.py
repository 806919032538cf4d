"""A payload with its data: inputs, outputs, the oracle's answer, and what a candidate must leave alone."""

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

REPEATS = 4  # calls besides the first by which a program of several threads is verified
KEPT_PAYLOADS = 2  # a GPT-2 with its oracle takes over a gigabyte


class Testbench(PayloadArrays):
    """Inputs, states, outputs and oracle of a payload, made once a worker.

    Attributes:
        fenced: Arrays between fences that a program writes when it is verified alone, in order.
        expected: Arrays that states and outputs should hold after a call, in order, for each case; of the oracle's
            dtype.
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
        """How a program is timed: one call at each case, as many as its weight says, again and again.

        Where it has states, every sample begins with those of a first call.
        """

        def run_cases(calls: int) -> None:
            for case in self.cases:
                self.enter(case)
                program.run(calls * case.weight)

        run = program.run if len(self.cases) == 1 else run_cases
        return RunFromStart(run, self.put_back) if self.has_states else run

    def run_from_start(self, program: BoundProgram) -> None:
        """Run a program once, in the last case, from the states of a first call; outputs are poisoned before."""
        self.restart(self.cases[-1])
        program.run()

    def stored(self, weight: PanelWeight) -> Array:
        """A weight in panels; packed once, however many candidates want it."""
        key = (weight.source, weight.columns, weight.transposed, weight.shape, weight.precision)
        if key not in self._stored:
            array = aligned_empty(weight.argument(self.payload.arguments[weight.source]), self.pages)
            array[...] = weight.pack(self.arrays[weight.source])
            self._stored[key] = array
        return self._stored[key]

    def ask_oracle(self, case: Case) -> list[Array]:
        """What the reference says in a case, or the plain lowering, its sums in row order, where there is none."""
        self.restart(case)
        if self.payload.reference is not None:
            with says_what_to_name(self.payload.name):
                return [np.asarray(array) for array in self.payload.reference(**self.inputs)]
        plain_program(self.payload).bind(self.arrays).run()
        return [array.copy() for array in self.written]

    def judge(self, number: int, got: Sequence[Array]) -> Verdict:
        """Compare what was written in a case to the oracle's.

        What is off by more than the rounding of sums explains may be off as far as rounding moves the plain program.
        """
        verdict = verify(self.payload, got, self.expected[number])
        if verdict.outcome != "wrong-result":
            return verdict
        return verify(self.payload, got, self.expected[number], moved=self.moved(number))

    def moved(self, number: int) -> tuple[float, ...]:
        """How far rounding moves what the plain program writes in a case; asked for by what is off, once."""
        if number not in self._moved:
            written = [array.copy() for array in self.written]
            self.restart(self.cases[number])
            self._moved[number] = moved_by_rounding(self.payload, self.arrays, self.seed)
            for array, before in zip(self.written, written, strict=True):
                array[...] = before
        return self._moved[number]

    def bind(self, program: CompiledProgram) -> BoundProgram:
        """A program on the arrays that it is timed with."""
        return program.bind([*self.arrays, *map(self.stored, program.weights)])

    def verify_alone(self, program: CompiledProgram) -> Verdict:
        """Run a program once a case, fences around what it writes; right if it wrote that, and nothing else.

        One of several threads is run again and again: which thread is first is another matter each time.
        """
        mine, bound = self._fence(program)
        verdict = self._verify(bound, mine, is_fenced=True)
        for _ in range(REPEATS if program.threads > 1 else 0):
            if verdict.outcome != "ok":
                break
            again = self._verify(bound, mine, is_fenced=True)
            verdict = replace(again, max_error=max(verdict.max_error, again.max_error), seconds=verdict.seconds)
        return verdict

    def _fence(self, program: CompiledProgram) -> tuple[list[Array], BoundProgram]:
        """Arrays between fences, and a program that writes those."""
        mine = [fence.array for fence in self.fenced]
        fenced = iter(mine)
        arguments = zip(self.payload.arguments, self.arrays, strict=True)
        arrays = [next(fenced) if argument.role in WRITTEN else array for argument, array in arguments]
        return mine, program.bind([*arrays, *map(self.stored, program.weights)])

    @property
    def hides_parts(self) -> str:
        """Why results of a part of a program look like those it did not compute; empty if they do not."""
        kept = [argument.name for argument in self.payload.written if argument.role == "state"]
        counted = [argument.name for argument in self.payload.written if argument.dtype.startswith("i")]
        said = [(kept, "keeps what was there before"), (counted, "holds whole numbers")]
        return next((f"{names[0]} {why}" for names, why in said if names), "")

    def verify_part(self, program: CompiledProgram) -> Verdict:
        """Run a part of a program once a case; right if what is a number is right, as what was not computed is none."""
        mine, bound = self._fence(program)
        worst, numbers = 0.0, 0
        for number, (case, expected) in enumerate(zip(self.cases, self.expected, strict=True)):
            self.restart(case, mine)
            bound.run()
            if wrong := self.trespass():
                return Verdict("wrong-result", np.inf, wrong)
            computed = [~np.isnan(array) for array in mine]
            numbers += sum(map(np.count_nonzero, computed))
            filled = [np.where(here, array, whole) for here, array, whole in zip(computed, mine, expected, strict=True)]
            verdict = self.judge(number, filled)
            if verdict.outcome != "ok":
                return verdict
            worst = max(worst, verdict.max_error)
        return Verdict("ok", worst, "" if numbers else "all that it writes follows from what a part leaves out")

    def verify_again(self, bound: BoundProgram) -> Verdict:
        """Run a program that was timed once more: what it computes must not depend on the calls before."""
        verdict = self._verify(bound, self.written, is_fenced=False)
        if verdict.outcome == "ok":
            return verdict
        return Verdict(
            verdict.outcome, verdict.max_error, f"right at first, not after many calls: {verdict.diagnostic}"
        )

    def _verify(self, bound: BoundProgram, written: Sequence[Array], *, is_fenced: bool) -> Verdict:
        """Run once in every case, each from the start, and compare what is written."""
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
        """Say what was written that must not be, and restore it; empty if all is well."""
        found = [sentence for fence in self.fenced if (sentence := trespass_of(fence))]
        changed = [name for name, total in self.sums().items() if total != self._sums[name]]
        if changed:
            found.append(f"inputs must not be written; {', '.join(changed)} was")
            self.fill(self.payload.make_inputs(self.seed))
            self._stored.clear()
        return "; ".join(found)


def trespass_of(fence: Fenced) -> str:
    """Sentence on what was written outside an array, empty if nothing was; restores its fences."""
    found = fence.trespass()
    if found:
        fence.mend()
    return found


_prepared: OrderedDict[tuple[str, tuple[Case, ...], int, Pages], Testbench] = OrderedDict()


def open_testbench(payload: Payload, seed: int, pages: Pages = "huge") -> Testbench:
    """The testbench of a payload, from this worker's memory if it is there."""
    key = (payload.sha256, payload.cases, seed, pages)
    if key not in _prepared:
        _prepared[key] = Testbench(payload, seed, pages)
        while len(_prepared) > KEPT_PAYLOADS:
            _prepared.popitem(last=False)
    _prepared.move_to_end(key)
    _prepared[key].payload = payload  # same data, maybe another budget
    return _prepared[key]
