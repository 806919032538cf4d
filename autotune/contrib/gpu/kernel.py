"""A script applied, down to the kernel that both endings share: one `gpu.func` of scalars and short vectors.

Refused here is what an ending would take without a word: memory of every thread's own where a block's is meant,
copies that every thread would make of all, more than one launch.
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
        text: The task as MLIR, its op tagged.
        script: The transform script.
        device: What the kernel is for.
        dropped: Numbers of barriers that are taken out again, from 0: how the check for races is itself checked.
    """

    text: str
    script: str
    device: Device
    dropped: tuple[int, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """A kernel before it is a device's.

    Attributes:
        text: Module of a `gpu.module` and its launch.
        name: Name of the kernel.
        block: Threads of a block along x, y and z.
        grid: Blocks along x, y and z.
        arguments: Numbers of the payload's arguments that it takes, in order of use.
        workgroup_bytes: Workgroup memory of a block.
        barriers: Number of barriers in its text.
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
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]


def make_kernel(source: KernelSource) -> Kernel:
    """Apply a script, and outline its kernel.

    Raises:
        CompileError: A stage refuses the script, or the kernel breaks a constraint of all devices or of this one.
    """
    with context():
        module, script = parse(source.text, "task"), parse(source.script, "schedule")
        run_script(module, script, source.script)
        check_module(module)
        outline(module)
        drop_barriers(module, source.dropped)
        return read_kernel(module, source.device)


def outline(module: ir.Module) -> None:
    """Make the launch of a function a kernel of scalars and short vectors, and drop barriers that order nothing."""
    run_passes(module, PLAIN)
    write_functions(module)
    run_passes(module, f"builtin.module({TIDY})")
    for launch in [op for op in every_op(module) if op.name == "gpu.launch"]:
        keep_in_registers(launch)
    run_passes(module, OUTLINE)


def drop_barriers(module: ir.Module, numbers: tuple[int, ...]) -> None:
    """Take some barriers out, by their numbers in the text."""
    barriers = [op for op in every_op(module) if op.name == "gpu.barrier"]
    for number in numbers:
        barriers[number].erase()


def read_kernel(module: ir.Module, device: Device) -> Kernel:
    """The kernel of a module, once it is checked.

    Raises:
        CompileError: Stage ``verify``, with the constraint that it breaks.
    """
    ops = every_op(module)
    launches = [op for op in ops if op.name == "gpu.launch_func"]
    if len(launches) != 1:
        refuse(f"a schedule must end in one kernel, it ends in {len(launches)}")
    kernel = next(op for op in ops if op.name == "gpu.func")
    name = str(ir.StringAttr(kernel.attributes["sym_name"]).value)
    block, grid = (axes_of(kernel, f"known_{what}_size") for what in ("block", "grid"))
    inside = every_op(kernel)
    shared = sum(buffer_bytes(op) for op in inside if op.name == "memref.alloc")
    made = Kernel(str(module), name, block, grid, arguments_of(launches[0]), shared, count(inside, "gpu.barrier"))
    check_outside(ops, len(inside), kernel)
    check_sizes(made, device)
    return made


def check_outside(ops: list[ir.Operation], inside: int, kernel: ir.Operation) -> None:
    """Refuse buffers and loops beside the kernel: the host would have to compute.

    Raises:
        CompileError: There are such.
    """
    host = [op.name for op in ops if op.name.split(".")[0] in ("memref", "scf", "linalg", "vector", "math")]
    own = [op.name for op in every_op(kernel) if op.name.split(".")[0] in ("memref", "scf", "linalg", "vector", "math")]
    if len(host) != len(own):
        refuse(f"a schedule must compute all in its kernel, {host[0]} stands outside of {inside} ops of it")
    if wrong := next((name for name in own if name in ("memref.copy", "memref.alloca", "linalg.generic")), None):
        refuse(f"threads of a block must share what there is to copy, {wrong} is done by every thread; map it")


def check_sizes(kernel: Kernel, device: Device) -> None:
    """Refuse what the device has no room for.

    Raises:
        CompileError: A block or the grid is too large.
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
    """Raise what a kernel does wrong.

    Raises:
        CompileError: Always.
    """
    raise CompileError("verify", sentence)


def axes_of(kernel: ir.Operation, name: str) -> tuple[int, int, int]:
    """Sizes along x, y and z that outlining left on a kernel."""
    x, y, z = ir.DenseI32ArrayAttr(kernel.attributes[name])
    return int(x), int(y), int(z)


def arguments_of(launch: ir.Operation) -> tuple[int, ...]:
    """Numbers of the payload's arguments that a kernel takes, in its order.

    Raises:
        CompileError: The kernel takes something else, too.
    """
    *_, own, _ = ir.DenseI32ArrayAttr(launch.attributes["operandSegmentSizes"])
    values = list(launch.operands)[-own:] if own else []
    if not all(isinstance(value, ir.BlockArgument) for value in values):
        refuse("a kernel must take arguments of its payload alone, it takes a temporary; keep it in the kernel")
    return tuple(int(ir.BlockArgument(value).arg_number) for value in values)


def buffer_bytes(alloc: ir.Operation) -> int:
    """Bytes of a buffer in a kernel, which a block shares.

    Raises:
        CompileError: Every thread would have its own.
    """
    kind = ir.MemRefType(alloc.results[0].type)
    if kind.memory_space is None or ir.IntegerAttr(kind.memory_space).value != WORKGROUP:
        refuse(f"buffers in a kernel must lie in workgroup memory, {kind} is every thread's own; stage it")
    elements = 1
    for size in kind.shape:
        elements *= size
    return elements * (width_of(kind.element_type) // 8)


def width_of(kind: ir.Type) -> int:
    """Bits of an element."""
    return int(ir.IntegerType(kind).width if isinstance(kind, ir.IntegerType) else ir.FloatType(kind).width)


def count(ops: list[ir.Operation], name: str) -> int:
    """Number of ops of a name."""
    return sum(op.name == name for op in ops)
