"""Evaluation of a candidate: compile to SPIR-V or PTX in a worker, then run on lavapipe in a separate process.

worker:   script -> kernel -> interpreter: races? correct? -> SPIR-V, or PTX
parent:   spirv-val, lavapipe: correct?                       ptxas: registers, spills

Without a driver, for `tune --for`, no results are compared: the interpreter runs on zeros, for races and counts.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from autotune.contrib.gpu import nvptx, spirv
from autotune.contrib.gpu.counts import BlockCounts
from autotune.contrib.gpu.device import Device
from autotune.contrib.gpu.interpret import ThreadRun, blank_arrays, interpret
from autotune.contrib.gpu.kernel import Kernel, KernelSource, make_kernel
from autotune.contrib.gpu.model import Estimate, estimate
from autotune.contrib.gpu.vulkan import Lavapipe, run_on
from autotune.core.errors import CompileError, KernelError, PayloadError
from autotune.core.evaluator import Evaluation
from autotune.core.payload import DTYPES, WRITTEN, Array, Payload
from autotune.core.trial import Outcome
from autotune.worker.bench.evaluate import FAILED_AT
from autotune.worker.bench.testbench import open_testbench
from autotune.worker.bench.verify import Verdict, verify
from autotune.worker.worker import Worker

TYPES = ("f32", "i32", "i64")  # of arguments
MOST_OPERATIONS = 1 << 32  # of a payload: lavapipe computes 10^8 a second
COUNTED_BLOCKS = 2  # of a grid, if no results are compared: two are needed to detect races between blocks
WRONG: Final = "wrong-result"


@dataclass(frozen=True)
class KernelCall:
    """A payload and the seed of its inputs."""

    payload: Payload
    seed: int = 0


@dataclass(frozen=True)
class Drawn:
    """Random inputs of a call and its expected outputs.

    Attributes:
        before: Bytes of each argument before the call; outputs are poisoned.
        expected: Bytes of each output by the oracle, in double precision.
    """

    before: tuple[bytes, ...]
    expected: tuple[bytes, ...]


@dataclass(frozen=True)
class KernelJob:
    """Request to a worker to compile and check a candidate.

    Attributes:
        call: Payload and seed of its inputs.
        source: Task and script.
    """

    call: KernelCall
    source: KernelSource


@dataclass(frozen=True)
class Made:
    """A worker's result for a candidate.

    Attributes:
        kernel: Compiled kernel; `None` if the script was rejected.
        counts: Operation counts of one block.
        blocks: Number of blocks that the interpreter ran.
        code: Module of the spirv dialect.
        ptx: PTX, for a chip.
        outcome: Outcome of the candidate in the worker.
        diagnostic: Description of the failure; empty if there is none.
        max_error: Largest difference to the oracle in the interpreted blocks.
    """

    kernel: Kernel | None = None
    counts: BlockCounts | None = None
    blocks: int = 0
    code: str = ""
    ptx: str = ""
    outcome: Outcome = "ok"
    diagnostic: str = ""
    max_error: float = 0.0


@dataclass(frozen=True)
class Examined:
    """The evaluation of a candidate, without a time.

    Attributes:
        outcome: Outcome of the candidate; ``ok`` if all checks that were run have passed.
        diagnostic: Description of the failure; empty if there is none.
        max_error: Largest difference to the oracle.
        made: Result of the worker.
        binary: The kernel as SPIR-V.
        assembled: Figures of ptxas; `None` without PTX or ptxas.
        estimate: Estimate of the cost model; `None` if the candidate failed.
        verified: Whether its results were compared with the oracle.
    """

    outcome: Outcome
    diagnostic: str
    max_error: float
    made: Made
    binary: bytes = b""
    assembled: nvptx.Assembled | None = None
    estimate: Estimate | None = None
    verified: bool = True


def check_payload(payload: Payload) -> None:
    """Reject a payload whose kernels are unsupported or too expensive to verify.

    Raises:
        PayloadError: A constraint is violated.
    """
    check_types(payload)
    if payload.flops > MOST_OPERATIONS:
        raise PayloadError(
            f"a payload must take at most {MOST_OPERATIONS:.2g} operations to be verified without a GPU, "
            f"{payload.name} takes {payload.flops:.2g}; choose smaller sizes, or --for nvptx, which verifies none"
        )


def check_types(payload: Payload) -> None:
    """Reject a payload of unsupported element types, or of several cases.

    Raises:
        PayloadError: A constraint is violated.
    """
    if wrong := next((a for a in payload.arguments if a.dtype not in TYPES), None):
        raise PayloadError(
            f"arguments must be of {', '.join(TYPES)} for --target, {wrong.name} of {payload.name} is of "
            f"{wrong.dtype}; leave --target out"
        )
    if payload.cases:
        raise PayloadError(
            f"a payload must have one case for --target, {payload.name} has {len(payload.cases)}; leave --target out"
        )


def draw(call: KernelCall) -> Drawn:
    """Draw inputs and compute the expected outputs by the oracle; runs in a worker."""
    bench = open_testbench(call.payload, call.seed)
    bench.restart(bench.cases[0])
    before = tuple(np.ascontiguousarray(array).tobytes() for array in bench.arrays)
    expected = tuple(np.asarray(array, np.float64).tobytes() for array in bench.expected[0])
    return Drawn(before, expected)


def arrays_of(payload: Payload, drawn: Drawn) -> tuple[list[Array], list[Array]]:
    """Return the arguments before a call, and the expected outputs in f64."""
    before = [
        np.frombuffer(data, DTYPES[a.dtype]).reshape(a.shape).copy()
        for a, data in zip(payload.arguments, drawn.before, strict=True)
    ]
    expected = [
        np.frombuffer(data, np.float64).reshape(a.shape)
        for a, data in zip(payload.written, drawn.expected, strict=True)
    ]
    return before, expected


def make(job: KernelJob) -> Made:
    """Compile a candidate's kernel, interpret and verify it, and lower it for its device; runs in a worker."""
    try:
        kernel = make_kernel(job.source)
        before, expected = arrays_of(job.call.payload, draw(job.call))
        run = interpret(kernel, [before[number] for number in kernel.arguments])
        if run.race:
            return Made(kernel, run.counts, run.blocks, outcome=WRONG, diagnostic=run.race)
        verdict = judge(job.call.payload, kernel, run, before, expected)
        if verdict.outcome != "ok":
            message = f"thread by thread: {verdict.diagnostic}"
            return Made(kernel, run.counts, run.blocks, "", "", verdict.outcome, message, verdict.max_error)
        code, ptx = endings_of(kernel, job.source.device)
    except CompileError as error:
        return failed(error)
    return Made(kernel, run.counts, run.blocks, code, ptx, max_error=verdict.max_error)


