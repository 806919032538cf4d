"""A matrix that all products of a batch share is read where it lies, and what follows the product is part of it."""

import pytest
from tuning_support import agrees, loaded, run

from autotune.compiler.ir.module import context, parse
from autotune.compiler.normalise.shapes.products import reshape_after_elementwise, share_matrices
from autotune.compiler.passes.pipelines import PLAIN
from autotune.compiler.tasks.partition import partition

LINEAR = """#whole = affine_map<(a, b, k, n) -> (a, b, k, n)>
func.func @f(%x: tensor<2x3x6x8xf32>, %w: tensor<MATRIX> {autotune.role = "weight"}, %b: tensor<ADDED>)
    -> tensor<2x3x6x4xf32> {
  %zero = arith.constant 0.0 : f32
  %t = tensor.empty() : tensor<REPEATED>
  %wide = linalg.generic {indexing_maps = [affine_map<(a, b, k, n) -> READ>, affine_map<(a, b, k, n) -> WRITTEN>],
                          iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%w : tensor<MATRIX>) outs(%t : tensor<REPEATED>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<REPEATED>
  %xs = tensor.collapse_shape %x [[0, 1], [2], [3]] : tensor<2x3x6x8xf32> into tensor<6x6x8xf32>
  SPLIT
  %e = tensor.empty() : tensor<6x6x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<6x6x4xf32>) -> tensor<6x6x4xf32>
  %m = linalg.batch_matmul MAPS ins(%xs, %ws : tensor<6x6x8xf32>, tensor<BATCH>)
    outs(%z : tensor<6x6x4xf32>) -> tensor<6x6x4xf32>
  %y = tensor.expand_shape %m [[0, 1], [2], [3]] output_shape [2, 3, 6, 4] : tensor<6x6x4xf32> into tensor<2x3x6x4xf32>
  %i = tensor.empty() : tensor<2x3x6x4xf32>
  %r = linalg.generic {indexing_maps = [#whole, affine_map<(a, b, k, n) -> BIAS>, #whole],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y, %b : tensor<2x3x6x4xf32>, tensor<ADDED>) outs(%i : tensor<2x3x6x4xf32>) {
  ^bb0(%x0: f32, %b0: f32, %o: f32):
    %s = arith.addf %x0, %b0 : f32
    linalg.yield %s : f32
  } -> tensor<2x3x6x4xf32>
  return %r : tensor<2x3x6x4xf32>
}"""
JOINED = "%ws = tensor.collapse_shape %wide [[0, 1], [2], [3]] : tensor<REPEATED> into tensor<BATCH>"
MOVED = """%p = tensor.empty() : tensor<1x6x8x4xf32>
  %moved = linalg.transpose ins(%wide : tensor<REPEATED>) outs(%p : tensor<1x6x8x4xf32>) permutation = [2, 3, 0, 1]
  %ws = tensor.collapse_shape %moved [[0, 1], [2], [3]] : tensor<1x6x8x4xf32> into tensor<6x8x4xf32>"""
ROW = """%row = tensor.collapse_shape %wide [[0, 1], [2, 3]] : tensor<REPEATED> into tensor<6x32xf32>
  %ws = tensor.expand_shape %row [[0], [1, 2]] output_shape [6, 8, 4] : tensor<6x32xf32> into tensor<6x8x4xf32>"""
TRANSPOSED_MAPS = """indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, n, k)>,
                                      affine_map<(b, m, n, k) -> (b, m, n)>]"""


PARTS = {
    "matrix": "8x4",
    "read": "(k, n)",
    "written": "(a, b, k, n)",
    "repeated": "2x3x8x4",
    "batch": "6x8x4",
    "maps": "",
    "split": JOINED,
    "added": "4",
    "bias": "(n)",
}


def linear(**parts):
    """A Linear over four dimensions as importers write it: its matrix is repeated, then reshaped."""
    text = LINEAR
    for name in ("split", *(name for name in PARTS if name != "split")):
        value = parts.get(name, PARTS[name])
        text = text.replace(name.upper(), f"{value}xf32" if value[:1].isdigit() else value)
    return text


