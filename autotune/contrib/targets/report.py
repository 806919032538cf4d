"""What a bundle's payload is on another machine: right or not under its emulator, and its loops by llvm-mca's model."""

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
    """The hot loop of a task, compiled alone.

    Attributes:
        task: Name of the task, for people.
        mix: What its instructions are; empty where it has no loop.
        expected: What llvm-mca expects of it, a sentence.
        vector_bits: Bits of the widest vectors that it computes with; 0 where it has no loop, or computes with none.
        cycles: Cycles an iteration by llvm-mca; `None` where it has no model.
        fmas: Multiply-adds an iteration.
    """

    task: str
    mix: str
    expected: str
    vector_bits: int = 0
    cycles: float | None = None
    fmas: int = 0


@dataclass(frozen=True)
class TargetReport:
    """All that is known of a payload on another machine, where nothing was measured.

    Attributes:
        target: The machine.
        check: Outcome under the emulator.
        loops: The hot loop of every task.
    """

    target: Target
    check: TargetCheck
    loops: tuple[TaskLoop, ...]

    @property
    def lines(self) -> list[str]:
        """Lines for people; those below the first begin with a blank."""
        check, target = self.check, self.target
        beside = error_beside(check.max_error, check.oracle, unproved=check.unproved)
        what = f"right, {beside}" if check.is_right else f"{check.outcome}: {check.diagnostic}"
        found = [f"{check.payload} for {target.name}: {what}, under {check.emulator}; nothing was measured"]
        found.append(f" {target.summary}")
        for loop in self.loops:
            found += [f" {loop.task}: {loop.mix or 'no loop'}", *([f" {loop.expected}"] if loop.expected else [])]
            if 0 < loop.vector_bits < target.machine.vector_bits:
                found.append(
                    f" note: vectors of {loop.vector_bits} bits, the machine's have {target.machine.vector_bits}"
                )
        return found

    def to_json(self) -> dict[str, Any]:
        """One plain object."""
        return asdict(self) | {"measured": False}


def judge_bundle(folder: Path, target: Target, named: Payload | None = None) -> TargetReport:
    """Compile a bundle's payload for a machine by its default configs, verify it, and judge its loops.

    Raises:
        BundleError: The bundle is refused.
        MachineError: An emulator, a C compiler or a tool is not installed, or LLVM does not know the machine.
        CompileError: The payload does not compile for that machine.
    """
    return judge_payload(read_bundle(folder, named).payload, target)


def judge_payload(payload: Payload, target: Target) -> TargetReport:
    """As `judge_bundle`, of any payload."""
    with Worker(MODEL_SECONDS) as worker:
        program = compile_default(payload, target, worker)
        check = verify_emulated(program, worker)
        return TargetReport(target, check, judge_loops(program, worker))


def judge_loops(program: TargetProgram, worker: Worker) -> tuple[TaskLoop, ...]:
    """The hot loop of every task of a program, each compiled alone by its default config."""
    target, tasks = program.target, partition(program.payload).tasks
    if len(tasks) == 1:
        name = tasks[0].name
        return (task_loop(name, judge_hot_loop(disassemble(program.data, program.payload.entry), target)),)
    found = []
    for task in tasks:
        family = family_as_typed(task, target.machine)
        if family is None:
            continue
        alone = compile_as(task.payload, default_alone(task, family, target.machine), target, worker)
        loop = judge_hot_loop(disassemble(alone.data, task.payload.entry), target)
        found.append(task_loop(task.name, loop))
    return tuple(found)


def task_loop(name: str, found: HotLoop | None) -> TaskLoop:
    """A hot loop as plain data."""
    if found is None:
        return TaskLoop(name, "", "")
    cycles = found.expected.cycles if found.expected is not None else None
    return TaskLoop(name, str(found.mix), found.expectation, found.mix.vector_bits, cycles, found.mix.fmas)
