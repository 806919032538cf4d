"""Triton, where it is installed, is loaded before MLIR: loaded after it, the LLVM that it brings ends the process.

PyTorch loads it with `torch._dynamo`. So whatever tests of both a process runs, and in whatever order, none dies of it.
"""

from contextlib import suppress
from importlib import import_module

with suppress(ImportError):
    import_module("triton")
