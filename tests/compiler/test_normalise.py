"""Normalising: each rewrite undoes what importers write, leaves other text as it is, and changes no result."""

from dataclasses import replace

import numpy as np
import pytest
from tuning_support import agrees, contraction_payload, loaded, product_of, run, run_tuned

import autotune as at
from autotune.compiler.ir.module import context, parse
from autotune.compiler.normalise.convolution.channels_last import use_channels_last
from autotune.compiler.normalise.convolution.pools import write_pools
from autotune.compiler.normalise.convolution.window_sums import write_windows_out
from autotune.compiler.normalise.gather.whole_rows import read_rows_in_one
from autotune.compiler.normalise.shapes.dimensions import drop_unit_dimensions, read_in_place, write_results_in_shape
from autotune.compiler.normalise.shapes.parts import begin_with_earlier, write_inside_borders
from autotune.compiler.normalise.shapes.products import share_matrices
from autotune.compiler.normalise.shapes.reductions import join_reductions, write_loops_only
from autotune.compiler.normalise.simplify import SIMPLIFY
from autotune.compiler.normalise.starts import start_from_constants
from autotune.compiler.normalise.types.narrow import narrow_floats
from autotune.compiler.normalise.types.powers import multiply_powers
from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine

FILLED = """%zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {0}
  %z = linalg.fill ins(%zero : f32) outs(%e : {0}) -> {0}"""
LINEAR = f"""func.func @f(%x: tensor<6x8xf32>, %w: tensor<4x8xf32> {{autotune.role = "weight"}}) -> tensor<6x4xf32> {{
  %t = tensor.empty() : tensor<8x4xf32>
  %turned = linalg.transpose ins(%w : tensor<4x8xf32>) outs(%t : tensor<8x4xf32>) permutation = [1, 0]
  {FILLED.format("tensor<6x4xf32>")}
  %r = linalg.matmul ins(%x, %turned : tensor<6x8xf32>, tensor<8x4xf32>) outs(%z : tensor<6x4xf32>) -> tensor<6x4xf32>
  return %r : tensor<6x4xf32>
}}"""
BATCH = f"""func.func @f(%x: tensor<1x6x8xf32>, %w: tensor<8x4xf32>, %b: tensor<4xf32>) -> tensor<1x6x4xf32> {{
  %t = tensor.empty() : tensor<1x8x4xf32>
  %wide = linalg.broadcast ins(%w : tensor<8x4xf32>) outs(%t : tensor<1x8x4xf32>) dimensions = [0]
  {FILLED.format("tensor<1x6x4xf32>")}
  %m = linalg.batch_matmul ins(%x, %wide : tensor<1x6x8xf32>, tensor<1x8x4xf32>)
    outs(%z : tensor<1x6x4xf32>) -> tensor<1x6x4xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (j)>,
                                         affine_map<(b, i, j) -> (b, i, j)>],
                        iterator_types = ["parallel", "parallel", "parallel"]}}
    ins(%m, %b : tensor<1x6x4xf32>, tensor<4xf32>) outs(%e : tensor<1x6x4xf32>) {{
  ^bb0(%x0: f32, %b0: f32, %o: f32):
    %s = arith.addf %x0, %b0 : f32
    linalg.yield %s : f32
  }} -> tensor<1x6x4xf32>
  return %r : tensor<1x6x4xf32>
}}"""
CUBE = """func.func @f(%x: tensor<6x8xf32>) -> tensor<6x8xf32> {
  %three = arith.constant 3 : i64
  %e = tensor.empty() : tensor<6x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x8xf32>) outs(%e : tensor<6x8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %c = math.fpowi %v, %three : f32, i64
    linalg.yield %c : f32
  } -> tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}"""
