"""Lowering of a scheduled task to the kernel that both backends share: one `gpu.func` of scalars and short vectors.

This stage rejects what the backends would accept silently: private memory where workgroup memory is meant, copies that
every thread would make in full, more than one launch.
"""

from dataclasses import dataclass

from mlir import ir

from autotune.compiler.ir.module import check_module, context, every_op, parse, run_passes
from autotune.compiler.script.apply import run_script
from autotune.contrib.gpu.device import GRID, Device
from autotune.contrib.gpu.functions import write_functions
from autotune.contrib.gpu.registers import keep_in_registers
from autotune.contrib.gpu.script import WORKGROUP
from autotune.core.errors import CompileError

PLAIN = (
    "builtin.module(canonicalize,cse,func.func(convert-linalg-to-loops),fold-memref-alias-ops,lower-affine,"
    "canonicalize,cse,loop-invariant-code-motion)"
)
TIDY = "canonicalize,cse"
OUTLINE = (
    f"builtin.module({TIDY},func.func(gpu-eliminate-barriers),gpu-launch-sink-index-computations,"
    f"gpu-kernel-outlining,{TIDY})"
)


@dataclass(frozen=True)
class KernelSource:
    """A task and a script for it.

    Attributes:
        text: The task as MLIR, its operation tagged.
        script: The transform script.
        device: Target device.
        dropped: Indices of barriers to remove, from 0; tests of the race check use it.
    """

    text: str
    script: str
    device: Device
    dropped: tuple[int, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """A device-independent kernel.

    Attributes:
        text: MLIR module of the `gpu.module` and its launch.
        name: Name of the kernel function.
        block: Threads of a block along x, y and z.
        grid: Blocks of the grid along x, y and z.
        arguments: Indices of the payload's arguments that the kernel takes, in order of its parameters.
        workgroup_bytes: Workgroup memory of a block, in bytes.
        barriers: Number of barrier operations.
    """

    text: str
    name: str
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    arguments: tuple[int, ...]
    workgroup_bytes: int
    barriers: int

    @property
    def threads(self) -> int:
        """Number of threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        """Number of blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]


def make_kernel(source: KernelSource) -> Kernel:
    """Apply a transform script and outline the kernel.

    Raises:
        CompileError: A stage rejects the script, or the kernel violates a constraint of all devices or of this one.
    """
    with context():
        module, script = parse(source.text, "task"), parse(source.script, "schedule")
        run_script(module, script, source.script)
        check_module(module)
        outline(module)
        drop_barriers(module, source.dropped)
        return read_kernel(module, source.device)


def outline(module: ir.Module) -> None:
    """Lower the launch of a function to scalars and short vectors, remove redundant barriers and outline the kernel."""
    run_passes(module, PLAIN)
    write_functions(module)
    run_passes(module, f"builtin.module({TIDY})")
    for launch in [op for op in every_op(module) if op.name == "gpu.launch"]:
        keep_in_registers(launch)
    run_passes(module, OUTLINE)


def drop_barriers(module: ir.Module, numbers: tuple[int, ...]) -> None:
    """Erase barriers by their indices in the module."""
    barriers = [op for op in every_op(module) if op.name == "gpu.barrier"]
    for number in numbers:
        barriers[number].erase()


def read_kernel(module: ir.Module, device: Device) -> Kernel:
    """Check the outlined kernel of a module and return it.

    Raises:
        CompileError: Stage ``verify``, with the violated constraint.
    """
    ops = every_op(module)
    launches = [op for op in ops if op.name == "gpu.launch_func"]
    if len(launches) != 1:
        refuse(f"a schedule must end in one kernel, it ends in {len(launches)}")
    kernel = next(op for op in ops if op.name == "gpu.func")
    name = str(ir.StringAttr(kernel.attributes["sym_name"]).value)
    block, grid = (axes_of(kernel, f"known_{level}_size") for level in ("block", "grid"))
    inside = every_op(kernel)
    shared = sum(buffer_bytes(op) for op in inside if op.name == "memref.alloc")
    result = Kernel(str(module), name, block, grid, arguments_of(launches[0]), shared, count(inside, "gpu.barrier"))
    check_outside(ops, len(inside), kernel)
    check_sizes(result, device)
    return result


