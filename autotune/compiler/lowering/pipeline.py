"""Run pass pipelines from the output of a script to the LLVM dialect, with the rewrites that are part of them."""

from autotune.compiler.ir.module import run_passes
from autotune.compiler.ir.packs import lower_packs
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.steps import ARENA, REGIONS, rewrites_on, take_step
from autotune.compiler.passes.pipelines import FREE, HOIST, REGIONS_PASS, WITH_ARENA, plans_arena, tail, threads_of
from autotune.compiler.passes.rolled_loops import tell_llvm
from autotune.core.arena_plan import BufferPlan


def compilation(threads: int) -> str:
    """Return the pipeline and rewrites applied to all candidates: the part of a trial's identity besides its script."""
    return "\n".join((tail(threads), *rewrites_on(threads)))


def run_pipeline(unit: Unit, pipeline: str) -> BufferPlan | None:
    """Run a textual pass pipeline on a unit, in place; packs are lowered first if there is no script.

    If the pipeline begins with `ARENA_PASS` and no allocation is left after it, its deallocation passes are skipped:
    for a loop-carried buffer they would emit ownership flags that the conversion to LLVM aborts on.

    Returns:
        Arena plan; `None` if the pipeline does not begin with `ARENA_PASS`.

    Raises:
        CompileError: Stage ``lower``.
    """
    if unit.script is None:
        lower_packs(unit.module)
    begin_pipeline(unit, pipeline)
    if unit.buffers is not None:
        rest = pipeline.removeprefix(WITH_ARENA)
        if not unit.buffers.others:
            rest = rest.removeprefix(HOIST).removeprefix(FREE.removeprefix(HOIST))
        pipeline = "builtin.module(" + rest
    before, ours, after = pipeline.partition(f",{REGIONS_PASS},")
    run_passes(unit.module, f"{before})" if ours else pipeline)
    if ours:
        take_step(unit, REGIONS)
        run_passes(unit.module, f"builtin.module({after}")
    tell_llvm(unit.module)
    return unit.buffers


def begin_pipeline(unit: Unit, pipeline: str) -> None:
    """Apply the arena step, if a pipeline requests it, in place."""
    unit.threads, unit.plans_arena = threads_of(pipeline), plans_arena(pipeline)
    take_step(unit, ARENA)