WIDE = """func.func @f(%x: tensor<6x8xf32>) -> tensor<6xf32> {
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<6xf64>
  %z = linalg.fill ins(%zero : f64) outs(%e : tensor<6xf64>) -> tensor<6xf64>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                       iterator_types = ["parallel", "reduction"]} ins(%x : tensor<6x8xf32>) outs(%z : tensor<6xf64>) {
  ^bb0(%v: f32, %o: f64):
    %w = arith.extf %v : f32 to f64
    %c = arith.addf %w, %o : f64
    linalg.yield %c : f64
  } -> tensor<6xf64>
  %n = tensor.empty() : tensor<6xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                       iterator_types = ["parallel"]} ins(%s : tensor<6xf64>) outs(%n : tensor<6xf32>) {
  ^bb0(%v: f64, %o: f32):
    %c = arith.truncf %v : f64 to f32
    linalg.yield %c : f32
  } -> tensor<6xf32>
  return %r : tensor<6xf32>
}"""
SHARED = f"""func.func @f(%x: tensor<5x6x8xf32>, %w: tensor<8x4xf32>) -> tensor<5x6x4xf32> {{
  %t = tensor.empty() : tensor<5x8x4xf32>
  %wide = linalg.broadcast ins(%w : tensor<8x4xf32>) outs(%t : tensor<5x8x4xf32>) dimensions = [0]
  {FILLED.format("tensor<5x6x4xf32>")}
  %r = linalg.batch_matmul ins(%x, %wide : tensor<5x6x8xf32>, tensor<5x8x4xf32>)
    outs(%z : tensor<5x6x4xf32>) -> tensor<5x6x4xf32>
  return %r : tensor<5x6x4xf32>
}}"""
CONV = """func.func @f(%x: tensor<2x3x9x11xf32>, %w: tensor<4x3x3x2xf32>, %b: tensor<4xf32>) -> tensor<2x4x OUT> {
  %t = tensor.empty() : tensor<2x4x OUT>
  %start = linalg.broadcast ins(%b : tensor<4xf32>) outs(%t : tensor<2x4x OUT>) dimensions = [0, 2, 3]
  %r = linalg.conv_2d_nchw_fchw {strides = dense<STRIDES> : tensor<2xi64>, dilations = dense<DILATIONS> : tensor<2xi64>}
    ins(%x, %w : tensor<2x3x9x11xf32>, tensor<4x3x3x2xf32>) outs(%start : tensor<2x4x OUT>) -> tensor<2x4x OUT>
  return %r : tensor<2x4x OUT>
}"""

JOINED = """  %s = tensor.concat dim(1) %r, %j, %r
    : (tensor<2x4x7x5xf32>, tensor<2x3x7x5xf32>, tensor<2x4x7x5xf32>) -> tensor<2x11x7x5xf32>
  %d = tensor.concat dim(2) %s, %s : (tensor<2x11x7x5xf32>, tensor<2x11x7x5xf32>) -> tensor<2x11x14x5xf32>
  return %d : tensor<2x11x14x5xf32>"""

GROWING = """func.func @f(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>, %c: tensor<2x5xf32>) -> tensor<2x38xf32> {
  %u = tensor.concat dim(1) %a, %b : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
  %v = tensor.concat dim(1) %a, %b, %c : (tensor<2x3xf32>, tensor<2x4xf32>, tensor<2x5xf32>) -> tensor<2x12xf32>
  %w = tensor.concat dim(1) %a, %b, %c, %u, %v
    : (tensor<2x3xf32>, tensor<2x4xf32>, tensor<2x5xf32>, tensor<2x7xf32>, tensor<2x12xf32>) -> tensor<2x31xf32>
  %r = tensor.concat dim(1) %u, %w : (tensor<2x7xf32>, tensor<2x31xf32>) -> tensor<2x38xf32>
  return %r : tensor<2x38xf32>
}"""


def conv(out, strides, dilations):
    text = CONV.replace("2x4x OUT", f"2x4x{out}xf32")
    return text.replace("STRIDES", strides).replace("DILATIONS", dilations)


def concatenations():
    """Results of a convolution beside others: along the channels, and then along the lines."""
    text = conv("7x5", "[1, 2]", "1").replace("  return %r : tensor<2x4x7x5xf32>", JOINED)
    return text.replace(") -> tensor<2x4x7x5xf32> {", ", %j: tensor<2x3x7x5xf32>) -> tensor<2x11x14x5xf32> {")


def one_place(batch):
    """A convolution of planes by a kernel of one place, and its bias."""
    text = conv("9x11", "1", "1").replace("4x3x3x2xf32", "4x3x1x1xf32")
    return text.replace("<2x3x", f"<{batch}x3x").replace("<2x4x", f"<{batch}x4x")


VOLUMES = f"""func.func @f(%x: tensor<1x3x2x5x3xf32>, %w: tensor<4x3x1x1x1xf32>) -> tensor<1x4x2x5x3xf32> {{
  {FILLED.format("tensor<1x4x2x5x3xf32>")}
  %r = linalg.conv_3d_ncdhw_fcdhw {{strides = dense<1> : tensor<3xi64>, dilations = dense<1> : tensor<3xi64>}}
    ins(%x, %w : tensor<1x3x2x5x3xf32>, tensor<4x3x1x1x1xf32>) outs(%z : tensor<1x4x2x5x3xf32>)
    -> tensor<1x4x2x5x3xf32>
  return %r : tensor<1x4x2x5x3xf32>
}}"""
FEW_PRODUCTS = f"""func.func @f(%x: tensor<2x1x9x16xf32>, %w: tensor<24x1x3x1xf32>) -> tensor<2x24x9x16xf32> {{
  %border = arith.constant 0.0 : f32
  %wide = tensor.pad %x low[0, 0, 1, 0] high[0, 0, 1, 0] {{
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %border : f32
  }} : tensor<2x1x9x16xf32> to tensor<2x1x11x16xf32>
  {FILLED.format("tensor<2x24x9x16xf32>")}
  %r = linalg.conv_2d_nchw_fchw ins(%wide, %w : tensor<2x1x11x16xf32>, tensor<24x1x3x1xf32>)
    outs(%z : tensor<2x24x9x16xf32>) -> tensor<2x24x9x16xf32>
  return %r : tensor<2x24x9x16xf32>
}}"""
FEW_FILTERS = f"""func.func @f(%x: tensor<1x128x58x58xf32>, %w: tensor<8x128x3x3xf32>) -> tensor<1x8x56x56xf32> {{
  {FILLED.format("tensor<1x8x56x56xf32>")}
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x128x58x58xf32>, tensor<8x128x3x3xf32>)
    outs(%z : tensor<1x8x56x56xf32>) -> tensor<1x8x56x56xf32>
  return %r : tensor<1x8x56x56xf32>
}}"""
POOLED = """%p = linalg.pooling_nchw_max ins(%r, %side : tensor<2x24x9x16xf32>, tensor<2x2xf32>)
    outs(%q : tensor<2x24x8x15xf32>) -> tensor<2x24x8x15xf32>
  return %r : tensor<2x24x9x16xf32>"""
