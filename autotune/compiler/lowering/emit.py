"""Emission: a program as an object file or LLVM IR that a C compiler can link."""

from dataclasses import dataclass
from typing import Literal

from mlir import ir
from mlir.dialects.llvm import translate_module_to_llvmir

from autotune.compiler.codegen.object_code import compile_object
from autotune.compiler.ir.module import context, symbol
from autotune.compiler.lowering.pipeline import run_pipeline
from autotune.compiler.lowering.rewrites import Unit, apply_schedule
from autotune.compiler.passes.panels import PanelWeight
from autotune.core.c_names import c_symbol
from autotune.core.candidate import Claim

C_INTERFACE = "llvm.emit_c_interface"


@dataclass(frozen=True)
class Emission:
    """A program, and what to make of it.

    Attributes:
        claim: The program.
        kind: ``object``, or ``llvm`` for LLVM IR.
    """

    claim: Claim
    kind: Literal["object", "llvm"]


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
    """Compile a program for this host; its entry is `c_symbol`'s, on memref descriptors.

    Raises:
        CompileError: The compiler refused the program; the error names the stage.
    """
    payload, candidate = wanted.claim.payload, wanted.claim.candidate
    with context():
        unit = Unit.open(payload, candidate.script, dict(candidate.panels), candidate.text, candidate.kernels)
        apply_schedule(unit)
        unit.function.attributes[C_INTERFACE] = ir.UnitAttr.get()
        run_pipeline(unit, candidate.pipeline)
        module = unit.module
        name_for_c(module, payload.entry)
        if wanted.kind == "llvm":
            return Emitted(translate_module_to_llvmir(module.operation).encode(), unit.weights)
        code = compile_object(module, payload.entry, parallel=unit.parallel, kernels=unit.kernels)
        return Emitted(code, unit.weights)


def name_for_c(module: ir.Module, entry: str) -> None:
    """Give the function that C calls a name that C can spell: MLIR's own may hold dots and dashes."""
    for op in module.body.operations:
        if symbol(op) == f"_mlir_ciface_{entry}":
            op.attributes["sym_name"] = ir.StringAttr.get(c_symbol(entry))
