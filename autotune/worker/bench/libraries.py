"""A library in a race. In a process of the library's own only: nothing here imports MLIR, whose LLVM may be another.

What the oracle expects comes from a process of ours, in parts.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autotune.core.candidate import Candidate
from autotune.core.errors import ComparatorError
from autotune.core.host.machine import this_machine
from autotune.core.host.stopwatch import Stopwatch
from autotune.core.payload import Array, Case
from autotune.core.plugs.comparator import Comparator, Prepared
from autotune.core.printable import first_lines
from autotune.worker.bench.entry import Entry, ExpectedPart, Verification
from autotune.worker.bench.measure import Run
from autotune.worker.bench.payload_arrays import PayloadArrays
from autotune.worker.bench.turns import remember
from autotune.worker.bench.verify import Verdict, verify

_expected: dict[tuple[int, int], Array] = {}  # by case and output


def take_expected(part: ExpectedPart) -> None:
    """Keep a stretch of an expected output; of one whose beginning went to another process, nothing."""
    key = (part.case, part.output)
    if part.start == 0:
        _expected[key] = np.empty(part.shape, part.values.dtype)
    if key in _expected:
        _expected[key].reshape(-1)[part.start : part.start + part.values.size] = part.values


def enter_library(entry: Entry) -> Verification | None:
    """Prepare a library, call it and verify what it gives; the process keeps it for its samples.

    Returns:
        Outcome of the library; `None` if this process has not received all that is expected.

    Raises:
        TypeError: The entry is a program of ours.
    """
    if isinstance(entry.contender, Candidate):
        raise TypeError(f"{entry.name} must be a library")
    warnings.simplefilter("ignore")  # read only when the process died
    data = PayloadArrays(entry.payload, entry.seed, this_machine().pages)
    outputs = range(len(entry.payload.outputs))
    if any((case, output) not in _expected for case in range(len(data.cases)) for output in outputs):
        return None
    expected = [[_expected[case, output] for output in outputs] for case in range(len(data.cases))]
    verification, run = admit(entry.contender, data, expected)
    remember(entry.name, run)
    return verification


def admit(
    library: Comparator, data: PayloadArrays, expected: Sequence[Sequence[Array]]
) -> tuple[Verification, Run | None]:
    """A library's status, and how to run it if it is right. What it raises is its status.

    Args:
        library: The library.
        data: Inputs of the payload.
        expected: What outputs should hold after a call, in order, for each case.
    """
    version, watch = "", Stopwatch()
    try:
        version = library.version()
        ready = [prepare_at(case, library, data) for case in data.cases]
        version = ", ".join(dict.fromkeys(part for part in (version, *(one.how for one in ready)) if part))
        with watch.phase("verify"):
            verdict = check(ready, data, expected)
    except ComparatorError as error:
        return Verification("unsupported", diagnostic=str(error), version=version), None
    except MemoryError:
        raise  # the worker knows what to make of it
    except Exception as error:  # external code
        return Verification("failed", diagnostic=first_lines(f"{type(error).__name__}: {error}"), version=version), None
    verification = Verification(verdict.outcome, verdict.max_error, verdict.diagnostic, version, watch.phases["verify"])
    return verification, run_all(ready, data.cases) if verdict.outcome == "ok" else None


def prepare_at(case: Case, library: Comparator, data: PayloadArrays) -> Prepared:
    """A library at one case, which may be a constant to it; inputs that tell cases apart are copies."""
    data.restart(case)
    inputs = data.inputs
    inputs |= {name: inputs[name].copy() for name, _ in case.values}
    return library.prepare(replace(data.payload, cases=(case,)), inputs)


def check(ready: Sequence[Prepared], data: PayloadArrays, expected: Sequence[Sequence[Array]]) -> Verdict:
    """Call a library once a case and compare the outputs it gives to the oracle's; its states are its own affair."""
    payload, worst = data.payload, 0.0
    for one, wanted in zip(ready, expected, strict=True):
        verdict = verify(payload, one.outputs(one.call()), wanted, payload.outputs)
        if verdict.outcome != "ok":
            return verdict
        worst = max(worst, verdict.max_error)
    return Verdict("ok", worst)


def run_all(ready: Sequence[Prepared], cases: Sequence[Case]) -> Run:
    """How a library is timed: as `Testbench.runs` times a program."""
    if len(ready) == 1:
        return ready[0].run

    def run(calls: int) -> None:
        for one, case in zip(ready, cases, strict=True):
            one.run(calls * case.weight)

    return run