VOLUME_WINDOWS = f"""func.func @f(%x: tensor<2x3x4x5x9xf32>, %w: tensor<4x3x1x2x3xf32>) -> tensor<2x4x2x4x5xf32> {{
  {FILLED.format("tensor<2x4x2x4x5xf32>")}
  %r = linalg.conv_3d_ncdhw_fcdhw
    {{strides = dense<[2, 1, 1]> : tensor<3xi64>, dilations = dense<[1, 1, 2]> : tensor<3xi64>}}
    ins(%x, %w : tensor<2x3x4x5x9xf32>, tensor<4x3x1x2x3xf32>)
    outs(%z : tensor<2x4x2x4x5xf32>) -> tensor<2x4x2x4x5xf32>
  return %r : tensor<2x4x2x4x5xf32>
}}"""
GROUPS = """func.func @f(%x: tensor<2x6x9x11xf32>, %w: tensor<8x3x3x2xf32>, %b: tensor<8xf32>) -> tensor<2x8x4x5xf32> {
  %t = tensor.empty() : tensor<2x8x4x5xf32>
  %start = linalg.broadcast ins(%b : tensor<8xf32>) outs(%t : tensor<2x8x4x5xf32>) dimensions = [0, 2, 3]
  %xs = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [2, 2, 3, 9, 11]
    : tensor<2x6x9x11xf32> into tensor<2x2x3x9x11xf32>
  %ws = tensor.expand_shape %w [[0, 1], [2], [3], [4]] output_shape [2, 4, 3, 3, 2]
    : tensor<8x3x3x2xf32> into tensor<2x4x3x3x2xf32>
  %s = tensor.expand_shape %start [[0], [1, 2], [3], [4]] output_shape [2, 2, 4, 4, 5]
    : tensor<2x8x4x5xf32> into tensor<2x2x4x4x5xf32>
  %y = linalg.conv_2d_ngchw_gfchw {strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
    ins(%xs, %ws : tensor<2x2x3x9x11xf32>, tensor<2x4x3x3x2xf32>) outs(%s : tensor<2x2x4x4x5xf32>)
    -> tensor<2x2x4x4x5xf32>
  %r = tensor.collapse_shape %y [[0], [1, 2], [3], [4]] : tensor<2x2x4x4x5xf32> into tensor<2x8x4x5xf32>
  return %r : tensor<2x8x4x5xf32>
}"""
POOL = """func.func @f(%x: tensor<2x3x9x9xf32>) -> tensor<2x3x4x4xf32> {
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<2x3x4x4xf32>
  %z = linalg.fill ins(%low : f32) outs(%e : tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %w = tensor.empty() : tensor<3x3xf32>
  %r = linalg.pooling_nchw_max {strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
    ins(%x, %w : tensor<2x3x9x9xf32>, tensor<3x3xf32>) outs(%z : tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  return %r : tensor<2x3x4x4xf32>
}"""


def volume_pool(combine, neutral):
    """A pool over volumes, as importers write one."""
    return f"""func.func @f(%x: tensor<2x11x7x9xf32>) -> tensor<2x5x5x4xf32> {{
  %low = arith.constant {neutral} : f32
  %e = tensor.empty() : tensor<2x5x5x4xf32>
  %z = linalg.fill ins(%low : f32) outs(%e : tensor<2x5x5x4xf32>) -> tensor<2x5x5x4xf32>
  %w = tensor.empty() : tensor<2x3x3xf32>
  %r = linalg.generic {{indexing_maps = [
    affine_map<(c, d, h, w, e, i, j) -> (c, d * 2 + e * 2, h + i, w * 2 + j)>,
    affine_map<(c, d, h, w, e, i, j) -> (e, i, j)>, affine_map<(c, d, h, w, e, i, j) -> (c, d, h, w)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}}
    ins(%x, %w : tensor<2x11x7x9xf32>, tensor<2x3x3xf32>) outs(%z : tensor<2x5x5x4xf32>) {{
  ^bb0(%v: f32, %u: f32, %o: f32):
    %m = {combine} %v, %o : f32
    linalg.yield %m : f32
  }} -> tensor<2x5x5x4xf32>
  return %r : tensor<2x5x5x4xf32>
}}"""


