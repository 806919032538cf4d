"""A candidate examined: from its script to SPIR-V or PTX in a worker, then run on lavapipe in a process of its own.

worker:  script -> kernel -> threads in NumPy: races? right? -> SPIR-V, or PTX
here:    spirv-val, lavapipe: right?                            ptxas: registers, spills

Without a driver, for `tune --for`, no result is compared: blocks are run for races and counts, on zeros.
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
MOST_OPERATIONS = 1 << 32  # of a payload: lavapipe does 10^8 a second
COUNTED_BLOCKS = 2  # of a grid, where nothing is compared: two can race
WRONG: Final = "wrong-result"


@dataclass(frozen=True)
class KernelCall:
    """A payload and the seed of its inputs."""

    payload: Payload
    seed: int = 0


@dataclass(frozen=True)
class Drawn:
    """Arrays of a call.

    Attributes:
        before: Bytes of each argument, outputs poisoned.
        expected: Bytes of what is written, as the oracle says, in double precision.
    """

    before: tuple[bytes, ...]
    expected: tuple[bytes, ...]


@dataclass(frozen=True)
class KernelJob:
    """What a worker is asked of a candidate.

    Attributes:
        call: What it computes.
        source: Task and script.
    """

    call: KernelCall
    source: KernelSource


@dataclass(frozen=True)
class Made:
    """What a worker makes of a candidate.

    Attributes:
        kernel: Kernel that it became; `None` where the script was refused.
        counts: What a block of it does.
        blocks: Blocks that were run thread by thread.
        code: Module of the spirv dialect.
        ptx: PTX, for a chip.
        outcome: What became of it.
        diagnostic: What went wrong.
        max_error: Largest difference to the oracle in the blocks that were run.
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
    """What is known of a candidate: never a time.

    Attributes:
        outcome: What became of it; ``ok`` where it is right as far as it was run.
        diagnostic: What went wrong.
        max_error: Largest difference to the oracle.
        made: What the worker made.
        binary: The kernel as SPIR-V.
        assembled: What ptxas says of its PTX; `None` where there is none of either.
        estimate: What the model says; `None` where it is not right.
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
    """Refuse what no kernel is written for, or none can be verified of.

    Raises:
        PayloadError: A constraint is broken.
    """
    check_types(payload)
    if payload.flops > MOST_OPERATIONS:
        raise PayloadError(
            f"a payload must take at most {MOST_OPERATIONS:.2g} operations to be verified without a GPU, "
            f"{payload.name} takes {payload.flops:.2g}; choose smaller sizes, or --for nvptx, which verifies none"
        )


def check_types(payload: Payload) -> None:
    """Refuse what no kernel is written for.

    Raises:
        PayloadError: A constraint is broken.
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
    """Inputs and what the oracle says; in a worker."""
    bench = open_testbench(call.payload, call.seed)
    bench.restart(bench.cases[0])
    before = tuple(np.ascontiguousarray(array).tobytes() for array in bench.arrays)
    expected = tuple(np.asarray(array, np.float64).tobytes() for array in bench.expected[0])
    return Drawn(before, expected)


def arrays_of(payload: Payload, drawn: Drawn) -> tuple[list[Array], list[Array]]:
    """Arguments before a call, and what is written after it."""
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
    """Make a candidate's kernel, run it thread by thread, and write it for its device; in a worker."""
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
    """Make a candidate's kernel, run some blocks of it for races and counts alone, and write it; in a worker."""
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
    """A kernel as a module of the spirv dialect, and for a chip as PTX."""
    return spirv.spirv_text(kernel), nvptx.ptx_text(kernel, device.chip) if device.chip else ""


def failed(error: CompileError) -> Made:
    """What became of a candidate that the compiler refused."""
    return Made(outcome=FAILED_AT.get(error.stage, "transform-failed"), diagnostic=str(error))


def judge(payload: Payload, kernel: Kernel, run: ThreadRun, before: list[Array], expected: list[Array]) -> Verdict:
    """Compare what blocks wrote with the oracle; where all were run, all must be written."""
    after, touched = list(before), [np.zeros(array.shape, bool) for array in before]
    for number, array, written in zip(kernel.arguments, run.outputs, run.written, strict=True):
        after[number], touched[number] = array, written
    for number, argument in enumerate(payload.arguments):
        if argument.role not in WRITTEN and touched[number].any():
            return Verdict(WRONG, np.inf, f"inputs must not be written; {argument.name} was")
    positions = [number for number, argument in enumerate(payload.arguments) if argument.role in WRITTEN]
    whole = run.blocks == kernel.blocks
    got = [
        after[number] if whole else np.where(touched[number], after[number], wanted.astype(after[number].dtype))
        for number, wanted in zip(positions, expected, strict=True)
    ]
    return verify(payload, got, expected)


def examine(job: KernelJob, drawn: Drawn | None, worker: Worker, driver: Lavapipe | None) -> Examined:
    """Make a candidate, validate it, run it on lavapipe and compare.

    Args:
        job: The candidate.
        drawn: Arrays of its call; `None` where nothing is compared.
        worker: Makes the kernel.
        driver: Runs it; `None` where nothing is compared.
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
    """What drivers and assemblers say of a kernel.

    Attributes:
        verdict: Comparison of what it wrote on lavapipe with the oracle; `None` where it was not run.
        binary: SPIR-V that ran.
        assembled: Figures of ptxas; `None` where there are none.
    """

    verdict: Verdict | None
    binary: bytes
    assembled: nvptx.Assembled | None


def conclude(made: Made, kernel: Kernel, counts: BlockCounts, device: Device, finding: Finding) -> Examined:
    """What became of a candidate that ran: the model speaks of what is right and keeps to registers, alone."""
    verdict, assembled = finding.verdict, finding.assembled
    known = Examined("ok", "", made.max_error, made, finding.binary, assembled, verified=verdict is not None)
    if verdict is not None:
        known = replace(known, outcome=verdict.outcome, max_error=verdict.max_error)
    if verdict is not None and verdict.outcome != "ok":
        return replace(known, diagnostic=f"on lavapipe: {verdict.diagnostic}")
    if assembled is not None and assembled.spilled:
        why = f"a thread must keep what it computes in registers, it spills {assembled.spilled} bytes"
        return replace(known, outcome="constraint", diagnostic=why)
    registers = assembled.registers if assembled is not None else 0
    return replace(known, estimate=estimate(kernel, counts, device, registers))


def run_kernel(payload: Payload, kernel: Kernel, binary: bytes, drawn: Drawn, driver: Lavapipe) -> Verdict:
    """Run a kernel on lavapipe, and compare all that it may write with the oracle, and its inputs with themselves."""
    before, expected = arrays_of(payload, drawn)
    after = list(before)
    arrays = run_on(driver, kernel, binary, [before[number] for number in kernel.arguments])
    for number, array in zip(kernel.arguments, arrays, strict=True):
        after[number] = array
    return compare(payload, before, after, expected)


def compare(payload: Payload, before: list[Array], after: list[Array], expected: list[Array]) -> Verdict:
    """Compare what a run wrote with the oracle, and what it read with itself."""
    for argument, old, new in zip(payload.arguments, before, after, strict=True):
        if argument.role not in WRITTEN and not np.array_equal(old, new):
            return Verdict(WRONG, np.inf, f"inputs must not be written; {argument.name} was")
    got = [after[number] for number, argument in enumerate(payload.arguments) if argument.role in WRITTEN]
    return verify(payload, got, expected)


def outcome_of(error: KernelError) -> Outcome:
    """The outcome of a run that failed."""
    return "timed-out" if error.outcome == "timed-out" else "crashed"