def make_unverified(job: KernelJob) -> Made:
    """Compile a candidate's kernel, interpret some blocks for races and counts only, and lower it; runs in a worker."""
    try:
        kernel = make_kernel(job.source)
        run = interpret(kernel, blank_arrays(kernel), COUNTED_BLOCKS)
        if run.race:
            return Made(kernel, run.counts, run.blocks, outcome=WRONG, diagnostic=run.race)
        code, ptx = endings_of(kernel, job.source.device)
    except CompileError as error:
        return failed(error)
    return Made(kernel, run.counts, run.blocks, code, ptx, max_error=np.nan)


def endings_of(kernel: Kernel, device: Device) -> tuple[str, str]:
    """Return a kernel as a module of the spirv dialect and, for a chip, as PTX."""
    return spirv.spirv_text(kernel), nvptx.ptx_text(kernel, device.chip) if device.chip else ""


def failed(error: CompileError) -> Made:
    """Return the result of a candidate that the compiler rejected."""
    return Made(outcome=FAILED_AT.get(error.stage, "transform-failed"), diagnostic=str(error))


def judge(payload: Payload, kernel: Kernel, run: ThreadRun, before: list[Array], expected: list[Array]) -> Verdict:
    """Compare the outputs of interpreted blocks with the oracle.

    If only some blocks were run, elements that they did not write are not compared.
    """
    after, touched = list(before), [np.zeros(array.shape, bool) for array in before]
    for number, array, written in zip(kernel.arguments, run.outputs, run.written, strict=True):
        after[number], touched[number] = array, written
    for number, argument in enumerate(payload.arguments):
        if argument.role not in WRITTEN and touched[number].any():
            return Verdict(WRONG, np.inf, f"inputs must not be written; {argument.name} was")
    positions = [number for number, argument in enumerate(payload.arguments) if argument.role in WRITTEN]
    whole = run.blocks == kernel.blocks
    outputs = [
        after[number] if whole else np.where(touched[number], after[number], wanted.astype(after[number].dtype))
        for number, wanted in zip(positions, expected, strict=True)
    ]
    return verify(payload, outputs, expected)


