"""Emit a program as an object file or LLVM IR that a C compiler can link."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from mlir import ir
from mlir.dialects.llvm import translate_module_to_llvmir

from autotune.compiler.codegen.cross import compile_for
from autotune.compiler.codegen.this_target import this_target
from autotune.compiler.ir.addresses import C_NAME, add_c_interface, ask_for_c_interface
from autotune.compiler.ir.module import context, every_op, symbol
from autotune.compiler.lowering.arena_argument import pass_arena
from autotune.compiler.lowering.pipeline import run_pipeline
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.steps import apply_schedule
from autotune.compiler.panel_weight import PanelWeight
from autotune.core.arena_plan import BufferPlan
from autotune.core.c_names import c_symbol
from autotune.core.candidate import Claim
from autotune.core.host.matrix_unit import ARCH_PRCTL, REQUEST, TILE_DATA
from autotune.core.target import Target

ASK = "__autotune_ask_for_tiles"
VARIABLE = re.compile(r"^(@\S+ = (?:private |internal )?)global ", re.MULTILINE)  # in LLVM IR
TILE_PRODUCTS = "llvm.x86.tdp"
INTRINSIC = re.compile(r"@llvm\.((?:x86|aarch64)\.[\w.]+)")  # in LLVM IR, which the bindings return only as text


@dataclass(frozen=True)
class Emission:
    """Request to emit a program.

    Attributes:
        claim: Program to emit.
        kind: ``object``, or ``llvm`` for LLVM IR.
        target: Target machine; by default this one.
        symbol: Exported symbol of a function that takes an arena after its memref descriptors; if empty, `c_symbol`'s,
            which owns its arena.
        needed: Pairs of a prefix of LLVM intrinsics, and the processor feature that programs calling one need.
        setter: Name in the module of another function to export; see `setter_symbol`.
    """

    claim: Claim
    kind: Literal["object", "llvm"]
    target: Target | None = None
    symbol: str = ""
    needed: tuple[tuple[str, str], ...] = ()
    setter: str = ""


@dataclass(frozen=True)
class Emitted:
    """An emitted program.

    Attributes:
        data: Contents of the file.
        weights: Arguments after those of the payload.
        arena_bytes: Size of the arena.
        allocations: Number of ops that allocate memory in every call.
        threads: Threads that run its parallel loops; 1 if it has none.
        intrinsics: Target-specific LLVM intrinsics that it calls, such as ``x86.avx512.vpdpbusd.512``.
        cpu: Target processor, as LLVM names it.
        features: Processor features that the code may use, as LLVM names them, sorted.
    """

    data: bytes
    weights: tuple[PanelWeight, ...]
    arena_bytes: int = 0
    allocations: int = 0
    threads: int = 1
    intrinsics: tuple[str, ...] = ()
    cpu: str = ""
    features: tuple[str, ...] = ()


def emit_program(wanted: Emission) -> Emitted:
    """Compile a program to position-independent code that exports one function, and its setter if there is one.

    Raises:
        CompileError: The compiler refused the program; the error names the stage.
        MachineError: LLVM does not know the machine's processor.
    """
    payload, candidate = wanted.claim.payload, wanted.claim.candidate
    with context():
        unit = Unit.open(payload, candidate)
        target = wanted.target or this_target()
        unit.matrix_unit = target.has_tiles
        apply_schedule(unit)
        ask_for_c_interface(unit.function)
        run_pipeline(unit, candidate.pipeline)
        add_c_interface(unit.module, payload.entry)
        exported = wanted.symbol or c_symbol(payload.entry)
        name_for_c(unit.module, payload.entry, exported)
        if wanted.symbol:
            pass_arena(unit.module, exported)
        setters = [setter_symbol(exported)] if wanted.setter else []
        for name in setters:
            name_for_c(unit.module, wanted.setter, name)
        if unit.matrix_unit and multiplies_tiles(unit.module):
            ask_when_loaded(unit.module)
        text = translate_module_to_llvmir(unit.module.operation)
    if wanted.symbol:
        text = VARIABLE.sub(r"\1thread_local(initialexec) global ", text)
    plan = unit.buffers or BufferPlan()
    intrinsics = tuple(sorted(set(INTRINSIC.findall(text))))
    extra_features = [f"+{feature}" for feature in features_needed(intrinsics, wanted.needed)]
    target = replace(target, features=",".join(filter(None, [target.features, *extra_features])))
    return Emitted(
        compile_for(target, text, wanted.kind, exported, *setters),
        unit.weights,
        plan.peak_bytes,
        plan.others,
        unit.threads if unit.parallel else 1,
        intrinsics,
        target.cpu,
        tuple(sorted({name[1:] for name in target.attributes.split(",") if name.startswith("+")})),
    )


def features_needed(intrinsics: Iterable[str], needed: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the processor features that intrinsics need, sorted; `needed` is as in `Emission`."""
    pairs = tuple(needed)
    return tuple(sorted({feature for name in intrinsics for prefix, feature in pairs if name.startswith(prefix)}))


def setter_symbol(exported: str) -> str:
    """Return the symbol of a program's setter."""
    return f"{exported}_set"


def multiplies_tiles(module: ir.Module) -> bool:
    """Return whether a lowered module uses instructions of a matrix unit."""
    calls = (op for op in every_op(module) if op.name == "llvm.call_intrinsic")
    return any(ir.StringAttr(op.attributes["intrin"]).value.startswith(TILE_PRODUCTS) for op in calls)


def ask_when_loaded(module: ir.Module) -> None:
    """Add a constructor that requests the AMX registers from Linux when the object is loaded, so callers need not."""
    clobbered = "={rax},{rax},{rdi},{rsi},~{rcx},~{r11},~{memory}"
    constructor = ir.Module.parse(f"""
        llvm.func internal @{ASK}() {{
          %call = llvm.mlir.constant({ARCH_PRCTL} : i64) : i64
          %wish = llvm.mlir.constant({REQUEST} : i64) : i64
          %tiles = llvm.mlir.constant({TILE_DATA} : i64) : i64
          %refused = llvm.inline_asm has_side_effects "syscall", "{clobbered}" %call, %wish, %tiles
            : (i64, i64, i64) -> i64
          llvm.return
        }}
        llvm.mlir.global internal constant @{ASK}_entry() {{section = ".init_array"}} : !llvm.ptr {{
          %asking = llvm.mlir.addressof @{ASK} : !llvm.ptr
          llvm.return %asking : !llvm.ptr
        }}
        llvm.mlir.global appending @llvm.used() {{section = "llvm.metadata"}} : !llvm.array<1 x ptr> {{
          %none = llvm.mlir.undef : !llvm.array<1 x ptr>
          %entry = llvm.mlir.addressof @{ASK}_entry : !llvm.ptr
          %used = llvm.insertvalue %entry, %none[0] : !llvm.array<1 x ptr>
          llvm.return %used : !llvm.array<1 x ptr>
        }}""")
    for op in list(constructor.body.operations):
        module.body.append(op)


def name_for_c(module: ir.Module, entry: str, name: str) -> None:
    """Rename the C interface wrapper to a valid C identifier: MLIR symbols may contain dots and dashes.

    The entry function itself is not inlined into it, so that a disassembly shows it by its name.
    """
    for op in module.body.operations:
        if symbol(op) == entry:
            op.attributes["passthrough"] = ir.ArrayAttr.get([ir.StringAttr.get("noinline")])
        if symbol(op) == f"{C_NAME}{entry}":
            op.attributes["sym_name"] = ir.StringAttr.get(name)
