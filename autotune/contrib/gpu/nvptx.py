"""The NVIDIA backend: lower kernels to PTX and assemble them by ptxas. They are never run."""

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from math import gcd, prod
from pathlib import Path

from mlir import ir
from mlir.dialects.gpu import ObjectAttr

from autotune.compiler.codegen.llvm_library import find_file
from autotune.compiler.ir.module import context, every_op, parse, run_passes
from autotune.contrib.gpu.kernel import Kernel, width_of
from autotune.core.errors import CompileError, MachineError
from autotune.core.printable import first_lines

WHEEL, READER = "nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvdisasm"  # of ptxas, and of nvdisasm
WHEELS = ("nvidia.cuda_nvcc", "nvidia.cuda_nvdisasm", "nvidia.cu13")  # Python packages whose wheels contain the tools
PTX_VERSION = "+ptx87"  # first version that supports all of `device.CHIPS`; needs ptxas 12.8 or later
ALIGNMENT = 16  # of workgroup memory, in bytes; arguments from cuMemAlloc are aligned to more
VECTORS = (2, 4)  # lengths that one instruction loads if aligned
CUBIN = "kernel.cubin"
SECONDS = 120.0
USED = re.compile(r"Used (\d+) registers")
SPILLED = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True)
class Assembled:
    """Figures of ptxas for a kernel.

    Attributes:
        registers: Registers of a thread.
        spilled: Register spills of a thread: bytes of stores and of loads.
        version: Version of ptxas, which both figures depend on.
    """

    registers: int
    spilled: int
    version: str


def ptx_text(kernel: Kernel, chip: str) -> str:
    """Lower a kernel to PTX; its arguments are bare pointers, in its order.

    Raises:
        CompileError: Stage ``lower``: an operation cannot be lowered to PTX.
    """
    with context():
        module = parse(kernel.text, "kernel")
        name_workgroup_memory(module)
        state_alignment(module)
        leave_registers(module)
        target = f"cubin-chip={chip} cubin-features={PTX_VERSION} cubin-format=isa opt-level=3"
        pipeline = f"gpu-lower-to-nvvm-pipeline{{{target} kernel-bare-ptr-calling-convention=1}}"
        run_passes(module, f"builtin.module({pipeline})")
        (binary,) = [op for op in every_op(module) if op.name == "gpu.binary"]
        (gpu_object,) = ir.ArrayAttr(binary.attributes["objects"])
        return bytes(ObjectAttr(gpu_object).object).decode().rstrip("\0")


def name_workgroup_memory(module: ir.Module) -> None:
    """Replace allocations of workgroup memory by globals of the kernel's module, as NVVM requires."""
    ops = every_op(module)
    kernels = next(op for op in ops if op.name == "gpu.module")
    allocs = [op for op in ops if op.name == "memref.alloc"]
    for number, alloc in enumerate(allocs):
        memref_type, name = alloc.results[0].type, f"workgroup_{number}"
        declaration = f'memref.global "private" @{name} : {memref_type} {{alignment = {ALIGNMENT} : i64}}'
        ir.InsertionPoint.at_block_begin(kernels.regions[0].blocks[0]).insert(ir.Operation.parse(declaration))
        symbol = ir.FlatSymbolRefAttr.get(name)
        address = ir.Operation.create("memref.get_global", results=[memref_type], attributes={"name": symbol})
        ir.InsertionPoint(alloc).insert(address)
        alloc.results[0].replace_all_uses_with(address.results[0])
        alloc.erase()


def state_alignment(module: ir.Module) -> None:
    """Set the alignment of vector loads and stores where it is proved, so that each becomes one instruction."""
    for op in every_op(module):
        if op.name in ("vector.load", "vector.store"):
            is_store = op.name == "vector.store"
            operands = list(op.operands)
            memory, at = operands[1 if is_store else 0], operands[2 if is_store else 1 :]
            vector_type = ir.VectorType((operands[0] if is_store else op.results[0]).type)
            width = vector_type.shape[0]
            if width in VECTORS and multiple_of(at, list(ir.MemRefType(memory.type).shape)) % width == 0:
                number = ir.IntegerAttr.get(
                    ir.IntegerType.get_signless(64), width * width_of(vector_type.element_type) // 8
                )
                op.attributes["alignment"] = number


