"""Functions take addresses of buffers where types say all the rest, and C hands over descriptors all the same."""

import ctypes

import numpy as np
import pytest
from mlir import ir
from mlir.execution_engine import ExecutionEngine
from mlir.runtime import get_ranked_memref_descriptor

from autotune.compiler.ir.addresses import BARE, C_INTERFACE, add_c_interface, ask_for_c_interface, take_addresses
from autotune.compiler.ir.module import context, find_function, parse, run_passes
from autotune.compiler.passes.pipelines import TAIL, WITH_ARENA

TO_LLVM = f"builtin.module({TAIL.removeprefix(WITH_ARENA)}"
ADD = """
func.func @NAME(%x: TYPE, %y: memref<4x6xf32>, %n: index) {
  %rows = arith.constant 4 : index
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  scf.for %i = %zero to %rows step %one {
    %a = memref.load %x[%i, %n] : TYPE
    memref.store %a, %y[%i, %zero] : memref<4x6xf32>
  }
  return
}
"""
LAYOUTS = {
    "memref<4x6xf32>": True,
    "memref<4x6xf32, strided<[8, 1]>>": True,
    "memref<4x6xf32, strided<[1, 4], offset: 3>>": True,
    "memref<?x6xf32>": False,
    "memref<4x6xf32, strided<[?, 1]>>": False,
    "memref<4x6xf32, strided<[8, 1], offset: ?>>": False,
}


@pytest.mark.parametrize(("kind", "is_static"), LAYOUTS.items())
def test_a_function_takes_addresses_if_every_layout_is_static(kind, is_static):
    with context():
        module = parse(ADD.replace("TYPE", kind).replace("NAME", "f"), "f")
        function = find_function(module, "f")
        assert take_addresses(function) == is_static
        assert (BARE in function.attributes) == is_static
        ask_for_c_interface(function)
        assert (C_INTERFACE in function.attributes) != is_static


@pytest.mark.parametrize("kind", [kind for kind in LAYOUTS if "offset: 3" not in kind])
@pytest.mark.parametrize("name", ["f", "my.entry-1$"])
def test_c_hands_over_descriptors_and_numbers(kind, name):
    x, y = np.arange(24, dtype="f4").reshape(4, 6), np.zeros((4, 6), "f4")
    if "[8, 1]" in kind:
        x = np.pad(x, [(0, 0), (0, 2)])[:, :6]
    with context():
        module = parse(ADD.replace("TYPE", kind).replace("@NAME", str(ir.FlatSymbolRefAttr.get(name))), "f")
        ask_for_c_interface(find_function(module, name))
        run_passes(module, TO_LLVM)
        add_c_interface(module, name)
        module.operation.verify()
        engine = ExecutionEngine(module)
        engine.initialize()
        given = [ctypes.pointer(ctypes.pointer(get_ranked_memref_descriptor(each))) for each in (x, y)]
        engine.invoke(name, *given, ctypes.pointer(ctypes.c_int64(5)))
    np.testing.assert_array_equal(y[:, 0], x[:, 5])
    assert not y[:, 1:].any()


def test_a_model_calls_its_entry_with_an_address_for_each_buffer():
    with context():
        module = parse(ADD.replace("TYPE", "memref<4x6xf32>").replace("NAME", "f"), "f")
        ask_for_c_interface(find_function(module, "f"))
        run_passes(module, TO_LLVM)
        add_c_interface(module, "f")
        text = str(module)
    assert text.count("llvm.func") == 2
    assert "llvm.func @f(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: i64)" in text
    assert "llvm.call @f(" in text


def test_what_is_not_lowered_gets_no_interface():
    with context():
        module = parse(ADD.replace("TYPE", "memref<4x6xf32>").replace("NAME", "f"), "f")
        ask_for_c_interface(find_function(module, "f"))
        before = str(module)
        add_c_interface(module, "f")
        assert str(module) == before