TRANSPOSED_POOL = """func.func @f(%x: tensor<2x3x11x7x9xf32>) -> (tensor<2x3x5x5x4xf32>, tensor<2x5x5x4x3xf32>) {
  %zero = arith.constant 0.0 : f32
  %t = tensor.empty() : tensor<2x11x7x9x3xf32>
  %last = linalg.transpose ins(%x : tensor<2x3x11x7x9xf32>) outs(%t : tensor<2x11x7x9x3xf32>)
    permutation = [0, 2, 3, 4, 1]
  %e = tensor.empty() : tensor<2x5x5x4x3xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x5x5x4x3xf32>) -> tensor<2x5x5x4x3xf32>
  %w = tensor.empty() : tensor<2x3x3xf32>
  %p = linalg.pooling_ndhwc_sum
    {strides = dense<[2, 1, 2]> : tensor<3xi64>, dilations = dense<[2, 1, 1]> : tensor<3xi64>}
    ins(%last, %w : tensor<2x11x7x9x3xf32>, tensor<2x3x3xf32>)
    outs(%z : tensor<2x5x5x4x3xf32>) -> tensor<2x5x5x4x3xf32>
  %b = tensor.empty() : tensor<2x3x5x5x4xf32>
  %r = linalg.transpose ins(%p : tensor<2x5x5x4x3xf32>) outs(%b : tensor<2x3x5x5x4xf32>) permutation = [0, 4, 1, 2, 3]
  return %r, %p : tensor<2x3x5x5x4xf32>, tensor<2x5x5x4x3xf32>
}"""


PAD = """func.func @f(%x: tensor<6x8xf32>) -> (tensor<9x8xf32>, tensor<6x8xf32>) {
  %two = arith.constant 2.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %y = linalg.exp ins(%x : tensor<6x8xf32>) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %r = tensor.pad %y low[1, 0] high[2, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %two : f32
  } : tensor<6x8xf32> to tensor<9x8xf32>
  %q = linalg.abs ins(%y : tensor<6x8xf32>) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  return %r, %q : tensor<9x8xf32>, tensor<6x8xf32>
}"""
EXPANDED = """func.func @f(%x: tensor<6x8xf32>) -> tensor<1x6x8xf32> {
  %e = tensor.empty() : tensor<6x8xf32>
  %y = linalg.exp ins(%x : tensor<6x8xf32>) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %r = tensor.expand_shape %y [[0, 1], [2]] output_shape [1, 6, 8] : tensor<6x8xf32> into tensor<1x6x8xf32>
  return %r : tensor<1x6x8xf32>
}"""
START = """func.func @f(%x: tensor<6x8xf32>) -> tensor<6xf32> {
  %start = arith.constant NEUTRAL : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<6xf32>
  %z = linalg.fill ins(%start : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                       iterator_types = ["parallel", "reduction"]} ins(%x : tensor<6x8xf32>) outs(%z : tensor<6xf32>) {
  ^bb0(%v: f32, %o: f32):
    %c = COMBINE %v, %o : f32
    linalg.yield %c : f32
  } -> tensor<6xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                       iterator_types = ["parallel"]} ins(%s : tensor<6xf32>) outs(%e : tensor<6xf32>) {
  ^bb0(%v: f32, %o: f32):
    AGAIN
    linalg.yield %c : f32
  } -> tensor<6xf32>
  return %r : tensor<6xf32>
}"""
LOWER = "%l = arith.cmpf olt, %v, %half : f32\n    %c = arith.select %l, %half, %v : f32"


def start(neutral, combine, again):
    return START.replace("NEUTRAL", neutral).replace("COMBINE", combine).replace("AGAIN", again)


COLLAPSED = """func.func @f(%x: tensor<2x3x8xf32>) -> tensor<6x8xf32> {
  %e = tensor.empty() : tensor<2x3x8xf32>
  %y = linalg.exp ins(%x : tensor<2x3x8xf32>) outs(%e : tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %r = tensor.collapse_shape %y [[0, 1], [2]] : tensor<2x3x8xf32> into tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}"""
