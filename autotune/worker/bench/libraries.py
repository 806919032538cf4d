"""Library as entry of a race. Runs only in the library's own process, which must not import MLIR with another LLVM.

The expected outputs come from one of our processes, in parts.
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
    """Store a part of an expected output; ignore it if the first part went to another process."""
    key = (part.case, part.output)
    if part.start == 0:
        _expected[key] = np.empty(part.shape, part.values.dtype)
    if key in _expected:
        _expected[key].reshape(-1)[part.start : part.start + part.values.size] = part.values


def enter_library(entry: Entry) -> Verification | None:
    """Prepare a library, call it and verify its outputs; the process keeps it for the samples.

    Returns:
        Status of the library; `None` if this process has not received all expected outputs.

    Raises:
        TypeError: The entry is a program of ours.
    """
    if isinstance(entry.contender, Candidate):
        raise TypeError(f"{entry.name} must be a library")
    warnings.simplefilter("ignore")  # output of this process is shown only if it dies
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
    """Verify a library; return its status, and a function that runs it if it is correct.

    Args:
        library: The library; an exception that it raises becomes its status.
        data: Inputs of the payload.
        expected: Expected outputs for each case, in order.
    """
    version, watch = "", Stopwatch()
    try:
        version = library.version()
        ready = [prepare_at(case, library, data) for case in data.cases]
        version = ", ".join(dict.fromkeys(part for part in (version, *(prepared.how for prepared in ready)) if part))
        with watch.phase("verify"):
            verdict = check(ready, data, expected)
    except ComparatorError as error:
        return Verification("unsupported", diagnostic=str(error), version=version), None
    except MemoryError:
        raise  # the worker reports it as out of memory
    except Exception as error:  # external code
        return Verification("failed", diagnostic=first_lines(f"{type(error).__name__}: {error}"), version=version), None
    verification = Verification(verdict.outcome, verdict.max_error, verdict.diagnostic, version, watch.phases["verify"])
    return verification, run_all(ready, data.cases) if verdict.outcome == "ok" else None


def prepare_at(case: Case, library: Comparator, data: PayloadArrays) -> Prepared:
    """Prepare a library for one case, whose values it may treat as constants; inputs set by the case are copied."""
    data.restart(case)
    inputs = data.inputs
    inputs |= {name: inputs[name].copy() for name, _ in case.values}
    return library.prepare(replace(data.payload, cases=(case,)), inputs)


def check(ready: Sequence[Prepared], data: PayloadArrays, expected: Sequence[Sequence[Array]]) -> Verdict:
    """Call a library once per case and compare its outputs with the oracle's; its states are not checked."""
    payload, worst = data.payload, 0.0
    for prepared, oracle in zip(ready, expected, strict=True):
        verdict = verify(payload, prepared.outputs(prepared.call()), oracle, payload.outputs)
        if verdict.outcome != "ok":
            return verdict
        worst = max(worst, verdict.max_error)
    return Verdict("ok", worst)


def run_all(ready: Sequence[Prepared], cases: Sequence[Case]) -> Run:
    """Return the function that runs a library for timing, over all cases as in `Testbench.runs`."""
    if len(ready) == 1:
        return ready[0].run

    def run(calls: int) -> None:
        for prepared, case in zip(ready, cases, strict=True):
            prepared.run(calls * case.weight)

    return run