def examine(job: KernelJob, drawn: Drawn | None, worker: Worker, driver: Lavapipe | None) -> Examined:
    """Compile a candidate, validate it, run it on lavapipe and verify the results.

    Args:
        job: Candidate to evaluate.
        drawn: Inputs and expected outputs; `None` to skip verification.
        worker: Worker that compiles the kernel.
        driver: Driver that runs it; `None` to skip verification.
    """
    made = worker.call(make if driver is not None else make_unverified, job)
    if isinstance(made, Evaluation):
        return Examined(made.outcome, made.diagnostic, np.inf, Made())
    if made.outcome != "ok" or made.kernel is None or made.counts is None:
        return Examined(made.outcome, made.diagnostic, made.max_error, made)
    payload, device, verdict = job.call.payload, job.source.device, None
    try:
        binary = spirv.serialise(made.code)
        if driver is not None and drawn is not None:
            spirv.validate(binary, driver.validator)
            verdict = run_kernel(payload, made.kernel, binary, drawn, driver)
        ptxas = nvptx.find_ptxas() if made.ptx else None
        assembled = nvptx.assemble(made.ptx, device.chip, ptxas) if ptxas is not None else None
    except CompileError as error:
        return Examined(FAILED_AT.get(error.stage, "jit-failed"), str(error), np.inf, made)
    except KernelError as error:
        return Examined(outcome_of(error), str(error), np.inf, made)
    return conclude(made, made.kernel, made.counts, device, Finding(verdict, binary, assembled))


@dataclass(frozen=True)
class Finding:
    """Results of the driver and the assembler for a kernel.

    Attributes:
        verdict: Comparison of the outputs on lavapipe with the oracle; `None` if the kernel was not run.
        binary: The kernel as SPIR-V.
        assembled: Figures of ptxas; `None` if there are none.
    """

    verdict: Verdict | None
    binary: bytes
    assembled: nvptx.Assembled | None


def conclude(made: Made, kernel: Kernel, counts: BlockCounts, device: Device, finding: Finding) -> Examined:
    """Build the evaluation of a compiled candidate; only correct ones that do not spill registers get an estimate."""
    verdict, assembled = finding.verdict, finding.assembled
    result = Examined("ok", "", made.max_error, made, finding.binary, assembled, verified=verdict is not None)
    if verdict is not None:
        result = replace(result, outcome=verdict.outcome, max_error=verdict.max_error)
    if verdict is not None and verdict.outcome != "ok":
        return replace(result, diagnostic=f"on lavapipe: {verdict.diagnostic}")
    if assembled is not None and assembled.spilled:
        why = f"a thread must keep what it computes in registers, it spills {assembled.spilled} bytes"
        return replace(result, outcome="constraint", diagnostic=why)
    registers = assembled.registers if assembled is not None else 0
    return replace(result, estimate=estimate(kernel, counts, device, registers))


def run_kernel(payload: Payload, kernel: Kernel, binary: bytes, drawn: Drawn, driver: Lavapipe) -> Verdict:
    """Run a kernel on lavapipe, compare its outputs with the oracle, and check that its inputs are unchanged."""
    before, expected = arrays_of(payload, drawn)
    after = list(before)
    arrays = run_on(driver, kernel, binary, [before[number] for number in kernel.arguments])
    for number, array in zip(kernel.arguments, arrays, strict=True):
        after[number] = array
    return compare(payload, before, after, expected)


def compare(payload: Payload, before: list[Array], after: list[Array], expected: list[Array]) -> Verdict:
    """Compare the outputs of a run with the oracle, and check that its inputs are unchanged."""
    for argument, old, new in zip(payload.arguments, before, after, strict=True):
        if argument.role not in WRITTEN and not np.array_equal(old, new):
            return Verdict(WRONG, np.inf, f"inputs must not be written; {argument.name} was")
    outputs = [after[number] for number, argument in enumerate(payload.arguments) if argument.role in WRITTEN]
    return verify(payload, outputs, expected)


def outcome_of(error: KernelError) -> Outcome:
    """Return the outcome of a run that failed."""
    return "timed-out" if error.outcome == "timed-out" else "crashed"
