"""Place intermediate buffers in an arena, one global buffer, so that calls do not allocate.

The arena is a private, uninitialized `memref.global`. It is in .bss of the object file, and the JIT maps it once, so
that calls do not page-fault. Recursive functions keep their allocations.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import accumulate

import psutil
from mlir import ir
from mlir.dialects import arith, func, llvm, memref

from autotune.compiler.ir.module import free_name, symbol
from autotune.compiler.ir.values import index
from autotune.compiler.passes.lifetimes import Buffer, Steps, find_buffers
from autotune.core.arena_plan import ALIGNMENT, BufferPlan, Lifetime, place
from autotune.core.errors import CompileError

NAME = "__autotune_arena"
# The number of a thread in its parallel loop, from 0 on, by LLVM's runtime. `omp_get_thread_num` is exported by every
# OpenMP runtime, also by GCC's, which PyTorch loads into the process, and which returns 0 on other runtimes' threads.
THREAD_NUMBER = "__kmpc_bound_thread_num"


@dataclass(frozen=True)
class ArenaSlot:
    """Location of a buffer in the arena.

    Attributes:
        offset: Offset in bytes; that of the first thread if every thread has a buffer.
        stride: Bytes between the buffers of consecutive threads; 0 if all threads share one.
    """

    offset: int
    stride: int = 0


@dataclass(frozen=True)
class FunctionPlan:
    """Arena plan of one function: its buffers, and the slot of each."""

    buffers: Sequence[Buffer]
    slots: Sequence[ArenaSlot]
    peak_bytes: int


def plan_arena(module: ir.Module, threads: int = 1) -> BufferPlan:
    """Replace the static allocations of a bufferized module by views of one arena, in place.

    Allocations that escape, or have a dynamic shape, are left unchanged. Every function has a separate part of the
    arena, since it may be called by another one; and every thread has one for allocations in bodies of parallel loops.

    Args:
        module: Bufferized module.
        threads: Threads that run parallel loops.

    Returns:
        Plan of the arena with the offset of every buffer; empty if there are no buffers.
    """
    steps = {symbol(op): Steps.of(op.operation) for op in module.body.operations if op.operation.name == "func.func"}
    calls = {str(name): step.calls for name, step in steps.items()}
    plans = [plan_function(step, threads) for name, step in steps.items() if not may_call_itself(str(name), calls)]
    starts = accumulate((plan.peak_bytes for plan in plans), initial=0)
    buffers = [buffer for plan in plans for buffer in plan.buffers]
    slots = [
        replace(slot, offset=start + slot.offset)
        for start, plan in zip(starts, plans, strict=False)
        for slot in plan.slots
    ]
    plan_of_module = BufferPlan(
        buffers=tuple(buffer.lifetime for buffer in buffers),
        offsets=tuple(slot.offset for slot in slots),
        peak_bytes=sum(plan.peak_bytes for plan in plans),
        others=sum(step.makers + len(step.allocs) for step in steps.values()) - len(buffers),
    )
    if buffers:
        move_into_arena(module, buffers, slots, plan_of_module.peak_bytes)
    return plan_of_module


def check_room(size: int) -> None:
    """Check that the arena fits in memory: LLVM aborts the process if it cannot map it.

    Raises:
        CompileError: Stage ``lower``; the arena is larger than the memory of this machine.
    """
    most = psutil.virtual_memory().total
    if size > most:
        raise CompileError(
            "lower",
            f"intermediate buffers must fit the memory of this machine, {most / 2**30:.3g} GiB, they take "
            f"{size / 2**30:.3g} GiB; choose smaller sizes",
        )


def plan_function(steps: Steps, threads: int) -> FunctionPlan:
    """Assign offsets to the buffers of one function.

    Allocations in the body of a parallel loop are planned separately, and take their space once per thread for the
    whole duration of the loop, as threads are at different steps.
    """
    buffers = find_buffers(steps)
    inside: dict[ir.Operation, list[Buffer]] = {}
    for buffer in buffers:
        if buffer.parallel is not None:
            inside.setdefault(buffer.parallel, []).append(buffer)
    plans = {loop: place([buffer.lifetime for buffer in buffers_in_loop]) for loop, buffers_in_loop in inside.items()}
    areas = [Lifetime(threads * plan.peak_bytes, steps.numbers[loop], steps.last(loop)) for loop, plan in plans.items()]
    outside = place([*areas, *(buffer.lifetime for buffer in buffers if buffer.parallel is None)])
    starts = dict(zip(plans, outside.offsets, strict=False))
    shared = iter(outside.offsets[len(areas) :])
    inner = {loop: iter(plan.offsets) for loop, plan in plans.items()}
    slots = [
        ArenaSlot(next(shared))
        if buffer.parallel is None
        else ArenaSlot(starts[buffer.parallel] + next(inner[buffer.parallel]), plans[buffer.parallel].peak_bytes)
        for buffer in buffers
    ]
    return FunctionPlan(buffers, slots, outside.peak_bytes)


def move_into_arena(module: ir.Module, buffers: Sequence[Buffer], slots: Sequence[ArenaSlot], size: int) -> None:
    """Declare an arena of `size` bytes, and replace every allocation by a view of it."""
    name = free_name(module, NAME)
    arena_type = ir.MemRefType.get([size], ir.IntegerType.get_signless(8))
    with ir.Location.unknown():
        with ir.InsertionPoint.at_block_begin(module.body):
            uninitialised = ir.UnitAttr.get()
            memref.global_(name, arena_type, sym_visibility="private", initial_value=uninitialised, alignment=ALIGNMENT)
            if any(slot.stride for slot in slots):
                signature = ir.FunctionType.get([llvm.PointerType.get()], [ir.IntegerType.get_signless(32)])
                func.FuncOp(THREAD_NUMBER, signature, visibility="private")
        for buffer, spot in zip(buffers, slots, strict=True):
            with ir.InsertionPoint(buffer.alloc):
                arena = memref.get_global(arena_type, name)
                view = memref.view(buffer.alloc.results[0].type, arena, start_of(spot), [])
            buffer.alloc.results[0].replace_all_uses_with(view)
            buffer.alloc.erase()


def start_of(spot: ArenaSlot) -> ir.Value:
    """Build the offset of this thread's buffer, in bytes, at the insertion point."""
    if not spot.stride:
        return index(spot.offset)
    no_location = llvm.mlir_zero(llvm.PointerType.get())  # source location
    number = func.CallOp([ir.IntegerType.get_signless(32)], THREAD_NUMBER, [no_location]).results[0]
    thread = arith.index_cast(ir.IndexType.get(), number)
    return arith.addi(index(spot.offset), arith.muli(thread, index(spot.stride)))


def may_call_itself(function: str, calls: Mapping[str, Set[str]]) -> bool:
    """Return whether a function may be recursive, also indirectly; an indirect call may reach any function."""
    reached: set[str] = set()
    waiting = set(calls[function])
    while waiting - reached:
        name = (waiting - reached).pop()
        reached.add(name)
        waiting |= calls.get(name, set())
    return function in reached or "" in reached
