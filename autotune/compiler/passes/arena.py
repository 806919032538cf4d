"""The arena: intermediate buffers become views of one global buffer, so that a call allocates nothing.

The arena is a private, uninitialised `memref.global`. The compiled object only says how large it is (.bss), and the JIT
maps it once, so that no call pays for page faults. A function that may call itself keeps its allocations.
"""

from collections.abc import Mapping, Sequence, Set
from itertools import accumulate

from mlir import ir
from mlir.dialects import memref

from autotune.compiler.module import symbol
from autotune.compiler.passes.lifetimes import Buffer, Steps, find_buffers
from autotune.compiler.values import index
from autotune.core.arena_plan import ALIGNMENT, BufferPlan, place

NAME = "__autotune_arena"


def plan_arena(module: ir.Module) -> BufferPlan:
    """Replace the static allocations of a bufferized module by views of one arena, in place.

    Allocations that escape, or have no static shape, stay as they are. Every function gets a part of the arena of its
    own, since it may be called while another one runs.

    Returns:
        Plan of the arena with the place of every buffer; empty where there is none.
    """
    steps = {symbol(op): Steps.of(op.operation) for op in module.body.operations if op.operation.name == "func.func"}
    calls = {str(name): step.calls for name, step in steps.items()}
    found = [find_buffers(step) for name, step in steps.items() if not may_call_itself(str(name), calls)]
    plans = [place([buffer.lifetime for buffer in buffers]) for buffers in found]
    starts = accumulate((plan.peak_bytes for plan in plans), initial=0)
    whole = BufferPlan(
        buffers=tuple(lifetime for plan in plans for lifetime in plan.buffers),
        offsets=tuple(start + offset for start, plan in zip(starts, plans, strict=False) for offset in plan.offsets),
        peak_bytes=sum(plan.peak_bytes for plan in plans),
        others=sum(step.makers + len(step.allocs) for step in steps.values()) - sum(map(len, found)),
    )
    if whole.buffers:
        move_into_arena(module, [buffer for buffers in found for buffer in buffers], whole)
    return whole


def move_into_arena(module: ir.Module, buffers: Sequence[Buffer], plan: BufferPlan) -> None:
    """Declare the arena and put a view of it in the place of every allocation."""
    name = free_name(module)
    kind = ir.MemRefType.get([plan.peak_bytes], ir.IntegerType.get_signless(8))
    with ir.Location.unknown():
        with ir.InsertionPoint.at_block_begin(module.body):
            uninitialised = ir.UnitAttr.get()
            memref.global_(name, kind, sym_visibility="private", initial_value=uninitialised, alignment=ALIGNMENT)
        for buffer, offset in zip(buffers, plan.offsets, strict=True):
            with ir.InsertionPoint(buffer.alloc):
                whole = memref.get_global(kind, name)
                start = index(offset)
                view = memref.view(buffer.alloc.results[0].type, whole, start, [])
            buffer.alloc.results[0].replace_all_uses_with(view)
            buffer.alloc.erase()


def free_name(module: ir.Module) -> str:
    """A name for the arena that nothing in the module has."""
    taken = {symbol(op) for op in module.body.operations}
    name = NAME
    while name in taken:
        name += "_"
    return name


def may_call_itself(function: str, calls: Mapping[str, Set[str]]) -> bool:
    """Tell whether calls lead from a function back to it; a call of a function value may lead anywhere."""
    reached: set[str] = set()
    waiting = set(calls[function])
    while waiting - reached:
        name = (waiting - reached).pop()
        reached.add(name)
        waiting |= calls.get(name, set())
    return function in reached or "" in reached