GATHER = """func.func @f(%places: tensor<7xi64> {autotune.high = 5}, %x: tensor<5x3x6xf32>) -> tensor<7x3x6xf32> {
  %e = tensor.empty() : tensor<7x3x6xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, a, b) -> (i)>, affine_map<(i, a, b) -> (i, a, b)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%places : tensor<7xi64>) outs(%e : tensor<7x3x6xf32>) {
  ^bb0(%p: i64, %o: f32):
    %i = arith.index_cast %p : i64 to index
    %a = linalg.index 1 : index
    %b = linalg.index 2 : index
    %v = tensor.extract %x[%i, %a, %b] : tensor<5x3x6xf32>
    linalg.yield %v : f32
  } -> tensor<7x3x6xf32>
  return %r : tensor<7x3x6xf32>
}"""
TWICE = """func.func @f(%x: tensor<4x3x9x5xf32>) -> tensor<9x5xf32> {
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<4x9x5xf32>
  %z = linalg.fill ins(%low : f32) outs(%e : tensor<4x9x5xf32>) -> tensor<4x9x5xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>,
                                        affine_map<(a, b, c, d) -> (a, c, d)>],
                       iterator_types = ["parallel", "reduction", "parallel", "parallel"]}
    ins(%x : tensor<4x3x9x5xf32>) outs(%z : tensor<4x9x5xf32>) {
  ^bb0(%v: f32, %o: f32):
    %c = arith.maximumf %v, %o : f32
    linalg.yield %c : f32
  } -> tensor<4x9x5xf32>
  %f = tensor.empty() : tensor<9x5xf32>
  %y = linalg.fill ins(%low : f32) outs(%f : tensor<9x5xf32>) -> tensor<9x5xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, c, d) -> (a, c, d)>, affine_map<(a, c, d) -> (c, d)>],
                       iterator_types = ["reduction", "parallel", "parallel"]}
    ins(%m : tensor<4x9x5xf32>) outs(%y : tensor<9x5xf32>) {
  ^bb0(%v: f32, %o: f32):
    %c = arith.maximumf %v, %o : f32
    linalg.yield %c : f32
  } -> tensor<9x5xf32>
  return %r : tensor<9x5xf32>
}"""
KEPT = """func.func @f(%x: tensor<2x5x8xf32>) -> tensor<2x1x5x1xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x1x5x1xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x1x5x1xf32>) -> tensor<2x1x5x1xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, 0, b, 0)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x : tensor<2x5x8xf32>) outs(%z : tensor<2x1x5x1xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %v, %o : f32
    linalg.yield %s : f32
  } -> tensor<2x1x5x1xf32>
  return %r : tensor<2x1x5x1xf32>
}"""
CASES = {  # the rewrite, text that it changes, and what is then gone from it
    "transposes": (read_in_place, LINEAR, "linalg.transpose"),
    "unit dimensions": (drop_unit_dimensions, BATCH, "linalg.batch_matmul"),
    "shared matrices": (share_matrices, SHARED, "linalg.batch_matmul"),
    "convolution": (use_channels_last, conv("7x5", "[1, 2]", "1"), "linalg.conv_2d_nchw_fchw"),
    "strided convolution": (use_channels_last, conv("4x5", "2", "1"), "linalg.conv_2d_nchw_fchw"),
    "dilated convolution": (use_channels_last, conv("5x5", "[1, 2]", "2"), "linalg.conv_2d_nchw_fchw"),
    "convolution by one place": (use_channels_last, one_place(2), "linalg.conv_2d_nchw_fchw"),
    "convolution along rows": (use_channels_last, FEW_PRODUCTS, "linalg.conv_2d_nchw_fchw"),
    "convolution of volumes": (use_channels_last, VOLUME_WINDOWS, "linalg.conv_3d_ncdhw_fcdhw"),
    "convolution of volumes by one place": (use_channels_last, VOLUMES, "linalg.conv_3d_ncdhw_fcdhw"),
    "grouped convolution": (use_channels_last, GROUPS, "linalg.conv_2d_ngchw_gfchw"),
    "growing concatenations": (begin_with_earlier, GROWING, "tensor<2x3xf32>, tensor<2x4xf32>, tensor<2x5xf32>"),
    "concatenations": (use_channels_last, concatenations(), "tensor<2x11x7x5xf32>"),
    "pool": (use_channels_last, POOL, "linalg.pooling_nchw_max"),
    "maxima over volumes": (write_pools, volume_pool("arith.maximumf", "0xFF800000"), "reduction"),
    "sums over volumes": (write_pools, volume_pool("arith.addf", "0.0"), "reduction"),
    "sums over transposed volumes": (write_pools, TRANSPOSED_POOL, "linalg.pooling_ndhwc_sum"),
    "windows": (
        write_windows_out,
        POOL.replace("nchw", "nhwc").replace("3x9x9", "9x9x3").replace("3x4x4", "4x4x3"),
        "pooling",
    ),
    "pads": (write_inside_borders, PAD, "tensor.pad"),
    "results": (write_results_in_shape, EXPANDED, "expand_shape"),
    "results of fewer dimensions": (write_results_in_shape, COLLAPSED, "tensor.collapse_shape"),
    "rows of two dimensions": (read_rows_in_one, GATHER, "linalg.index 2"),
    "reductions of reductions": (join_reductions, TWICE, '"parallel", "reduction"'),
    "reductions that keep what they reduce": (write_loops_only, KEPT, "(d0, 0, d1, 0)"),
    "powers": (multiply_powers, CUBE, "math.fpowi"),
    "narrow": (narrow_floats, WIDE, "f64"),
    "start of a sum": (
        start_from_constants,
        start("0.0", "arith.addf", "%c = arith.addf %v, %half : f32"),
        '["parallel"]',
    ),
    "start of a maximum": (start_from_constants, start("0xFF800000", "arith.maximumf", LOWER), "arith.select"),
    "start of a minimum": (
        start_from_constants,
        start("0x7F800000", "arith.minimumf", LOWER.replace("olt", "ogt")),
        "arith.select",
    ),
}


