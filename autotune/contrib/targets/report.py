"""Report on a payload for another machine: verification under an emulator, and llvm-mca's model of its hot loops."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autotune.bundles.candidates import default_alone
from autotune.compiler.codegen.loop_model import HotLoop, judge_hot_loop
from autotune.compiler.codegen.object_code import disassemble
from autotune.contrib.targets.program import TargetCheck, TargetProgram, compile_as, compile_default, verify_emulated
from autotune.core.payload import Payload
from autotune.core.target import Target
from autotune.reports.format import error_beside
from autotune.store.bundle import read_bundle
from autotune.tuning.half_results import family_as_typed
from autotune.worker.isolation.limits import MODEL_SECONDS
from autotune.worker.loading.reading import partition
from autotune.worker.worker import Worker


@dataclass(frozen=True)
class TaskLoop:
    """Hot loop of a task that was compiled alone.

    Attributes:
        task: Name of the task, for people.
        mix: Instruction mix; empty if there is no loop.
        expected: Sentence on llvm-mca's prediction.
        vector_bits: Width in bits of the widest vectors in its arithmetic; 0 without a loop or vectors.
        cycles: Cycles per iteration by llvm-mca; `None` if it has no model.
        fmas: Multiply-adds per iteration.
    """

    task: str
    mix: str
    expected: str
    vector_bits: int = 0
    cycles: float | None = None
    fmas: int = 0


@dataclass(frozen=True)
class TargetReport:
    """Report on a payload for another machine, without measurements.

    Attributes:
        target: The machine.
        check: Verification under the emulator.
        loops: Hot loop of every task.
    """

    target: Target
    check: TargetCheck
    loops: tuple[TaskLoop, ...]

    @property
    def lines(self) -> list[str]:
        """Lines of text; those after the first begin with a space."""
        check, target = self.check, self.target
        beside = error_beside(check.max_error, check.oracle, unproved=check.unproved)
        verdict = f"right, {beside}" if check.is_right else f"{check.outcome}: {check.diagnostic}"
        texts = [f"{check.payload} for {target.name}: {verdict}, under {check.emulator}; nothing was measured"]
        texts.append(f" {target.summary}")
        for loop in self.loops:
            texts += [f" {loop.task}: {loop.mix or 'no loop'}", *([f" {loop.expected}"] if loop.expected else [])]
            if 0 < loop.vector_bits < target.machine.vector_bits:
                texts.append(
                    f" note: vectors of {loop.vector_bits} bits, the machine's have {target.machine.vector_bits}"
                )
        return texts

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON-compatible dict."""
        return asdict(self) | {"measured": False}


def judge_bundle(folder: Path, target: Target, named: Payload | None = None) -> TargetReport:
    """Compile a bundle's payload for a machine with its default configs, verify it, and analyse its loops.

    Raises:
        BundleError: The bundle is refused.
        MachineError: An emulator, a C compiler or a tool is not installed, or LLVM does not know the machine.
        CompileError: The payload does not compile for that machine.
    """
    return judge_payload(read_bundle(folder, named).payload, target)


def judge_payload(payload: Payload, target: Target) -> TargetReport:
    """Compile, verify and analyse any payload, as `judge_bundle` does."""
    with Worker(MODEL_SECONDS) as worker:
        program = compile_default(payload, target, worker)
        check = verify_emulated(program, worker)
        return TargetReport(target, check, judge_loops(program, worker))


def judge_loops(program: TargetProgram, worker: Worker) -> tuple[TaskLoop, ...]:
    """Analyse the hot loop of every task of a program, each compiled alone with its default config."""
    target, tasks = program.target, partition(program.payload).tasks
    if len(tasks) == 1:
        name = tasks[0].name
        return (task_loop(name, judge_hot_loop(disassemble(program.data, program.payload.entry), target)),)
    loops = []
    for task in tasks:
        family = family_as_typed(task, target.machine)
        if family is None:
            continue
        alone = compile_as(task.payload, default_alone(task, family, target.machine), target, worker)
        loop = judge_hot_loop(disassemble(alone.data, task.payload.entry), target)
        loops.append(task_loop(task.name, loop))
    return tuple(loops)


def task_loop(name: str, loop: HotLoop | None) -> TaskLoop:
    """Convert a hot loop to plain data."""
    if loop is None:
        return TaskLoop(name, "", "")
    cycles = loop.expected.cycles if loop.expected is not None else None
    return TaskLoop(name, str(loop.mix), loop.expectation, loop.mix.vector_bits, cycles, loop.mix.fmas)
