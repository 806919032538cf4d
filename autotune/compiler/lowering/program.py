"""A compiled payload: machine code of this process that can be called on NumPy arrays."""

import ctypes
from collections.abc import Sequence

from mlir import ir
from mlir.execution_engine import ExecutionEngine
from mlir.runtime import get_ranked_memref_descriptor

from autotune.compiler.codegen.fingerprint import Fingerprints
from autotune.compiler.codegen.object_code import add_kernels
from autotune.compiler.codegen.object_code import object_code as object_of
from autotune.compiler.codegen.runner_libraries import runner_libraries
from autotune.compiler.ir.addresses import C_NAME, add_c_interface, ask_for_c_interface, take_addresses
from autotune.compiler.ir.module import check_module, context, describe, every_op, symbol
from autotune.compiler.lowering.part import Part, run_part
from autotune.compiler.lowering.pipeline import run_pipeline
from autotune.compiler.lowering.rewrites import Unit
from autotune.compiler.lowering.steps import apply_schedule
from autotune.compiler.panel_weight import PanelWeight
from autotune.compiler.passes.panels import form_named
from autotune.core.arena_plan import BufferPlan
from autotune.core.candidate import Candidate
from autotune.core.errors import CompileError
from autotune.core.host.stopwatch import Stopwatch
from autotune.core.payload import Array, Payload
from autotune.core.plugs.external_kernel import ExternalKernel
from autotune.core.printable import first_lines

LOOP = "__autotune_calls"
LOWERED = ("llvm.", "omp.", "builtin.module")
PACKED_ENTRY = f"_mlir_{C_NAME}{LOOP}"  # symbol in object code; takes an array of pointers to its arguments


class CompiledProgram:
    """Compiled entry function of a payload.

    Its intermediates are in one arena: two threads must not call the same program at once. Each needs its own program,
    as in `autotune.bundles.contexts`.

    Attributes:
        weights: Arguments after those of the payload.
        buffers: Arena plan of the intermediate buffers; `None` if the pipeline plans no arena.
        phases: Seconds spent on ``transform``, ``lower`` and ``jit``.
        threads: Threads that run its parallel loops; 1 if it has none.
        part: Properties of a truncated program.
        address: Address of the compiled loop over calls.
    """

    def __init__(
        self,
        engine: ExecutionEngine,
        address: int,
        weights: tuple[PanelWeight, ...],
        buffers: BufferPlan | None,
        phases: dict[str, float],
        *,
        part: Part,
        threads: int = 1,
    ) -> None:
        self._engine = engine  # owns the machine code
        self.weights = weights
        self.buffers = buffers
        self.address = address
        self._function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
        self.phases = phases
        self.threads = threads
        self.part = part

    def bind(self, arrays: Sequence[Array]) -> "BoundProgram":
        """Bind the arrays that calls read and write: in argument order, then those of `weights`."""
        return BoundProgram(self, self._function, arrays)

    def function(self, name: str) -> "ctypes._FuncPointer":
        """Return another function with a C interface; it takes an array of pointers to its arguments.

        Raises:
            CompileError: No function has that name.
        """
        if not (address := self._engine.raw_lookup(f"{C_NAME}{name}")):
            raise CompileError("jit", f"a program must have the function that is called, it has no {name}")
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)

    def object_code(self) -> bytes:
        """Return the object file, whose entry is `PACKED_ENTRY`; external kernels are not included."""
        return object_of(self._engine)


class BoundProgram:
    """A program with its arguments, as the packed C interface takes them: pointers to pointers to memref descriptors.

    Attributes:
        slots: Data pointers of the arguments, in order; who sets one must keep the memory that it points to alive.
        code: Address of the code that `run` calls.
        given: Address of its argument, the array of pointers.
    """

    def __init__(self, program: CompiledProgram, function: "ctypes._FuncPointer", arrays: Sequence[Array]) -> None:
        self.program = program
        self._function = function
        self._arrays = arrays
        descriptors = [get_ranked_memref_descriptor(array) for array in arrays]
        self.slots = tuple(ctypes.c_void_p.from_buffer(d, type(d).aligned.offset) for d in descriptors)
        self._pointers = [ctypes.pointer(ctypes.pointer(descriptor)) for descriptor in descriptors]
        self._calls = ctypes.c_int64(1)
        addresses = [ctypes.cast(pointer, ctypes.c_void_p).value for pointer in self._pointers]
        self._packed = (ctypes.c_void_p * (len(arrays) + 1))(*addresses, ctypes.addressof(self._calls))
        self.code, self.given = program.address, ctypes.addressof(self._packed)

    def run(self, calls: int = 1) -> None:
        """Call the entry function `calls` times in a compiled loop."""
        self._calls.value = calls
        self._function(self._packed)


