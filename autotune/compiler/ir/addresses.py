"""Bare-pointer calling convention for functions on memrefs of static layout; C still passes descriptors.

    @f(%x: memref<8x16xf32>)   ->   llvm.func @f(%x: !llvm.ptr)
                                    llvm.func @_mlir_ciface_f(%descriptor: !llvm.ptr) { call @f(load %descriptor[8]) }

By default, MLIR lowers a memref of rank r to 3 + 2 r arguments. A model has hundreds of buffers, and LLVM's compile
time grows with the square of the number of arguments of a call.
"""

from mlir import ir

from autotune.compiler.ir.module import symbol
from autotune.compiler.ir.views import DYNAMIC, layout_of

BARE, C_INTERFACE = "llvm.bareptr", "llvm.emit_c_interface"  # attributes that MLIR's func-to-llvm conversion reads
C_NAME = "_mlir_ciface_"  # prefix of the names of functions that C calls
FUNCTION = "llvm.func"
POINTER, ALIGNED = "!llvm.ptr", 8  # pointer type; byte offset of the aligned pointer in a memref descriptor


def take_addresses(function: ir.OpView) -> bool:
    """Pass memrefs to a function as bare pointers, in place, if all have a static layout; return whether they do.

    Args:
        function: Function of the func dialect; all its callers must be in the same module.
    """
    function_type = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    if function_type.results or not all(map(has_static_layout, function_type.inputs)):
        return False
    function.attributes[BARE] = ir.UnitAttr.get()
    return True


def has_static_layout(mlir_type: ir.Type) -> bool:
    """Return whether a type is not a memref, or a ranked memref of static sizes, strides and offset."""
    if isinstance(mlir_type, ir.UnrankedMemRefType):
        return False
    if not isinstance(mlir_type, ir.MemRefType):
        return True
    layout = layout_of(mlir_type)
    return layout is not None and mlir_type.has_static_shape and DYNAMIC not in (*layout[0], layout[1])


def ask_for_c_interface(function: ir.OpView) -> None:
    """Request a C interface for a function of the func dialect; `add_c_interface` completes it after lowering."""
    if not take_addresses(function):
        function.attributes[C_INTERFACE] = ir.UnitAttr.get()


def add_c_interface(module: ir.Module, name: str) -> None:
    """Add the C interface wrapper of a function that takes bare pointers; MLIR emits the wrapper of any other.

    Args:
        module: Module in the LLVM dialect, lowered after `ask_for_c_interface` was called for the function.
        name: Symbol name of the function; it has no results.
    """
    (function,) = [op for op in module.body.operations if symbol(op) == name]
    if BARE not in function.attributes or function.operation.name != FUNCTION:  # or a pipeline ends before LLVM
        return
    kinds = [str(argument.type) for argument in function.regions[0].blocks[0].arguments]
    loads, arguments = [], []
    for number, kind in enumerate(kinds):
        if kind == POINTER:
            loads.append(f"%p{number} = llvm.getelementptr %d{number}[{ALIGNED}] : ({POINTER}) -> {POINTER}, i8")
            loads.append(f"%a{number} = llvm.load %p{number} : {POINTER} -> {POINTER}")
        arguments.append(f"%{'a' if kind == POINTER else 'd'}{number}")
    signature = ", ".join(f"%d{number}: {kind}" for number, kind in enumerate(kinds))
    types = ", ".join(kinds)
    lines = "\n".join(loads)
    callee, wrapper = (ir.FlatSymbolRefAttr.get(each) for each in (name, C_NAME + name))
    fresh = ir.Module.parse(f"""
        llvm.func {callee}({types})
        llvm.func {wrapper}({signature}) {{
          {lines}
          llvm.call {callee}({", ".join(arguments)}) : ({types}) -> ()
          llvm.return
        }}""")
    module.body.append(fresh.body.operations[1])