def check_outside(ops: list[ir.Operation], inside: int, kernel: ir.Operation) -> None:
    """Reject computation outside of the kernel, and operations that every thread would execute in full.

    Raises:
        CompileError: There is such an operation.
    """
    every = [op.name for op in ops if op.name.split(".")[0] in ("memref", "scf", "linalg", "vector", "math")]
    own = [op.name for op in every_op(kernel) if op.name.split(".")[0] in ("memref", "scf", "linalg", "vector", "math")]
    if len(every) != len(own):
        refuse(f"a schedule must compute all in its kernel, {every[0]} stands outside of {inside} ops of it")
    if wrong := next((name for name in own if name in ("memref.copy", "memref.alloca", "linalg.generic")), None):
        refuse(f"threads of a block must share what there is to copy, {wrong} is done by every thread; map it")


def check_sizes(kernel: Kernel, device: Device) -> None:
    """Reject a kernel that exceeds the limits of the device.

    Raises:
        CompileError: A block, its workgroup memory or the grid is too large.
    """
    if kernel.threads > device.threads:
        refuse(f"a block must have at most {device.threads} threads, it has {kernel.threads}; choose larger tiles")
    if kernel.workgroup_bytes > device.workgroup_bytes:
        refuse(
            f"workgroup memory must be at most {device.workgroup_bytes} bytes, a block needs {kernel.workgroup_bytes}; "
            "choose smaller blocks"
        )
    if max(kernel.grid) > GRID:
        refuse(f"a grid must have at most {GRID} blocks along an axis, it has {max(kernel.grid)}; choose larger blocks")


def refuse(sentence: str) -> None:
    """Raise a `CompileError` of stage ``verify``.

    Raises:
        CompileError: Always.
    """
    raise CompileError("verify", sentence)


def axes_of(kernel: ir.Operation, name: str) -> tuple[int, int, int]:
    """Return the sizes along x, y and z that outlining recorded in an attribute of the kernel."""
    x, y, z = ir.DenseI32ArrayAttr(kernel.attributes[name])
    return int(x), int(y), int(z)


def arguments_of(launch: ir.Operation) -> tuple[int, ...]:
    """Return the indices of the payload's arguments that a launch passes, in order.

    Raises:
        CompileError: The kernel takes an operand that is no argument of the payload.
    """
    *_, own, _ = ir.DenseI32ArrayAttr(launch.attributes["operandSegmentSizes"])
    values = list(launch.operands)[-own:] if own else []
    if not all(isinstance(value, ir.BlockArgument) for value in values):
        refuse("a kernel must take arguments of its payload alone, it takes a temporary; keep it in the kernel")
    return tuple(int(ir.BlockArgument(value).arg_number) for value in values)


def buffer_bytes(alloc: ir.Operation) -> int:
    """Return the size in bytes of a workgroup buffer.

    Raises:
        CompileError: The buffer is private to each thread.
    """
    memref_type = ir.MemRefType(alloc.results[0].type)
    if memref_type.memory_space is None or ir.IntegerAttr(memref_type.memory_space).value != WORKGROUP:
        refuse(f"buffers in a kernel must lie in workgroup memory, {memref_type} is every thread's own; stage it")
    elements = 1
    for size in memref_type.shape:
        elements *= size
    return elements * (width_of(memref_type.element_type) // 8)


def width_of(mlir_type: ir.Type) -> int:
    """Return the width of an element type, in bits."""
    return int(
        ir.IntegerType(mlir_type).width if isinstance(mlir_type, ir.IntegerType) else ir.FloatType(mlir_type).width
    )


def count(ops: list[ir.Operation], name: str) -> int:
    """Return the number of operations of a name."""
    return sum(op.name == name for op in ops)