def compile_program(
    payload: Payload,
    candidate: Candidate,
    *,
    fingerprints: Fingerprints | None = None,
    watch: Stopwatch | None = None,
    poisoned: bool = False,
    level: int = 3,
) -> CompiledProgram:
    """Compile a payload for this host.

    Args:
        payload: Payload to compile.
        candidate: Script and pipeline; a part of the program only without a script.
        fingerprints: Recorder of fingerprints.
        watch: Stopwatch for the phases; pass one to have the times of a failed compilation too.
        poisoned: Whether to fill intermediates of a part with NaN.
        level: LLVM's optimization level, from 0 to 3.

    Raises:
        CompileError: The compiler refused the program; the error names the stage.
        DuplicateError: The program has a known fingerprint.
    """
    watch, part_info, kernels = watch or Stopwatch(), Part(), candidate.kernels
    with context():
        unit = Unit.open(payload, candidate)
        for lacking in filter(None, (form_named(name).lacking for name in unit.forms.values())):
            raise CompileError("jit", lacking)
        if candidate.script is not None:
            with watch.phase("transform"):
                apply_schedule(unit)
                check_module(unit.module)
                if fingerprints is not None:
                    fingerprints.take_schedule(unit.module, kernels)
        add_call_loop(unit.module, payload, unit.weights)
        with watch.phase("lower"):
            if candidate.part > 1:
                part_info = run_part(unit.module, candidate.pipeline, candidate.part, whole=LOOP, poisoned=poisoned)
            else:
                run_pipeline(unit, candidate.pipeline)
            add_c_interface(unit.module, LOOP)
        with watch.phase("jit"):
            engine, address = link(unit.module, level=level, parallel=unit.parallel, kernels=kernels)
            if fingerprints is not None:
                fingerprints.take_code(engine, kernels)
    threads = unit.threads if unit.parallel else 1
    return CompiledProgram(engine, address, unit.weights, unit.buffers, watch.phases, threads=threads, part=part_info)


def link(
    module: ir.Module,
    *,
    entry: str = f"{C_NAME}{LOOP}",
    level: int = 3,
    parallel: bool = False,
    kernels: Sequence[ExternalKernel] = (),
) -> tuple[ExecutionEngine, int]:
    """Compile a module in the LLVM dialect; return its engine, and the address of one of its functions.

    Args:
        module: Module in the LLVM dialect.
        entry: Function, by default the loop over calls; it takes an array of pointers to its arguments.
        level: LLVM's optimization level, from 0 to 3.
        parallel: Whether the module calls an OpenMP runtime.
        kernels: External kernels that it calls.

    Raises:
        CompileError: LLVM rejects the module, or a symbol is unresolved.
    """
    try:
        engine = ExecutionEngine(module, opt_level=level, shared_libs=runner_libraries(parallel=parallel))
        add_kernels(engine, kernels)
        engine.initialize()
        address = engine.raw_lookup(entry)
    except (RuntimeError, ValueError, ir.MLIRError) as error:
        text = describe(error) if isinstance(error, ir.MLIRError) else str(error)
        rest = sorted({op.name for op in every_op(module) if not op.name.startswith(LOWERED)})
        fault = (
            f"every op must be lowered to LLVM, {', '.join(rest)} must yet; use other ops or types" if rest else text
        )
        raise CompileError("jit", first_lines(fault.lstrip(": "))) from error
    if not address:
        raise CompileError("jit", "every symbol must resolve, some did not; link the library that defines them")
    return engine, address


def add_call_loop(module: ir.Module, payload: Payload, weights: Sequence[PanelWeight] = ()) -> None:
    """Add a function that calls the entry n times, and keep the entry from being inlined into its loop.

    It has internal linkage, so that LLVM inlines it into its C interface wrapper and emits no other code for it.
    """
    arguments = [*payload.arguments, *(w.argument(payload.arguments[w.source]) for w in weights)]
    types = ", ".join(argument.type for argument in arguments)
    names = [f"%a{i}" for i in range(len(arguments))]
    signature = ", ".join(f"{n}: {a.type}" for n, a in zip(names, arguments, strict=True))
    entry = ir.FlatSymbolRefAttr.get(payload.entry)
    loop = ir.Module.parse(f"""
        func.func private {entry}({types})
        func.func @{LOOP}({signature}, %calls: index) attributes {{llvm.linkage = #llvm.linkage<internal>}} {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          scf.for %i = %c0 to %calls step %c1 {{
            func.call {entry}({", ".join(names)}) : ({types}) -> ()
          }}
          return
        }}""")
    for op in module.body.operations:
        if symbol(op) == payload.entry:
            op.attributes["passthrough"] = ir.ArrayAttr.get([ir.StringAttr.get("noinline")])
            take_addresses(op)
    module.body.append(call_loop := loop.body.operations[1])
    ask_for_c_interface(call_loop)
