"""The arena: intermediate buffers become views of one global buffer, so that a call allocates nothing.

The arena is a private, uninitialised `memref.global`. The compiled object only says how large it is (.bss), and the JIT
maps it once, so that no call pays for page faults. A function that may call itself keeps its allocations.
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
# A thread's number in its parallel loop, from 0 on, by the runtime that runs the loop. Every OpenMP runtime exports
# `omp_get_thread_num`, GCC's too, which PyTorch loads for the whole process, and which says 0 on threads not its own.
THREAD_NUMBER = "__kmpc_bound_thread_num"


@dataclass(frozen=True)
class ArenaSlot:
    """Where a buffer lies in the arena.

    Attributes:
        offset: Byte at which it begins; that of the first thread, where every thread has one.
        stride: Bytes from one thread's to the next; 0 where all threads share it.
    """

    offset: int
    stride: int = 0


@dataclass(frozen=True)
class FunctionPlan:
    """The arena of one function: its buffers, and a slot for each."""

    buffers: Sequence[Buffer]
    slots: Sequence[ArenaSlot]
    peak_bytes: int


def plan_arena(module: ir.Module, threads: int = 1) -> BufferPlan:
    """Replace the static allocations of a bufferized module by views of one arena, in place.

    Allocations that escape, or have no static shape, stay as they are. Every function gets a part of the arena of its
    own, since it may be called while another one runs; and every thread one for what a parallel loop's body allocates.

    Args:
        module: Bufferized module.
        threads: Threads that share the work of a parallel loop.

    Returns:
        Plan of the arena with the offset of every buffer; empty where there is none.
    """
    steps = {symbol(op): Steps.of(op.operation) for op in module.body.operations if op.operation.name == "func.func"}
    calls = {str(name): step.calls for name, step in steps.items()}
    plans = [plan_function(step, threads) for name, step in steps.items() if not may_call_itself(str(name), calls)]
    starts = accumulate((plan.peak_bytes for plan in plans), initial=0)
    found = [buffer for plan in plans for buffer in plan.buffers]
    slots = [
        replace(slot, offset=start + slot.offset)
        for start, plan in zip(starts, plans, strict=False)
        for slot in plan.slots
    ]
    whole = BufferPlan(
        buffers=tuple(buffer.lifetime for buffer in found),
        offsets=tuple(slot.offset for slot in slots),
        peak_bytes=sum(plan.peak_bytes for plan in plans),
        others=sum(step.makers + len(step.allocs) for step in steps.values()) - len(found),
    )
    if found:
        move_into_arena(module, found, slots, whole.peak_bytes)
    return whole


def check_room(size: int) -> None:
    """Refuse an arena that this machine cannot hold: LLVM ends the process that it cannot be mapped in.

    Raises:
        CompileError: Stage ``lower``; it is larger than the memory there is.
    """
    most = psutil.virtual_memory().total
    if size > most:
        raise CompileError(
            "lower",
            f"intermediate buffers must fit the memory of this machine, {most / 2**30:.3g} GiB, they take "
            f"{size / 2**30:.3g} GiB; choose smaller sizes",
        )


def plan_function(steps: Steps, threads: int) -> FunctionPlan:
    """Offsets for the buffers of one function.

    What the body of a parallel loop allocates is planned alone, and takes that much room for every thread while the
    loop runs: threads are at different steps of it.
    """
    buffers = find_buffers(steps)
    inside: dict[ir.Operation, list[Buffer]] = {}
    for buffer in buffers:
        if buffer.parallel is not None:
            inside.setdefault(buffer.parallel, []).append(buffer)
    plans = {loop: place([buffer.lifetime for buffer in mine]) for loop, mine in inside.items()}
    rooms = [Lifetime(threads * plan.peak_bytes, steps.numbers[loop], steps.last(loop)) for loop, plan in plans.items()]
    outside = place([*rooms, *(buffer.lifetime for buffer in buffers if buffer.parallel is None)])
    starts = dict(zip(plans, outside.offsets, strict=False))
    shared = iter(outside.offsets[len(rooms) :])
    own = {loop: iter(plan.offsets) for loop, plan in plans.items()}
    slots = [
        ArenaSlot(next(shared))
        if buffer.parallel is None
        else ArenaSlot(starts[buffer.parallel] + next(own[buffer.parallel]), plans[buffer.parallel].peak_bytes)
        for buffer in buffers
    ]
    return FunctionPlan(buffers, slots, outside.peak_bytes)


def move_into_arena(module: ir.Module, buffers: Sequence[Buffer], slots: Sequence[ArenaSlot], size: int) -> None:
    """Declare the arena of `size` bytes and replace every allocation by a view of it."""
    name = free_name(module, NAME)
    kind = ir.MemRefType.get([size], ir.IntegerType.get_signless(8))
    with ir.Location.unknown():
        with ir.InsertionPoint.at_block_begin(module.body):
            uninitialised = ir.UnitAttr.get()
            memref.global_(name, kind, sym_visibility="private", initial_value=uninitialised, alignment=ALIGNMENT)
            if any(slot.stride for slot in slots):
                number = ir.FunctionType.get([llvm.PointerType.get()], [ir.IntegerType.get_signless(32)])
                func.FuncOp(THREAD_NUMBER, number, visibility="private")
        for buffer, spot in zip(buffers, slots, strict=True):
            with ir.InsertionPoint(buffer.alloc):
                whole = memref.get_global(kind, name)
                view = memref.view(buffer.alloc.results[0].type, whole, start_of(spot), [])
            buffer.alloc.results[0].replace_all_uses_with(view)
            buffer.alloc.erase()


def start_of(spot: ArenaSlot) -> ir.Value:
    """The byte at which a buffer of this thread begins, at the insertion point."""
    if not spot.stride:
        return index(spot.offset)
    nowhere = llvm.mlir_zero(llvm.PointerType.get())  # of the source
    number = func.CallOp([ir.IntegerType.get_signless(32)], THREAD_NUMBER, [nowhere]).results[0]
    thread = arith.index_cast(ir.IndexType.get(), number)
    return arith.addi(index(spot.offset), arith.muli(thread, index(spot.stride)))


def may_call_itself(function: str, calls: Mapping[str, Set[str]]) -> bool:
    """Tell whether calls lead from a function back to it; a call of a function value may lead anywhere."""
    reached: set[str] = set()
    waiting = set(calls[function])
    while waiting - reached:
        name = (waiting - reached).pop()
        reached.add(name)
        waiting |= calls.get(name, set())
    return function in reached or "" in reached
