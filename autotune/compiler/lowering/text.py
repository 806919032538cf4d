"""Lowered programs: payloads in the LLVM dialect, as text that can be cached before LLVM compiles it."""

from dataclasses import dataclass

from autotune.compiler.ir.addresses import add_c_interface
from autotune.compiler.ir.module import check_module, context, parse
from autotune.compiler.lowering.part import Part
from autotune.compiler.lowering.pipeline import run_pipeline
from autotune.compiler.lowering.program import LOOP, CompiledProgram, add_call_loop, link
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.steps import apply_schedule
from autotune.compiler.panel_weight import PanelWeight
from autotune.core.candidate import Candidate
from autotune.core.payload import Payload
from autotune.core.plugs.external_kernel import ExternalKernel


@dataclass(frozen=True)
class LoweredProgram:
    """A program in the LLVM dialect.

    Attributes:
        text: Text of the module.
        weights: Arguments after those of the payload.
        threads: Threads that run its parallel loops; 1 if it has none.
        kernels: External kernels that it calls.
    """

    text: str
    weights: tuple[PanelWeight, ...] = ()
    threads: int = 1
    kernels: tuple[ExternalKernel, ...] = ()


def lower_program(payload: Payload, candidate: Candidate) -> LoweredProgram:
    """Compile a payload with a candidate down to the LLVM dialect.

    Raises:
        CompileError: The compiler refused the program; the error names the stage.
    """
    with context():
        unit = Unit.open(payload, candidate)
        apply_schedule(unit)
        check_module(unit.module)
        add_call_loop(unit.module, payload, unit.weights)
        run_pipeline(unit, candidate.pipeline)
        add_c_interface(unit.module, LOOP)
        return LoweredProgram(str(unit.module), unit.weights, unit.threads if unit.parallel else 1, unit.kernels)


def load_program(lowered: LoweredProgram) -> CompiledProgram:
    """Compile a lowered program to machine code in this process.

    Raises:
        CompileError: LLVM rejects the module.
    """
    with context(writes=False):
        module = parse(lowered.text, "a lowered program")
        engine, address = link(module, parallel=lowered.threads > 1, kernels=lowered.kernels)
    return CompiledProgram(engine, address, lowered.weights, None, {}, part=Part(), threads=lowered.threads)
