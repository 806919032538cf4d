"""Pass pipelines run, from what a script leaves to the LLVM dialect, and the rewrites of ours that stand in them."""

from autotune.compiler.ir.module import run_passes
from autotune.compiler.ir.packs import lower_packs
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.steps import ARENA, REGIONS, rewrites_on, take_step
from autotune.compiler.passes.pipelines import FREE, HOIST, REGIONS_PASS, WITH_ARENA, plans_arena, tail, threads_of
from autotune.compiler.passes.rolled_loops import tell_llvm
from autotune.core.arena_plan import BufferPlan


def compilation(threads: int) -> str:
    """Whatever decides, besides its script, which program a candidate becomes: part of every trial's identity."""
    return "\n".join((tail(threads), *rewrites_on(threads)))


def run_pipeline(unit: Unit, pipeline: str) -> BufferPlan | None:
    """Run a textual pass pipeline on a unit, in place; packs are lowered first where no script has bufferized it.

    Where it begins with `ARENA_PASS` and then nothing is left to free, its passes that free are skipped: for a buffer
    that a loop carries they would write flags that the conversion to LLVM aborts on.

    Returns:
        Plan of the arena that buffers lie in; `None` where the pipeline does not begin with `ARENA_PASS`.

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
    """Take the step of the arena, as far as a pipeline asks for it, in place."""
    unit.threads, unit.plans_arena = threads_of(pipeline), plans_arena(pipeline)
    take_step(unit, ARENA)
