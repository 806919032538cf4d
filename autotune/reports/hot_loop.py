"""Hot loop of a compiled program: its instructions, the cycles predicted by llvm-mca, and the measured cycles."""

from collections.abc import Sequence
from dataclasses import replace

from autotune.compiler.codegen.loop_model import HotLoop, judge_hot_loop
from autotune.compiler.codegen.machine_code import MachineLoop
from autotune.compiler.passes.pipelines import TAIL
from autotune.core.candidate import Candidate
from autotune.core.evaluator import Effort, Job
from autotune.core.host.machine import Machine
from autotune.core.payload import Payload
from autotune.core.scripts.assembly import precisions_in
from autotune.tuning.stages.roofline import share_of_roof
from autotune.worker.bench.kernels import fma_payload
from autotune.worker.bench.roofs import CHAINS, STEPS
from autotune.worker.loading.reading import compile_to, partition, script_text
from autotune.worker.worker import Worker

EFFORT = Effort(samples=15, seconds=1.0)
ROUNDED = 0.1  # allowed error of a program that rounds, whose accuracy is checked elsewhere


def find_hot_loop(payload: Payload, candidate: Candidate) -> HotLoop | None:
    """Compile a candidate and find its hot loop with `machine_code.hot_loop`; return `None` if there is no loop.

    Raises:
        CompileError: The candidate does not compile.
        MachineError: llvm-objdump is not installed.
    """
    return judge_hot_loop(compile_to("code", payload, candidate).text)


def describe_hot_loop(payload: Payload, candidate: Candidate, machine: Machine) -> str:
    """Describe the hot loop: its instruction mix, predicted and measured cycles, and its instructions."""
    hot_loop = find_hot_loop(payload, candidate)
    if hot_loop is None:
        return f"# {payload.name} has no loop"
    head = [f"# hot loop of {payload.entry}, the innermost with most arithmetic; {hot_loop.loop.depth} loops around it"]
    head += [f"# {hot_loop.mix}", f"# {hot_loop.expectation}", measured_line(hot_loop, payload, candidate, machine)]
    return "\n".join([*head, "", *instruction_lines(hot_loop.loop)])


def measured_line(loop: HotLoop, payload: Payload, candidate: Candidate, machine: Machine) -> str:
    """Return the line on the measured cycles per iteration, assuming that all operations are in this loop.

    Cycles are derived from the share of the FMA roof that the program reaches, given llvm-mca's cycles for the kernel
    that measures the roof.
    """
    parts = partition(payload)
    flops = payload.flops or sum(task.needed_flops * task.count for task in parts.tasks)
    if not (flops and loop.flops and len(parts.tasks) == 1):
        return "# measured: only where one contraction is all there is; choose one with --task"
    roof = find_hot_loop(fma_payload(machine.lanes, CHAINS[0], STEPS), Candidate(None, TAIL))
    if roof is None or roof.expected is None or not roof.flops:
        return "# measured: needs llvm-mca's cycles of the roof's kernel to compare with"
    if precisions_in(script_text(candidate.script)):
        payload = replace(payload, error=ROUNDED)
    with Worker(threads=machine.threads) as worker:
        (run,) = worker.evaluate(Job(payload, (candidate,), machine, effort=EFFORT))
    if run.samples is None:
        return f"# measured: {run.outcome}: {run.diagnostic}"
    share = share_of_roof(flops, run.samples, machine)
    cycles = loop.flops / (share * roof.flops / roof.expected.cycles)
    return (
        f"# measured: {cycles:.1f} cycles an iteration, if all operations were in it; "
        f"{run.samples.median * 1e3:.4g} ms a call, {share:.1%} of the FMA roof"
    )


def instruction_lines(loop: MachineLoop) -> Sequence[str]:
    """Return one line per instruction of a loop."""
    return [f"{i.address:8x}:  {i.mnemonic:<14} {i.operands}".rstrip() for i in loop.body]