def rewritten(text, rewrite):
    with context():
        module = parse(text, "mine")
        rewrite(module)
        module.operation.verify()
        return str(module)


@pytest.mark.parametrize("name", CASES)
def test_a_rewrite_undoes_its_pattern_and_changes_no_result(name, tmp_path):
    rewrite, text, gone = CASES[name]
    payload = loaded(tmp_path, text)
    simple = rewritten(payload.text, rewrite)
    assert gone in payload.text
    assert gone not in simple
    inputs = payload.make_inputs(0)
    expected = run(payload, inputs, None, PLAIN)
    agrees(payload, run(payload, inputs, None, PLAIN, text=simple), expected)


def test_few_products_are_summed_along_rows_unless_a_window_reads_the_results():
    alone = rewritten(FEW_PRODUCTS, use_channels_last)
    assert "tensor<2x11x16x1xf32>" not in alone, "what is read is padded, and stays, with channels first"
    empty = "%side = tensor.empty() : tensor<2x2xf32>\n  %q = tensor.empty() : tensor<2x24x8x15xf32>\n  "
    pooled = FEW_PRODUCTS.replace("return %r : tensor<2x24x9x16xf32>", empty + POOLED)
    assert "tensor<2x11x16x1xf32>" in rewritten(pooled, use_channels_last)


def test_few_filters_of_many_channels_turn_nothing():
    assert "tensor<1x58x58x128xf32>" not in rewritten(FEW_FILTERS, use_channels_last)


@pytest.mark.parametrize(
    ("neutral", "combine", "again"),
    [
        ("0.0", "arith.addf", LOWER),
        ("1.0", "arith.addf", "%c = arith.addf %v, %half : f32"),
        ("0.0", "arith.addf", "%c = arith.addf %v, %v : f32"),
        ("0xFF800000", "arith.maximumf", LOWER.replace("%l, %half, %v", "%l, %v, %half")),
    ],
    ids=["other op", "other start", "no constant", "other bound"],
)
def test_a_reduction_keeps_its_start_where_its_result_is_combined_otherwise(neutral, combine, again, tmp_path):
    text = loaded(tmp_path, start(neutral, combine, again)).text
    assert rewritten(text, start_from_constants).count("linalg.generic") == text.count("linalg.generic") == 2


def test_a_concatenation_stays_where_most_of_it_would_be_turned_for_it_alone():
    text = concatenations().replace("x3x7x5x", "x9x7x5x").replace("x11x", "x17x")
    assert "concat dim(1) %" in rewritten(text, use_channels_last)


@pytest.mark.parametrize("rewrite", SIMPLIFY)
def test_text_without_the_pattern_stays_as_it_is(rewrite):
    with context():
        before = str(parse(contraction_payload(16, 24, 8, batch=2).text, "plain"))
    assert rewritten(before, rewrite) == before


def test_a_linear_as_importers_write_it_is_one_task_whose_weight_may_be_packed(tmp_path):
    (task,) = partition(loaded(tmp_path, LINEAR)).tasks
    assert task.contraction is not None
    assert (task.contraction.transposed_b, task.contraction.constant_b) == (True, True)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_convolution_by_one_place_is_one_product_of_planes_as_they_lie(batch, tmp_path):
    payload = loaded(tmp_path, one_place(batch))
    (task,) = partition(payload).tasks
    assert task.nest.sizes == ((4, 99) if batch == 1 else (2, 4, 99))
    inputs = payload.make_inputs(0)
    expected = run(payload, inputs, None, PLAIN)
    for seed in (None, 1):
        agrees(payload, run_tuned(payload, inputs, this_machine(), seed)[0], expected)


def test_a_batch_of_one_does_not_hide_what_is_added_to_a_product(tmp_path):
    (task,) = partition(loaded(tmp_path, BATCH)).tasks
    assert [(c.m, c.n, c.k, c.batched) for c in task.contractions] == [(6, 4, 8, False)]
    assert len(task.ops) == 2