SHARED = {
    "as importers write it": linear(),
    "a matrix read transposed": linear(matrix="4x8", read="(n, k)"),
    "a product of a transposed matrix": linear(matrix="4x8", repeated="2x3x4x8", batch="6x4x8", maps=TRANSPOSED_MAPS),
    "both transposed": linear(read="(n, k)", repeated="2x3x4x8", batch="6x4x8", maps=TRANSPOSED_MAPS),
    "dimensions of size 1 around the matrix": linear(matrix="1x8x1x4", read="(0, k, 0, n)"),
    "copies that are transposed": linear(written="(k, n, a, b)", repeated="8x4x1x6", split=MOVED),
    "the same number for each row": linear(bias="(b, k, n)", added="3x6x4"),
}
APART = {
    "a matrix for each of the outer dimension": linear(matrix="2x8x4", read="(a, k, n)"),
    "a row that becomes a matrix": linear(matrix="32", read="(n)", repeated="2x3x1x32", split=ROW),
}


def rewritten(text, *rewrites):
    with context():
        module = parse(text, "mine")
        for rewrite in rewrites:
            rewrite(module)
        module.operation.verify()
        return str(module)


def check_result(payload, text):
    inputs = payload.make_inputs(0)
    agrees(payload, run(payload, inputs, None, PLAIN, text=text), run(payload, inputs, None, PLAIN))


@pytest.mark.parametrize("name", SHARED)
def test_a_shared_matrix_is_not_repeated(name, tmp_path):
    payload = loaded(tmp_path, SHARED[name])
    simple = rewritten(payload.text, share_matrices, reshape_after_elementwise)
    assert "batch_matmul" not in simple
    assert simple.count("linalg.matmul") == 1
    assert simple.count("linalg.generic") == 1
    check_result(payload, simple)


@pytest.mark.parametrize("name", APART)
def test_matrices_that_differ_are_not_shared(name, tmp_path):
    payload = loaded(tmp_path, APART[name])
    simple = rewritten(payload.text, share_matrices, reshape_after_elementwise)
    assert "batch_matmul" in simple
    check_result(payload, simple)


@pytest.mark.parametrize("name", ["as importers write it", "a matrix read transposed"])
def test_a_linear_over_four_dimensions_is_one_product_with_its_bias(name, tmp_path):
    (task,) = partition(loaded(tmp_path, SHARED[name])).tasks
    assert [(c.m, c.n, c.k, c.batched, c.constant_b) for c in task.contractions] == [(36, 4, 8, False, True)]
    assert len(task.ops) == 2
    assert task.tag.startswith("matmul_36x4x8_f32")


def test_what_is_added_along_a_part_of_the_rows_stays_behind_the_reshape(tmp_path):
    payload = loaded(tmp_path, SHARED["the same number for each row"])
    simple = rewritten(payload.text, share_matrices, reshape_after_elementwise)
    assert "tensor<36x4xf32>" in simple
    assert "ins(%expanded" in simple


