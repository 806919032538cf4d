"""Our programs in a race, its reference kernel, and what the oracle expects of others. In the isolated process only."""

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
    """A stretch of an expected output: the case, the output, its first element in that as one row, and how many."""

    payload: Payload
    seed: int
    case: int = 0
    output: int = 0
    start: int = 0
    count: int = 0


def enter_program(entry: Entry) -> Verification:
    """Compile one of our programs, call it once and verify what it gives; the process keeps it for its samples.

    Raises:
        TypeError: The entry is a library's.
    """
    if not isinstance(entry.contender, Candidate):
        raise TypeError(f"{entry.name} must be a program of ours")
    bench = open_testbench(entry.payload, entry.seed, this_machine().pages)
    bound, found = build_and_verify(entry.payload, entry.contender, bench)
    if bound is None:
        remember(entry.name, None)
    else:
        remember(entry.name, bench.runs(bound), bound.program.part.scale)
    return Verification(found.outcome, found.max_error, found.diagnostic, seconds=found.phases.get("verify", 0.0))


def enter_reference(machine: Machine) -> Verification:
    """Compile the kernel that runs between the others."""
    remember(REFERENCE, reference_run(machine))
    return Verification("ok")


def prepare_oracle(question: OracleQuestion) -> Verification:
    """Compute what the oracle expects of all outputs; the process remembers it.

    Raises:
        PayloadError: The oracle is not finite.
    """
    open_testbench(question.payload, question.seed, this_machine().pages)
    return Verification("ok")


def expected_part(question: OracleQuestion) -> ExpectedPart:
    """What the oracle expects of a stretch of an output.

    Raises:
        PayloadError: The oracle is not finite.
    """
    bench = open_testbench(question.payload, question.seed, this_machine().pages)
    written = zip(question.payload.written, bench.expected[question.case], strict=True)
    array = [array for argument, array in written if argument.role == "output"][question.output]
    values = np.ravel(array)[question.start : question.start + question.count]
    return ExpectedPart(question.case, question.output, question.start, array.shape, values)
