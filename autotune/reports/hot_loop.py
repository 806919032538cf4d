"""The hot loop of a compiled program: its instructions, what llvm-mca expects of it, and what it takes when run."""

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
ROUNDED = 0.1  # error of a program that rounds: what it may be off is for its bundle to say


def find_hot_loop(payload: Payload, candidate: Candidate) -> HotLoop | None:
    """Compile a candidate and find its hot loop, by `machine_code.hot_loop`; `None` where there is no loop.

    Raises:
        CompileError: The candidate does not compile.
        MachineError: There is no llvm-objdump.
    """
    return judge_hot_loop(compile_to("code", payload, candidate).text)


def describe_hot_loop(payload: Payload, candidate: Candidate, machine: Machine) -> str:
    """The hot loop as text: what it consists of, its cycles as expected and as measured, and its instructions."""
    found = find_hot_loop(payload, candidate)
    if found is None:
        return f"# {payload.name} has no loop"
    head = [f"# hot loop of {payload.entry}, the innermost with most arithmetic; {found.loop.depth} loops around it"]
    head += [f"# {found.mix}", f"# {found.expectation}", measured_line(found, payload, candidate, machine)]
    return "\n".join([*head, "", *instruction_lines(found.loop)])


def measured_line(found: HotLoop, payload: Payload, candidate: Candidate, machine: Machine) -> str:
    """What an iteration takes when the program is run, if all its operations were in this loop.

    Cycles come from the share of the FMA roof that the program reaches: how many cycles the roof's own kernel takes is
    what llvm-mca says of it.
    """
    parts = partition(payload)
    flops = payload.flops or sum(task.needed_flops * task.count for task in parts.tasks)
    if not (flops and found.flops and len(parts.tasks) == 1):
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
    cycles = found.flops / (share * roof.flops / roof.expected.cycles)
    return (
        f"# measured: {cycles:.1f} cycles an iteration, if all operations were in it; "
        f"{run.samples.median * 1e3:.4g} ms a call, {share:.1%} of the FMA roof"
    )


def instruction_lines(loop: MachineLoop) -> Sequence[str]:
    """A line an instruction."""
    return [f"{i.address:8x}:  {i.mnemonic:<14} {i.operands}".rstrip() for i in loop.body]