def leave_registers(module: ir.Module) -> None:
    """Request at least one block per multiprocessor only: ptxas would spill registers to reach a higher occupancy."""
    for op in every_op(module):
        if op.name == "gpu.func":
            op.attributes["nvvm.minctasm"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1)


def multiple_of(at: list[ir.Value], shape: list[int]) -> int:
    """Return a known divisor of an element's linear offset; 0 if the offset is 0."""
    strides = [prod(shape[number + 1 :]) for number in range(len(shape))]
    return gcd(*(factor(index) * stride for index, stride in zip(at, strides, strict=True)))


def factor(value: ir.Value) -> int:
    """Return a known divisor of an index value; 0 if the value is 0."""
    if isinstance(value, ir.BlockArgument):
        loop = value.owner.owner
        if loop.operation.name != "scf.for" or value.arg_number != 0:
            return 1
        return gcd(factor(loop.operands[0]), factor(loop.operands[2]))
    op = value.owner
    if op.name == "arith.constant":
        return abs(int(ir.IntegerAttr(op.attributes["value"]).value))
    if op.name in ("arith.addi", "arith.muli"):
        lhs, rhs = (factor(operand) for operand in op.operands)
        return lhs * rhs if op.name == "arith.muli" else gcd(lhs, rhs)
    return 1


@cache
def find_ptxas() -> str | None:
    """Return the path of ptxas, from a wheel or the system; `None` if it is not installed."""
    return find_tool("ptxas")


@cache
def find_tool(name: str) -> str | None:
    """Return the path of an NVIDIA tool, from a wheel or the system; `None` if it is not installed."""
    folders = WHEELS if find_spec("nvidia") is not None else ()
    paths = (find_file("bin", name, package=folder) for folder in folders if find_spec(folder) is not None)
    return next((str(path) for path in paths if path is not None), None) or shutil.which(name)


@cache
def version_of(tool: str) -> str:
    """Return the version of an NVIDIA tool, such as ``12.9``."""
    done = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False, timeout=SECONDS)
    release = re.search(r"release ([\d.]+)", done.stdout)
    return release[1] if release else "of unknown version"


def assemble(ptx: str, chip: str, ptxas: str) -> Assembled:
    """Assemble PTX for a chip.

    Args:
        ptx: Kernel as PTX.
        chip: Name of the chip, such as ``sm_90``.
        ptxas: Path of the assembler.

    Raises:
        CompileError: Stage ``jit``: ptxas rejects the kernel.
    """
    with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
        output = write_cubin(ptx, chip, ptxas, Path(folder))
    registers, spilled = USED.search(output), SPILLED.search(output)
    if registers is None or spilled is None:
        raise CompileError("jit", f"ptxas: {first_lines(output)}")
    return Assembled(int(registers[1]), int(spilled[1]) + int(spilled[2]), version_of(ptxas))


def write_cubin(ptx: str, chip: str, ptxas: str, folder: Path) -> str:
    """Assemble PTX to the file `CUBIN` of a folder, and return the output of ptxas.

    Raises:
        CompileError: Stage ``jit``: ptxas rejects the kernel.
    """
    path = folder / "kernel.ptx"
    path.write_text(ptx, encoding="utf-8")
    command = [ptxas, "-v", f"-arch={chip}", str(path), "-o", str(folder / CUBIN)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode != 0:
        raise CompileError("jit", f"ptxas: {first_lines(done.stderr + done.stdout)}")
    return done.stderr


def disassemble(ptx: str, chip: str) -> str:
    """Assemble PTX and return the disassembled machine code (SASS).

    Raises:
        CompileError: Stage ``jit``: ptxas or nvdisasm fails.
        MachineError: ptxas or nvdisasm is not installed.
    """
    ptxas, reader = find_ptxas(), find_tool("nvdisasm")
    if ptxas is None or reader is None:
        lacks, wheel = ("ptxas", WHEEL) if ptxas is None else ("nvdisasm", READER)
        raise MachineError(f"SASS is what {lacks} makes of PTX, it is not installed; pip install {wheel}")
    with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
        write_cubin(ptx, chip, ptxas, Path(folder))
        command = [reader, "--print-code", str(Path(folder) / CUBIN)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode != 0:
        raise CompileError("jit", f"nvdisasm: {first_lines(done.stderr + done.stdout)}")
    return done.stdout
