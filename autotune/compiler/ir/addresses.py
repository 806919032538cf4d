"""Buffers handed to functions as addresses alone, where types say all the rest; C hands over descriptors as before.

    @f(%x: memref<8x16xf32>)   ->   llvm.func @f(%x: !llvm.ptr)
                                    llvm.func @_mlir_ciface_f(%descriptor: !llvm.ptr) { call @f(load %descriptor[8]) }

MLIR makes 3 + 2 r arguments of a buffer of rank r. A model has hundreds of buffers, and LLVM's time grows with the
square of the arguments of a call.
"""

from mlir import ir

from autotune.compiler.ir.module import symbol
from autotune.compiler.ir.views import DYNAMIC, layout_of

BARE, C_INTERFACE = "llvm.bareptr", "llvm.emit_c_interface"  # as MLIR's conversion of functions reads them
C_NAME = "_mlir_ciface_"  # begin of the names of functions that C calls
FUNCTION = "llvm.func"
POINTER, ALIGNED = "!llvm.ptr", 8  # type of an address; byte of a descriptor where that of the first element stands


def take_addresses(function: ir.OpView) -> bool:
    """Let a function take addresses for buffers, in place, if all their layouts are static; gives whether it does.

    Args:
        function: A function in the func dialect, whose callers are all in its module.
    """
    kinds = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    if kinds.results or not all(map(has_static_layout, kinds.inputs)):
        return False
    function.attributes[BARE] = ir.UnitAttr.get()
    return True


def has_static_layout(kind: ir.Type) -> bool:
    """Tell whether a type is of no buffer, or of one whose sizes, strides and offset it says."""
    if isinstance(kind, ir.UnrankedMemRefType):
        return False
    if not isinstance(kind, ir.MemRefType):
        return True
    layout = layout_of(kind)
    return layout is not None and kind.has_static_shape and DYNAMIC not in (*layout[0], layout[1])


def ask_for_c_interface(function: ir.OpView) -> None:
    """Let C call a function of the func dialect by descriptors of buffers, once `add_c_interface` has been called."""
    if not take_addresses(function):
        function.attributes[C_INTERFACE] = ir.UnitAttr.get()


def add_c_interface(module: ir.Module, name: str) -> None:
    """Add what C calls of a function in the LLVM dialect that takes addresses; MLIR has done so for others.

    Args:
        module: A lowered module, for whose function `ask_for_c_interface` was called.
        name: The function; it has no results.
    """
    (function,) = [op for op in module.body.operations if symbol(op) == name]
    if BARE not in function.attributes or function.operation.name != FUNCTION:  # or a pipeline stops before
        return
    kinds = [str(argument.type) for argument in function.regions[0].blocks[0].arguments]
    loads, given = [], []
    for number, kind in enumerate(kinds):
        if kind == POINTER:
            loads.append(f"%p{number} = llvm.getelementptr %d{number}[{ALIGNED}] : ({POINTER}) -> {POINTER}, i8")
            loads.append(f"%a{number} = llvm.load %p{number} : {POINTER} -> {POINTER}")
        given.append(f"%{'a' if kind == POINTER else 'd'}{number}")
    signature = ", ".join(f"%d{number}: {kind}" for number, kind in enumerate(kinds))
    types = ", ".join(kinds)
    lines = "\n".join(loads)
    called, calling = (ir.FlatSymbolRefAttr.get(each) for each in (name, C_NAME + name))
    fresh = ir.Module.parse(f"""
        llvm.func {called}({types})
        llvm.func {calling}({signature}) {{
          {lines}
          llvm.call {called}({", ".join(given)}) : ({types}) -> ()
          llvm.return
        }}""")
    module.body.append(fresh.body.operations[1])