def test_a_model_with_an_argument_of_f64_computes_in_f64(tmp_path):
    text = WIDE.replace("-> tensor<6xf32> {\n  %zero", "-> tensor<6xf64> {\n  %zero").replace(
        "return %r : tensor<6xf32>", "return %s : tensor<6xf64>"
    )
    payload = loaded(tmp_path, text)
    assert rewritten(payload.text, narrow_floats).count("f64") == payload.text.count("f64")


CARRIED = """func.func @f(%x: tensor<9xf32>) -> (tensor<9xf32>, tensor<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 9 : index
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<9xf32>
  %y, %s = scf.for %i = %c0 to %n step %c1 iter_args(%o = %e, %a = %zero) -> (tensor<9xf32>, f64) {
    %v = tensor.extract %x[%i] : tensor<9xf32>
    %w = arith.extf %v : f32 to f64
    %b = arith.addf %a, %w : f64
    %t = arith.truncf %b : f64 to f32
    %p = tensor.insert %t into %o[%i] : tensor<9xf32>
    scf.yield %p, %b : tensor<9xf32>, f64
  }
  %d = tensor.empty() : tensor<f64>
  %z = linalg.fill ins(%zero : f64) outs(%d : tensor<f64>) -> tensor<f64>
  %m = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
    ins(%x : tensor<9xf32>) outs(%z : tensor<f64>) {
  ^bb0(%v: f32, %o: f64):
    %w = arith.extf %v : f32 to f64
    %c = arith.addf %w, %o : f64
    linalg.yield %c : f64
  } -> tensor<f64>
  %g = tensor.empty() : tensor<f32>
  %r = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}
    ins(%m : tensor<f64>) outs(%g : tensor<f32>) {
  ^bb0(%v: f64, %o: f32):
    %c = arith.truncf %v : f64 to f32
    linalg.yield %c : f32
  } -> tensor<f32>
  return %y, %r : tensor<9xf32>, tensor<f32>
}"""


