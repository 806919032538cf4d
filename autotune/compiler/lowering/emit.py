"""Emission: a program as an object file or LLVM IR that a C compiler can link."""

from dataclasses import dataclass
from typing import Literal

from mlir import ir
from mlir.dialects.llvm import translate_module_to_llvmir

from autotune.compiler.codegen.cross import compile_for
from autotune.compiler.codegen.this_target import this_target
from autotune.compiler.ir.module import context, symbol
from autotune.compiler.lowering.pipeline import run_pipeline
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.steps import apply_schedule
from autotune.compiler.passes.panels import PanelWeight
from autotune.core.c_names import c_symbol
from autotune.core.candidate import Claim
from autotune.core.target import Target

C_INTERFACE = "llvm.emit_c_interface"


@dataclass(frozen=True)
class Emission:
    """A program, and what to make of it.

    Attributes:
        claim: The program.
        kind: ``object``, or ``llvm`` for LLVM IR.
        target: Machine that it is for; by default this one.
    """

    claim: Claim
    kind: Literal["object", "llvm"]
    target: Target | None = None


@dataclass(frozen=True)
class Emitted:
    """What was made of a program.

    Attributes:
        data: Bytes of the file.
        weights: The arguments that the program takes after those of the payload.
    """

    data: bytes
    weights: tuple[PanelWeight, ...]


def emit_program(wanted: Emission) -> Emitted:
    """Compile a program, position-independent; all that it exports is `c_symbol`'s function, on memref descriptors.

    Raises:
        CompileError: The compiler refused the program; the error names the stage.
        MachineError: LLVM does not know the machine's processor.
    """
    payload, candidate = wanted.claim.payload, wanted.claim.candidate
    with context():
        unit = Unit.open(payload, candidate.script, dict(candidate.panels), candidate.text, candidate.kernels)
        apply_schedule(unit)
        unit.function.attributes[C_INTERFACE] = ir.UnitAttr.get()
        run_pipeline(unit, candidate.pipeline)
        name_for_c(unit.module, payload.entry)
        text = translate_module_to_llvmir(unit.module.operation)
        target = wanted.target or this_target()
        return Emitted(compile_for(target, text, wanted.kind, c_symbol(payload.entry)), unit.weights)


def name_for_c(module: ir.Module, entry: str) -> None:
    """Give the function that C calls a name that C can spell: MLIR's own may hold dots and dashes.

    The payload's own function stays apart from it, so that a disassembly shows it by its name.
    """
    for op in module.body.operations:
        if symbol(op) == entry:
            op.attributes["passthrough"] = ir.ArrayAttr.get([ir.StringAttr.get("noinline")])
        if symbol(op) == f"_mlir_ciface_{entry}":
            op.attributes["sym_name"] = ir.StringAttr.get(c_symbol(entry))
