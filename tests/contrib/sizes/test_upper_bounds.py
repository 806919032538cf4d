"""Programs whose loops end where a request does: which ones can, and that they read nothing that was not computed."""

import numpy as np
import pytest
from mlir import ir
from sizes_support import CLOSE, LONGEST, WIDTH, in_numpy, shortened_heads

from autotune.compiler.ir.module import context, find_function, parse
from autotune.contrib.sizes.calls import AnySize, prepare
from autotune.contrib.sizes.upper_bounds import OpenLoops, end_at_size, marked
from autotune.core.errors import CompileError

HEAD = """func.func @f(%x: memref<32xf32>, %y: memref<32xf32>, %s: memref<1xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %t = memref.alloc() : memref<32xf32>
  %b = memref.alloc() : memref<4x8xf32>
"""
COPY = """  scf.for %i = %c0 to %c32 step %c8 {
    scf.for %j = %c0 to %c8 step %c1 {
      %p = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%i, %j)
      %v = memref.load %x[%p] : memref<32xf32>
      memref.store %v, %t[%p] : memref<32xf32>
    }
  }
"""
READS = {  # what reads the copy: why it cannot be shortened, or what sizes must be multiples of
    "element by element": (
        """  scf.for %i = %c0 to %c32 step %c1 {
    %v = memref.load %t[%i] : memref<32xf32>
    memref.store %v, %y[%i] : memref<32xf32>
  }""",
        1,
    ),
    "a sum": (
        """  scf.for %i = %c0 to %c32 step %c4 {
    %v = vector.load %t[%i] : memref<32xf32>, vector<4xf32>
    %old = memref.load %s[%c0] : memref<1xf32>
    %new = vector.reduction <add>, %v, %old : vector<4xf32> into f32
    memref.store %new, %s[%c0] : memref<1xf32>
  }""",
        4,
    ),
    "in blocks": (
        """  scf.for %i = %c0 to %c32 step %c8 {
    %k = affine.apply affine_map<(d0) -> (d0 floordiv 8)>(%i)
    %v = vector.load %t[%i] : memref<32xf32>, vector<8xf32>
    vector.store %v, %b[%k, %c0] : memref<4x8xf32>, vector<8xf32>
  }
  scf.for %i = %c0 to %c32 step %c8 {
    %k = affine.apply affine_map<(d0) -> (d0 floordiv 8)>(%i)
    %v = vector.load %b[%k, %c0] : memref<4x8xf32>, vector<8xf32>
    vector.store %v, %y[%i] : memref<32xf32>, vector<8xf32>
  }""",
        8,
    ),
    "the one behind": (
        """  scf.for %i = %c0 to %c32 step %c1 {
    %p = affine.apply affine_map<(d0) -> (d0 + 1)>(%i)
    %w = memref.load %t[%i] : memref<32xf32>
    %v = memref.load %t[%p] : memref<32xf32>
    memref.store %v, %y[%i] : memref<32xf32>
  }""",
        "memref.load reads more of memref<32xf32>",
    ),
    "the last one": (
        """  %v = memref.load %t[%c8] : memref<32xf32>
  memref.store %v, %s[%c0] : memref<1xf32>""",
        "memref.load reads more of memref<32xf32>",
    ),
    "all of it": (
        "  memref.copy %t, %y : memref<32xf32> to memref<32xf32>",
        "memref.copy reads more of memref<32xf32>",
    ),
    "a view of other numbers": (
        "  %r = memref.reinterpret_cast %t to offset: [0], sizes: [8], strides: [1] : memref<32xf32> to memref<8xf32>",
        "memref.reinterpret_cast reads more",
    ),
    "to places in another order": (
        """  scf.for %i = %c0 to %c32 step %c1 {
    %p = arith.remui %i, %c8 : index
    %v = memref.load %t[%i] : memref<32xf32>
    memref.store %v, %y[%p] : memref<32xf32>
  }""",
        "memref.store writes memref<32xf32> in another order",
    ),
    "from behind": (
        """  scf.for %i = %c1 to %c32 step %c1 {
    %v = memref.load %t[%i] : memref<32xf32>
    memref.store %v, %y[%i] : memref<32xf32>
  }""",
        "a loop along it counts in two ways",
    ),
}


@pytest.mark.parametrize("name", READS)
def test_loops_are_shortened_where_nothing_reads_what_was_not_computed(name):
    body, expected = READS[name]
    with context():
        module = parse(f"{HEAD}{COPY}{body}\n  return\n}}", name)
        function = find_function(module, "f")
        if isinstance(expected, str):
            with pytest.raises(CompileError, match=expected):
                OpenLoops(function, {0: 0})
            return
        assert OpenLoops(function, {0: 0}).grain == expected


def test_upper_bounds_are_what_is_left_and_another_grain_is_refused():
    with context():
        text = marked(f"{HEAD}{COPY}{READS['a sum'][0]}\n  return\n}}", {0: 0}, 8, 32)
        module = parse(text, "f")
        end_at_size(module, find_function(module, "f"))
        module.operation.verify()
        loops = [op for op in function_loops(module) if op.name == "scf.for"]
        assert len(loops) == 3
        assert all(loop.operands[1].owner.name == "arith.minsi" for loop in loops)
        odd = parse(text.replace("grain = 8", "grain = 6"), "f")
        with pytest.raises(CompileError, match="by steps of 4 and not of 6; import the model again"):
            end_at_size(odd, find_function(odd, "f"))


def function_loops(module):
    found = []
    find_function(module, "f").operation.walk(lambda op: (found.append(op), ir.WalkResult.ADVANCE)[1])
    return found


def test_a_shorter_request_reads_nothing_that_a_longer_one_left(tmp_path, warm_converters):
    model = shortened_heads(tmp_path)
    grain = model.sizes[0].grain
    assert 0 < grain <= LONGEST // 2
    function, rng = AnySize(model, lambda number: prepare(tmp_path, model, number)), np.random.default_rng(0)
    assert function.sizes == (f"batch=1,tokens={LONGEST}",)
    assert function.plan(batch=1, tokens=1) == [(f"batch=1,tokens={grain}", 1)]
    spoilt = np.full((1, LONGEST, WIDTH), np.nan, np.float32)
    for batch, tokens in ((1, 1), (1, grain), (2, grain - 1), (1, LONGEST - 1), (1, LONGEST)):
        function(x=spoilt, mask=np.ones((1, LONGEST), np.float32))
        x = rng.standard_normal((batch, tokens, WIDTH)).astype(np.float32)
        mask = (rng.random((batch, tokens)) < 0.5).astype(np.float32)
        mask[:, 0] = 1
        np.testing.assert_allclose(function(x=x, mask=mask), in_numpy(x, mask), **CLOSE)
