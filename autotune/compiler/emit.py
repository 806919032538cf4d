"""Emission: a program as an object file, LLVM IR or assembly that a C compiler can link."""

from dataclasses import dataclass
from pathlib import Path

from mlir import ir
from mlir.dialects.llvm import translate_module_to_llvmir
from mlir.execution_engine import ExecutionEngine

from autotune.compiler.lower import run_pipeline
from autotune.compiler.module import context, symbol
from autotune.compiler.passes.panels import PanelWeight
from autotune.compiler.program import runner_libraries
from autotune.compiler.rewrites import Unit, apply_schedule
from autotune.compiler.stages import disassemble
from autotune.core.c_names import c_symbol
from autotune.core.candidate import Claim
from autotune.core.errors import CompileError

KINDS = {"object": ".o", "llvm": ".ll", "asm": ".s"}
C_INTERFACE = "llvm.emit_c_interface"


@dataclass(frozen=True)
class Emission:
    """A program, and the kind and path of the file to write it to.

    Attributes:
        claim: The program.
        kind: One of `KINDS`.
        path: The file.
    """

    claim: Claim
    kind: str
    path: Path


def emit_program(wanted: Emission) -> tuple[PanelWeight, ...]:
    """Compile a program for this host and write it; its entry is `c_symbol`'s, on memref descriptors.

    Returns:
        The arguments it takes after those of the payload.

    Raises:
        CompileError: The compiler refused the program; the error names the stage.
        MachineError: There is no llvm-objdump.
    """
    payload, candidate = wanted.claim.payload, wanted.claim.candidate
    with context():
        unit = Unit.open(payload, candidate.script, dict(candidate.panels), candidate.text)
        apply_schedule(unit)
        unit.function.attributes[C_INTERFACE] = ir.UnitAttr.get()
        run_pipeline(unit, candidate.pipeline)
        module = unit.module
        name_for_c(module, payload.entry)
        if wanted.kind == "llvm":
            wanted.path.write_text(translate_module_to_llvmir(module.operation))
        elif wanted.kind == "asm":
            wanted.path.write_text(disassemble(module, payload.entry))
        else:
            write_object(module, payload.entry, wanted.path)
    return unit.weights


def name_for_c(module: ir.Module, entry: str) -> None:
    """Give the function that C calls a name that C can spell: MLIR's own may hold dots and dashes."""
    for op in module.body.operations:
        if symbol(op) == f"_mlir_ciface_{entry}":
            op.attributes["sym_name"] = ir.StringAttr.get(c_symbol(entry))


def write_object(module: ir.Module, entry: str, path: Path) -> None:
    """Compile a module in the LLVM dialect to an object file.

    Raises:
        CompileError: LLVM refuses it.
    """
    try:
        engine = ExecutionEngine(module, opt_level=3, shared_libs=runner_libraries())
        engine.raw_lookup(entry)
        engine.dump_to_object_file(str(path))
    except RuntimeError as error:
        raise CompileError("jit", str(error)) from error