# q k^T of one head: k is itself the product of a batch of one, whose matrix is written as a copy.
SCORES = """#copied = affine_map<(b, k, n) -> (k, n)>
#whole = affine_map<(b, k, n) -> (b, k, n)>
func.func @f(%x: tensor<1x6x8xf32>, %wq: tensor<8x8xf32>, %wk: tensor<8x8xf32>, %wv: tensor<8x8xf32>)
    -> (tensor<1x6x6xf32>, tensor<1x6x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %c = tensor.empty() : tensor<1x8x8xf32>
  %e = tensor.empty() : tensor<1x6x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x6x8xf32>) -> tensor<1x6x8xf32>
  PRODUCTS
  %te = tensor.empty() : tensor<1x8x6xf32>
  %kt = linalg.transpose ins(%k : tensor<1x6x8xf32>) outs(%te : tensor<1x8x6xf32>) permutation = [0, 2, 1]
  %se = tensor.empty() : tensor<1x6x6xf32>
  %sz = linalg.fill ins(%zero : f32) outs(%se : tensor<1x6x6xf32>) -> tensor<1x6x6xf32>
  %s = linalg.batch_matmul ins(%q, %kt : tensor<1x6x8xf32>, tensor<1x8x6xf32>) outs(%sz : tensor<1x6x6xf32>)
    -> tensor<1x6x6xf32>
  return %s, %v : tensor<1x6x6xf32>, tensor<1x6x8xf32>
}"""
PRODUCT = """%cNAME = linalg.generic {indexing_maps = [#copied, #whole],
                                          iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%wNAME : tensor<8x8xf32>) outs(%c : tensor<1x8x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<1x8x8xf32>
  %NAME = linalg.batch_matmul ins(%x, %cNAME : tensor<1x6x8xf32>, tensor<1x8x8xf32>) outs(%z : tensor<1x6x8xf32>)
    -> tensor<1x6x8xf32>"""


def test_a_product_may_read_what_was_a_product_of_a_batch(tmp_path):
    products = "\n  ".join(PRODUCT.replace("NAME", name) for name in "qkv")
    payload = loaded(tmp_path, SCORES.replace("PRODUCTS", products))
    simple = rewritten(payload.text, share_matrices)
    assert "batch_matmul" not in simple
    check_result(payload, simple)


def test_a_matrix_of_one_element_is_shared(tmp_path):
    text = """func.func @f(%x: tensor<3x5x1xf32>, %w: tensor<1x1xf32>) -> tensor<3x5x1xf32> {
  %zero = arith.constant 0.0 : f32
  %c = tensor.empty() : tensor<3x1x1xf32>
  %r = linalg.broadcast ins(%w : tensor<1x1xf32>) outs(%c : tensor<3x1x1xf32>) dimensions = [0]
  %e = tensor.empty() : tensor<3x5x1xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<3x5x1xf32>) -> tensor<3x5x1xf32>
  %y = linalg.batch_matmul ins(%x, %r : tensor<3x5x1xf32>, tensor<3x1x1xf32>) outs(%z : tensor<3x5x1xf32>)
    -> tensor<3x5x1xf32>
  return %y : tensor<3x5x1xf32>
}"""
    payload = loaded(tmp_path, text)
    simple = rewritten(payload.text, share_matrices)
    assert "batch_matmul" not in simple
    check_result(payload, simple)


def test_rows_of_a_product_compared_with_each_other_keep_their_reshape(tmp_path):
    pairs = "(a, b, i, j)"
    text = f"""func.func @f(%x: tensor<6x8xf32>, %w: tensor<8x4xf32>) -> tensor<2x3x4x4xf32> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<6x4xf32>) -> tensor<6x4xf32>
  %p = linalg.matmul ins(%x, %w : tensor<6x8xf32>, tensor<8x4xf32>) outs(%z : tensor<6x4xf32>) -> tensor<6x4xf32>
  %r = tensor.expand_shape %p [[0, 1], [2]] output_shape [2, 3, 4] : tensor<6x4xf32> into tensor<2x3x4xf32>
  %i = tensor.empty() : tensor<2x3x4x4xf32>
  %y = linalg.generic {{indexing_maps = [affine_map<{pairs} -> (a, b, i)>, affine_map<{pairs} -> (a, b, j)>,
                                        affine_map<{pairs} -> {pairs}>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
    ins(%r, %r : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%i : tensor<2x3x4x4xf32>) {{
  ^bb0(%one: f32, %other: f32, %o: f32):
    %d = arith.subf %one, %other : f32
    linalg.yield %d : f32
  }} -> tensor<2x3x4x4xf32>
  return %y : tensor<2x3x4x4xf32>
}}"""
    payload = loaded(tmp_path, text)
    simple = rewritten(payload.text, reshape_after_elementwise)
    assert "tensor<2x3x4xf32>" in simple
    check_result(payload, simple)
