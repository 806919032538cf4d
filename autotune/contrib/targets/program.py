"""Cross compilation of programs for other machines, and verification under an emulator. Nothing is measured.

payload, Target --default configs--> Candidate --LLVM--> TargetProgram --QEMU--> TargetCheck
"""

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autotune.bundles.c_header import c_header
from autotune.bundles.emit import KINDS
from autotune.compiler.codegen.llvm_tools import check_processor
from autotune.compiler.codegen.object_code import disassemble
from autotune.compiler.lowering.emit import Emission, emit_program
from autotune.compiler.panel_weight import PanelWeight
from autotune.contrib.targets.emulator import Emulator, find_compiler, find_emulator, link, run_program
from autotune.contrib.targets.harness import c_harness
from autotune.contrib.targets.images import Answer, EmulatedCall, draw_images, judge_images, lay_out
from autotune.core.c_names import c_name
from autotune.core.candidate import Candidate, Claim
from autotune.core.errors import CompileError
from autotune.core.evaluator import Evaluation
from autotune.core.host.whole_file import write_file
from autotune.core.payload import REFERENCE, Payload
from autotune.core.target import Target
from autotune.core.trial import RIGHT, Outcome
from autotune.tuning.candidates import default_candidate
from autotune.tuning.stages.record import weight_record
from autotune.worker.loading.reading import partition
from autotune.worker.worker import Worker

EMULATED_SECONDS = 300.0  # timeout of one call under an emulator


@dataclass(frozen=True)
class TargetProgram:
    """A payload compiled for another machine.

    Attributes:
        payload: The payload.
        target: The machine.
        candidate: Script and pipeline with which it was compiled.
        data: Bytes of the object file, or LLVM IR.
        weights: Packed weights, which it takes after the payload's arguments.
        header: Text of its C header.
    """

    payload: Payload
    target: Target
    candidate: Candidate
    data: bytes
    weights: tuple[PanelWeight, ...]
    header: str


@dataclass(frozen=True)
class TargetCheck:
    """Verification of a program under an emulator.

    Attributes:
        payload: Name of the payload.
        target: Name of the machine.
        outcome: Outcome of verification.
        diagnostic: Description of the failure, if any.
        max_error: Largest absolute difference from the oracle; `None` if the program gave no result.
        emulator: Emulator that ran it, such as ``qemu-aarch64 -cpu neoverse-n1``.
        oracle: Oracle of the results, `reference` or `plain lowering`.
        unproved: Whether the payload was imported and its only oracle is its own plain lowering.
    """

    payload: str
    target: str
    outcome: Outcome
    diagnostic: str
    max_error: float | None
    emulator: str
    oracle: str = REFERENCE
    unproved: bool = False

    @property
    def is_right(self) -> bool:
        """Whether the program computes the oracle's result."""
        return self.outcome in RIGHT

    def to_json(self) -> dict[str, Any]:
        """Return the check as a JSON-compatible dict."""
        return asdict(self)


def compile_default(payload: Payload, target: Target, worker: Worker, kind: str = "object") -> TargetProgram:
    """Compile a payload for a machine with the default configs for its vectors and caches.

    Args:
        payload: Payload to compile.
        target: The machine.
        worker: Process that compiles.
        kind: ``object``, ``asm`` (also compiled to an object file), or ``llvm`` for LLVM IR.

    Raises:
        CompileError: The payload does not compile for that machine.
        MachineError: LLVM does not know the machine's processor.
    """
    check_processor(target)
    return compile_as(payload, default_candidate(partition(payload), target.machine), target, worker, kind)


def compile_as(
    payload: Payload, candidate: Candidate, target: Target, worker: Worker, kind: str = "object"
) -> TargetProgram:
    """Compile a payload for a machine with a candidate; arguments and errors are those of `compile_default`."""
    claim = Claim(payload, candidate)
    code = worker.call(emit_program, Emission(claim, "llvm" if kind == "llvm" else "object", target))
    if isinstance(code, Evaluation):
        raise CompileError("jit", f"{payload.name} must compile for {target.name}; {code.outcome}: {code.diagnostic}")
    about = f"{payload.name}, compiled for {target.triple} by mlir-schedule-autotune"
    weights = [weight_record(payload, weight) for weight in code.weights]
    header = c_header(payload.entry, payload.arguments, weights, about, code)
    return TargetProgram(payload, target, candidate, code.data, code.weights, header)


def verify_emulated(
    program: TargetProgram, worker: Worker, seed: int = 0, seconds: float = EMULATED_SECONDS
) -> TargetCheck:
    """Run a program under an emulator of its machine, and compare its results with the oracle.

    Args:
        program: Program as an object file.
        worker: Process that creates inputs and compares results.
        seed: Seed of the inputs.
        seconds: Timeout of one call.

    Raises:
        MachineError: The emulator, or a C compiler for the machine, is not installed.
    """
    target, payload = program.target, program.payload
    emulator, compiler = find_emulator(target), find_compiler(target)
    call = EmulatedCall(payload, program.weights, seed)
    images = worker.call(draw_images, call, EMULATED_SECONDS)
    if isinstance(images, Evaluation):
        return failed(program, emulator, images.outcome, f"in its oracle: {images.diagnostic}")
    name = c_name(payload.entry)
    with tempfile.TemporaryDirectory(prefix="autotune-") as path:
        folder = Path(path)
        (folder / f"{name}.o").write_bytes(program.data)
        (folder / f"{name}.h").write_text(program.header, encoding="utf-8")
        source = c_harness(name, call.arguments, lay_out(call.arguments))
        binary, answers = link(compiler, folder, source, [f"{name}.o"]), []
        for image in images:
            run = run_program(emulator, binary, image, seconds)
            if run.why_not:
                return failed(program, emulator, "timed-out" if run.late else "crashed", run.why_not)
            answers.append(run.output)
    verdict = worker.call(judge_images, Answer(call, tuple(answers)), EMULATED_SECONDS)
    if isinstance(verdict, Evaluation):
        return failed(program, emulator, verdict.outcome, verdict.diagnostic)
    about = (payload.name, target.name, verdict.outcome, verdict.diagnostic, verdict.max_error)
    return TargetCheck(*about, emulator.about, payload.oracle, payload.unproved)


def failed(program: TargetProgram, emulator: Emulator, outcome: Outcome, why: str) -> TargetCheck:
    """Return the check of a program that gave no result."""
    payload = program.payload
    about = (payload.name, program.target.name, outcome, why, None, emulator.about)
    return TargetCheck(*about, payload.oracle, payload.unproved)


def write_program(program: TargetProgram, kind: str, output: Path) -> list[Path]:
    """Write a program for another machine and its header; return the paths written."""
    output.mkdir(parents=True, exist_ok=True)
    stem, entry = c_name(program.payload.entry), program.payload.entry
    path, header = output / f"{stem}{KINDS[kind]}", output / f"{stem}.h"
    write_file(path, disassemble(program.data, entry).encode() if kind == "asm" else program.data)
    write_file(header, program.header)
    return [path, header]