def test_numbers_that_a_loop_carries_stay_f64_where_tensors_become_f32(tmp_path):
    payload = loaded(tmp_path, CARRIED)
    simple = rewritten(payload.text, narrow_floats)
    assert "tensor<f64>" in payload.text
    assert "tensor<f64>" not in simple
    inputs = {"arg0": np.float32([1, 1e8, 1, -1e8, 0, 0, 0, 0, 0])}
    sums, _ = run(payload, inputs, None, PLAIN, text=simple)
    np.testing.assert_array_equal(sums, np.cumsum(inputs["arg0"].astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize("exponent", [9, -1, -2, -3, -7, 0, 1 << 40])
def test_a_whole_power_is_right_in_vectors(exponent, tmp_path):
    """LLVM has none of vectors: powers that are no small products are real ones."""
    text = CUBE.replace("%three = arith.constant 3 : i64", f"%three = arith.constant {exponent} : i64")
    payload = loaded(tmp_path, text)
    assert "math.fpowi" not in rewritten(payload.text, multiply_powers)
    x = np.float32([[-2, -1, -0.5, 0.25, 0.75, 1, 1.5, 3]] * 6)
    with np.errstate(over="ignore"):
        wanted = np.power(x.astype(np.float64), float(exponent)).astype(np.float32)
    np.testing.assert_allclose(at.compile(str(tmp_path / "mine.mlir"))(x), wanted, rtol=1e-5)


def test_a_whole_power_that_is_given_is_right_in_vectors(tmp_path):
    text = CUBE.replace("%three = arith.constant 3 : i64\n", "").replace(
        "(%x: tensor<6x8xf32>)", "(%x: tensor<6x8xf32>, %n: tensor<6x8xi32>)"
    )
    text = text.replace(
        "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>", ", ".join(["affine_map<(i, j) -> (i, j)>"] * 3)
    )
    text = text.replace("ins(%x : tensor<6x8xf32>)", "ins(%x, %n : tensor<6x8xf32>, tensor<6x8xi32>)")
    text = text.replace("^bb0(%v: f32, %o: f32)", "^bb0(%v: f32, %three: i32, %o: f32)").replace("f32, i64", "f32, i32")
    loaded(tmp_path, text)
    x, n = np.float32([[-2, -1, -0.5, 0.25, 0.75, 1, 1.5, 3]] * 6), np.arange(-24, 24, dtype=np.int32).reshape(6, 8)
    wanted = np.power(x.astype(np.float64), n)
    np.testing.assert_allclose(at.compile(str(tmp_path / "mine.mlir"))(x, n), wanted, rtol=1e-5)


BESIDE = """func.func @f(%x: tensor<6x8x16xf32>, %a: tensor<2x3x8xf32>) -> tensor<6x8x16xf32> {
  %y = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [2, 3, 8, 16]
    : tensor<6x8x16xf32> into tensor<2x3x8x16xf32>
  %e = tensor.empty() : tensor<2x3x8x16xf32>
  %b = tensor.expand_shape %a [[0], [1], [2, 3]] output_shape [2, 3, 8, 1] : tensor<2x3x8xf32> into tensor<2x3x8x1xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>,
      affine_map<(a, b, c, d) -> (a, b, c, 0)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y, %b : tensor<2x3x8x16xf32>, tensor<2x3x8x1xf32>) outs(%e : tensor<2x3x8x16xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %c = arith.mulf %v, %w : f32
    linalg.yield %c : f32
  } -> tensor<2x3x8x16xf32>
  %r = tensor.collapse_shape %m [[0, 1], [2], [3]] : tensor<2x3x8x16xf32> into tensor<6x8x16xf32>
  return %r : tensor<6x8x16xf32>
}"""


def test_rows_times_numbers_of_their_own_are_neither_turned_nor_copied_to_another_shape(tmp_path):
    parts = partition(loaded(tmp_path, BESIDE))
    (task,) = parts.tasks
    assert task.root.turned is None
    assert "tensor.collapse_shape" not in parts.payload.text


@pytest.mark.parametrize(
    ("n", "k", "role", "count"),
    [(70, 33, "input", 2), (20, 32, "input", 2), (70, 32, "input", 1), (20, 33, "weight", 1)],
    ids=["odd sums", "few columns", "in squares", "a weight"],
)
def test_a_fresh_operand_is_turned_first_where_its_product_would_turn_it_slowly(n, k, role, count):
    payload = replace(contraction_payload(18, n, k, b="nk", role_b=role), foreign=True)
    inputs = payload.make_inputs(0)
    got, parts = run_tuned(payload, inputs, this_machine())
    assert len(parts.tasks) == count
    assert parts.tasks[-1].contraction.transposed_b == (count == 1)
    agrees(payload, got, [product_of(payload, inputs, b="nk")])


@pytest.mark.parametrize(
    ("read", "kernel", "steps", "written"),
    [((33, 4), (3, 3), (2, 2), (16, 1)), ((4, 4), (3, 3), (2, 2), (1, 1)), ((3, 9), (2, 2), (5, 2), (1, 4))],
)
def test_windows_of_one_place_leave_a_rest(read, kernel, steps, written):
    x, k, y = (f"tensor<{rows}x{columns}xf32>" for rows, columns in (read, kernel, written))
    places = f"a * {steps[0]} + c, b * {steps[1]} + d"
    maps = ", ".join(f"affine_map<(a, b, c, d) -> ({each})>" for each in (places, "c, d", "a, b"))
    text = f"""func.func @f(%x: {x}, %k: {k}) -> {y} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {y}
  %z = linalg.fill ins(%zero : f32) outs(%e : {y}) -> {y}
  %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}}
    ins(%x, %k : {x}, {k}) outs(%z : {y}) {{
  ^bb0(%in: f32, %w: f32, %o: f32):
    %m = arith.mulf %in, %w : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  }} -> {y}
  return %r : {y}
}}"""
    with context():
        module = parse(text, "windows")
        drop_unit_dimensions(module)
        assert module.operation.verify()


def test_groups_on_a_column_whose_result_is_reshaped_otherwise_stay(tmp_path):
    text = """func.func @f(%line: tensor<2x6x9xf32>, %k: tensor<2x4x3x2x1xf32>) -> tensor<2x64xf32> {
  %zero = arith.constant 0.0 : f32
  %column = tensor.expand_shape %line [[0], [1], [2, 3]] output_shape [2, 6, 9, 1]
    : tensor<2x6x9xf32> into tensor<2x6x9x1xf32>
  %x = tensor.expand_shape %column [[0], [1, 2], [3], [4]] output_shape [2, 2, 3, 9, 1]
    : tensor<2x6x9x1xf32> into tensor<2x2x3x9x1xf32>
  %e = tensor.empty() : tensor<2x2x4x8x1xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x2x4x8x1xf32>) -> tensor<2x2x4x8x1xf32>
  %c = linalg.conv_2d_ngchw_gfchw {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
    ins(%x, %k : tensor<2x2x3x9x1xf32>, tensor<2x4x3x2x1xf32>) outs(%z : tensor<2x2x4x8x1xf32>) -> tensor<2x2x4x8x1xf32>
  %r = tensor.collapse_shape %c [[0], [1, 2, 3, 4]] : tensor<2x2x4x8x1xf32> into tensor<2x64xf32>
  return %r : tensor<2x64xf32>
}"""
    payload = loaded(tmp_path, text)
    inputs = payload.make_inputs(0)
    agrees(payload, run_tuned(payload, inputs, this_machine())[0], run(payload, inputs, None, PLAIN))
