"""Our programs and the reference kernel as entries of a race, and expected outputs. Isolated process only."""

from dataclasses import dataclass

import numpy as np

from autotune.core.candidate import Candidate
from autotune.core.host.machine import Machine, this_machine
from autotune.core.payload import Payload
from autotune.worker.bench.entry import Entry, ExpectedPart, Verification
from autotune.worker.bench.evaluate import build_and_verify
from autotune.worker.bench.roofs import reference_run
from autotune.worker.bench.testbench import open_testbench
from autotune.worker.bench.turns import remember

REFERENCE = "the reference kernel"


@dataclass(frozen=True)
class OracleQuestion:
    """Request for part of an expected output: `count` elements of the flattened output from index `start`."""

    payload: Payload
    seed: int
    case: int = 0
    output: int = 0
    start: int = 0
    count: int = 0


def enter_program(entry: Entry) -> Verification:
    """Compile one of our programs, call it and verify its outputs; the process keeps it for the samples.

    Raises:
        TypeError: The entry is a library.
    """
    if not isinstance(entry.contender, Candidate):
        raise TypeError(f"{entry.name} must be a program of ours")
    bench = open_testbench(entry.payload, entry.seed, this_machine().pages)
    bound, result = build_and_verify(entry.payload, entry.contender, bench)
    if bound is None:
        remember(entry.name, None)
    else:
        remember(entry.name, bench.runs(bound), bound.program.part.scale)
    return Verification(result.outcome, result.max_error, result.diagnostic, seconds=result.phases.get("verify", 0.0))


def enter_reference(machine: Machine) -> Verification:
    """Compile the reference kernel, which is timed in turn with the entries."""
    remember(REFERENCE, reference_run(machine))
    return Verification("ok")


def prepare_oracle(question: OracleQuestion) -> Verification:
    """Compute the expected outputs of a payload; the process keeps them.

    Raises:
        PayloadError: The oracle is not finite.
    """
    open_testbench(question.payload, question.seed, this_machine().pages)
    return Verification("ok")


def expected_part(question: OracleQuestion) -> ExpectedPart:
    """Return part of an expected output.

    Raises:
        PayloadError: The oracle is not finite.
    """
    bench = open_testbench(question.payload, question.seed, this_machine().pages)
    written = zip(question.payload.written, bench.expected[question.case], strict=True)
    array = [array for argument, array in written if argument.role == "output"][question.output]
    values = np.ravel(array)[question.start : question.start + question.count]
    return ExpectedPart(question.case, question.output, question.start, array.shape, values)
