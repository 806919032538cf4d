"""Facts about a program that a bundle records besides its times: errors of outputs, hashes of IR. Runs in a worker."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.compiler.ir.module import context
from autotune.compiler.lowering.pipeline import run_pipeline
from autotune.compiler.lowering.program import BoundProgram
from autotune.compiler.lowering.rewrites import SCRIPT, Unit
from autotune.compiler.lowering.steps import BEFORE_SCRIPT, requested_rewrites, rewrite
from autotune.compiler.panel_weight import PanelWeight
from autotune.core.candidate import Claim
from autotune.core.errors import CompileError, ProofError
from autotune.core.payload import Argument, Payload
from autotune.worker.bench.evaluate import build_and_verify
from autotune.worker.bench.program_cache import PROGRAMS
from autotune.worker.bench.testbench import Testbench, open_testbench
from autotune.worker.bench.verify import allowed_error

MOST_SECONDS = 10.0  # for drawing further inputs to measure an error on


@dataclass(frozen=True)
class OutputError:
    """Error of one output relative to the oracle.

    Attributes:
        name: Name of the argument.
        max_error: Largest absolute difference.
        rms_error: Root mean square of the difference.
        tolerance: Largest difference that counts as correct.
        magnitude: Largest absolute value of the oracle.
        rows: Number of rows along the last dimension of a floating-point output; 0 for other arguments.
        same: Number of rows whose argmax is the oracle's.
    """

    name: str
    max_error: float
    rms_error: float
    tolerance: float
    magnitude: float
    rows: int = 0
    same: int = 0


@dataclass(frozen=True)
class Transformed:
    """A module before and after its script, as `mlir-opt --transform-interpreter` applies it.

    Attributes:
        before: Module that the script applies to: the candidate's with an argument for every weight in panels, and
            loops for every task with an online reduction.
        after: Module that results from the script.
        weights: Weights in panels, the added arguments.
        online: Tags of the tasks with an online reduction.
        rewrites: Names and versions of rewrites that the program requests in addition to the common ones.
    """

    before: str
    after: str
    weights: tuple[PanelWeight, ...]
    online: tuple[str, ...]
    rewrites: tuple[str, ...]


def transform(claim: Claim) -> Transformed:
    """Apply a program's script and return the module before and after it.

    Raises:
        CompileError: Stage ``parse`` or ``transform``.
    """
    payload, candidate = claim.payload, claim.candidate
    with context():
        unit = Unit.open(payload, candidate)
        before, rewrites = str(unit.module), requested_rewrites(unit)
        for step in rewrite(unit) if candidate.script is not None else ():
            if step == BEFORE_SCRIPT[-1]:
                before = str(unit.module)
            if step == SCRIPT:
                break
        return Transformed(before, str(unit.module), unit.weights, tuple(unit.blocks), rewrites)


def hash_stages(claim: Claim) -> dict[str, str]:
    """Return the SHA-256 of the IR after the script and after the pipeline, which differ between compiler versions.

    Raises:
        CompileError: The compiler refused the module; the error names the stage.
    """
    candidate = claim.candidate
    with context():
        unit = Unit.open(claim.payload, candidate)
        transformed = str(unit.module)
        for step in rewrite(unit) if candidate.script is not None else ():
            if step == SCRIPT:
                transformed = str(unit.module)
        run_pipeline(unit, candidate.pipeline)
        texts = {"transformed": transformed, "lowered": str(unit.module)}
    return {stage: sha256(text.encode()).hexdigest() for stage, text in texts.items()}


def measure_errors(claim: Claim) -> tuple[OutputError, ...]:
    """Run a program once and compute the error of every output.

    Raises:
        CompileError: The program does not compile, or its outputs are wrong.
    """
    return next(drawn_errors(claim, 1))


def right_program(claim: Claim, bench: Testbench) -> BoundProgram:
    """Return the verified program of a claim, bound to a testbench; compile it unless it is cached.

    Raises:
        CompileError: The program does not compile, or is not right.
    """
    cached = PROGRAMS.find(claim.payload, claim.candidate)
    if cached is not None:
        verdict = bench.verify_alone(cached)
        check_right(claim.payload, verdict.outcome, verdict.diagnostic)
        return bench.bind(cached)
    bound, evaluation = build_and_verify(claim.payload, claim.candidate, bench)
    check_right(claim.payload, evaluation.outcome, evaluation.diagnostic)
    if bound is None:
        raise ProofError("a program that was verified must be loaded, this one is not; measure again")
    PROGRAMS.keep(claim.payload, claim.candidate, bound.program)
    return bound


def check_right(payload: Payload, outcome: str, diagnostic: str) -> None:
    """Raise `CompileError` unless the outcome is ``ok``."""
    if outcome != "ok":
        raise CompileError("verify", f"{payload.name} must be right, it is {outcome}: {diagnostic}")


@dataclass(frozen=True)
class DrawsWanted:
    """Number of rows or elements of outputs to be compared with the oracle's.

    Attributes:
        claim: The program, and the first seed of its inputs.
        least: Number of rows or elements that is enough.
        most_seeds: Maximum number of input sets, even if `least` is not reached.
    """

    claim: Claim
    least: int
    most_seeds: int


def drawn_errors(claim: Claim, most_seeds: int) -> Iterator[tuple[OutputError, ...]]:
    """Yield the errors of a program's outputs for consecutive seeds of its inputs; verify it on the first.

    Raises:
        CompileError: The program does not compile, or is not right.
    """
    bench = open_testbench(claim.payload, claim.seed)
    bound = right_program(claim, bench)
    for seed in range(claim.seed, claim.seed + most_seeds):
        if seed != claim.seed:
            bench = open_testbench(claim.payload, seed)
            bound = bench.bind(bound.program)
        bench.run_from_start(bound)  # into the arrays that it is timed with; verification uses others
        yield output_errors(claim.payload, bench)


def count_rows(wanted: DrawsWanted) -> tuple[int, int]:
    """Return the number of rows of a program's outputs, and of those whose argmax is the oracle's.

    Raises:
        CompileError: The program does not compile, or is not right.
    """
    rows, same = 0, 0
    for errors in drawn_errors(wanted.claim, wanted.most_seeds):
        rows, same = rows + sum(each.rows for each in errors), same + sum(each.same for each in errors)
        if rows >= wanted.least:
            break
    return rows, same


def largest_error(wanted: DrawsWanted) -> float:
    """Return the largest error of a program's outputs, relative to the largest element of each.

    Inputs are drawn for `MOST_SECONDS` at most, since the oracle of a large model is slow.

    Raises:
        CompileError: The program does not compile, or is not right.
    """
    start, largest = time.monotonic(), 0.0
    elements = sum(prod(argument.shape) for argument in wanted.claim.payload.written)
    for number, errors in enumerate(drawn_errors(wanted.claim, wanted.most_seeds), 1):
        largest = max([largest, *(each.max_error / each.magnitude for each in errors if each.magnitude)])
        if number * elements >= wanted.least or time.monotonic() - start > MOST_SECONDS:
            break
    return largest


def output_errors(payload: Payload, bench: Testbench) -> tuple[OutputError, ...]:
    """Return the errors of all states and outputs that the last call on a testbench wrote, in its last case."""
    errors, last = [], len(bench.cases) - 1
    for number, argument in enumerate(payload.written):
        got, expected = bench.written[number], bench.expected[last][number]
        difference = got.astype(np.float64) - expected
        magnitude = float(np.max(np.abs(expected), initial=0.0))
        worst = float(np.max(np.abs(difference), initial=0.0))
        allowed = allowed_error(payload, argument.dtype, magnitude)
        if worst > allowed:
            allowed = allowed_error(payload, argument.dtype, magnitude, bench.moved(last)[number])
        errors.append(
            OutputError(
                name=argument.name,
                max_error=worst,
                rms_error=float(np.sqrt(np.mean(difference**2))),
                tolerance=allowed,
                magnitude=magnitude,
            )
        )
        if has_rows(argument):
            rows, same = agreeing(got, expected)
            errors[-1] = replace(errors[-1], rows=rows, same=same)
    return tuple(errors)


def has_rows(argument: Argument) -> bool:
    """Return whether an argument is a floating-point output with more than one element in its last dimension."""
    of_several = len(argument.shape) > 0 and argument.shape[-1] > 1
    return argument.role == "output" and of_several and argument.dtype in ("f16", "bf16", "f32", "f64")


def agreeing(got: npt.NDArray[Any], expected: npt.NDArray[Any]) -> tuple[int, int]:
    """Return the number of rows, and of those with the same argmax in both arrays."""
    largest = np.argmax(got.astype(np.float64), axis=-1), np.argmax(expected, axis=-1)
    return int(largest[0].size), int(np.count_nonzero(largest[0] == largest[1]))
