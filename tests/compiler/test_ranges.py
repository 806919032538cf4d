"""Ranges of a file's arguments: what it says of them, or how many places there are where integers are places."""

import numpy as np
import pytest

import autotune as at
from autotune.core.errors import PayloadError
from autotune.worker.loading.reading import open_payload

GATHER = """func.func @rows(%ids: memref<5xi64>{said}, %table: memref<7x4xf32>, %out: memref<5x4xf32>) {{
  %i = bufferization.to_tensor %ids restrict : memref<5xi64> to tensor<5xi64>
  %t = bufferization.to_tensor %table restrict : memref<7x4xf32> to tensor<7x4xf32>
  %zero = arith.constant 0 : i64
  %seven = arith.constant 7 : i64
  %e = tensor.empty() : tensor<5x4xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}}
    ins(%i : tensor<5xi64>) outs(%e : tensor<5x4xf32>) {{
  ^bb0(%id: i64, %o: f32):
    %from_end = arith.addi %id, %seven : i64
    %negative = arith.cmpi slt, %id, %zero : i64
    %row = arith.select %negative, %from_end, %id : i64
    %place = arith.index_cast %row : i64 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %t[%place, %column] : tensor<7x4xf32>
    linalg.yield %v : f32
  }} -> tensor<5x4xf32>
  bufferization.materialize_in_destination %r in restrict writable %out : (tensor<5x4xf32>, memref<5x4xf32>) -> ()
  return
}}"""


def loaded(folder, said=""):
    path = folder / "rows.mlir"
    path.write_text(GATHER.format(said=said))
    return open_payload(path)


def test_integers_that_are_places_of_a_table_are_drawn_from_its_places(tmp_path):
    payload = loaded(tmp_path)
    assert (payload.arguments[0].low, payload.arguments[0].high) == (0, 7)
    drawn = np.concatenate([payload.make_inputs(seed)["arg0"] for seed in range(20)])
    assert set(drawn) == set(range(7))


def test_a_file_says_the_range_of_an_argument(tmp_path):
    payload = loaded(tmp_path, " {autotune.low = 2 : i64, autotune.high = 4 : i64}")
    assert set(payload.make_inputs(0)["arg0"]) <= {2, 3}


def test_a_range_that_holds_nothing_is_refused(tmp_path):
    with pytest.raises(PayloadError, match=r"autotune.low of argument 0 must be below autotune.high, got 4 and 2"):
        loaded(tmp_path, " {autotune.low = 4 : i64, autotune.high = 2 : i64}")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('autotune.low = "x"', 'autotune.low of argument 0 must be a finite number, got "x"'),
        ("autotune.high", "autotune.high of argument 0 must be a finite number, got unit"),
        ("autotune.high = 0x7F800000 : f32", "autotune.high of argument 0 must be a finite number, got 0x7F800000"),
        ("autotune.high = 1.0e30 : f64", r"autotune.high of argument 0 must be a range of i64, got 0 and 1e\+30"),
        ("autotune.role = 3 : i64", "autotune.role of argument 0 must be one of input, .* as a text, got 3 : i64"),
    ],
)
def test_what_a_file_says_of_an_argument_and_is_nothing_of_the_kind_is_refused(said, words, tmp_path):
    with pytest.raises(PayloadError, match=words):
        loaded(tmp_path, f" {{{said}}}")


def test_a_call_gives_indices_that_there_are_and_negative_ones_where_they_count_from_the_end(tmp_path):
    assert loaded(tmp_path).arguments[0].accepts == (-7, 7)
    said = loaded(tmp_path, " {autotune.low = 2 : i64, autotune.high = 4 : i64}")
    assert said.arguments[0].accepts == (-7, 7)


@pytest.mark.parametrize(
    ("row", "accepts"),
    [
        ("%row = arith.addi %id, %zero : i64", (0, 7)),
        ("%row = arith.subi %id, %seven : i64", (7, 14)),
        ("%row = arith.minsi %id, %two : i64", (0, 2**63)),
        ("%row = arith.muli %id, %two : i64", (0, 4)),
        ("%row = arith.remsi %id, %seven : i64", (0, 2**63)),
        ("%row = arith.remui %id, %seven : i64", (-(2**63), 2**63)),
        ("%row = arith.andi %id, %two : i64", (-(2**63), 2**63)),
        ("%row = arith.minui %id, %two : i64", (-(2**63), 2**63)),
        ("%row = arith.divsi %id, %two : i64", (0, 14)),
        ("%row = arith.divui %id, %two : i64", (0, 14)),
        ("%row = arith.floordivsi %id, %two : i64", (0, 14)),
        ("%row = arith.shrsi %id, %two : i64", (0, 28)),
        ("%row = arith.shrui %id, %two : i64", (0, 28)),
        ("%c = arith.maxsi %id, %zero : i64\n %row = arith.minsi %c, %two : i64", (-(2**63), 2**63)),
        ("%row = arith.xori %id, %two : i64", (0, 7)),  # what is not understood: the range of random data
    ],
)
def test_a_call_gives_what_is_an_index_in_the_end(tmp_path, row, accepts):
    text = GATHER.format(said="")
    first, last = text.index("    %from_end"), text.index("    %place")
    text = text[:first] + row + "\n" + text[last:]
    path = tmp_path / "rows.mlir"
    path.write_text(text.replace("  %seven =", "  %two = arith.constant 2 : i64\n  %seven ="))
    assert open_payload(path).arguments[0].accepts == accepts


APART = """func.func @rows(%ids: memref<5x5xi32>, %table: memref<7xf32>, %out: memref<5x5xf32>) {{
  %i = bufferization.to_tensor %ids restrict : memref<5x5xi32> to tensor<5x5xi32>
  %t = bufferization.to_tensor %table restrict : memref<7xf32> to tensor<7xf32>
  %zero = arith.constant 0 : i64
  %seven = arith.constant 7 : i32
  %e = tensor.empty() : tensor<5x5xi32>
  %b = tensor.empty() : tensor<5x5xi1>
  %f = tensor.empty() : tensor<5x5xf32>
  %negative = linalg.generic {{indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}}
    ins(%i : tensor<5x5xi32>) outs(%b : tensor<5x5xi1>) {{
  ^bb0(%id: i32, %o: i1):
    %wide = arith.extsi %id : i32 to i64
    %c = arith.cmpi slt, %wide, %zero : i64
    linalg.yield %c : i1
  }} -> tensor<5x5xi1>
  %from_end = linalg.generic {{indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}}
    ins(%i : tensor<5x5xi32>) outs(%e : tensor<5x5xi32>) {{
  ^bb0(%id: i32, %o: i32):
    %c = arith.addi %id, %seven : i32
    linalg.yield %c : i32
  }} -> tensor<5x5xi32>
  %r = linalg.generic {{indexing_maps = [{maps}, #same], iterator_types = ["parallel", "parallel"]}}
    ins(%negative, %from_end, %i : tensor<5x5xi1>, tensor<5x5xi32>, tensor<5x5xi32>) outs(%f : tensor<5x5xf32>) {{
  ^bb0(%c: i1, %behind: i32, %id: i32, %o: f32):
    %row = arith.select %c, %behind, %id : i32
    %place = arith.index_cast %row : i32 to index
    %v = tensor.extract %t[%place] : tensor<7xf32>
    linalg.yield %v : f32
  }} -> tensor<5x5xf32>
  bufferization.materialize_in_destination %r in restrict writable %out : (tensor<5x5xf32>, memref<5x5xf32>) -> ()
  return
}}"""
MAPS = "#same = affine_map<(i, j) -> (i, j)>\n#turned = affine_map<(i, j) -> (j, i)>\n"


@pytest.mark.parametrize(
    ("maps", "accepts"),
    [
        ("#same, #same, #same", (-7, 7)),
        ("#turned, #turned, #turned", (-7, 7)),
        ("#turned, #same, #same", (0, 7)),
        ("#same, #turned, #same", (0, 7)),
        ("#same, #same, #turned", (0, 7)),
    ],
)
def test_what_another_nest_compared_is_known_of_the_same_elements_alone(tmp_path, maps, accepts):
    path = tmp_path / "rows.mlir"
    path.write_text(MAPS + APART.format(maps=maps))
    assert open_payload(path).arguments[0].accepts == accepts


def test_integers_that_are_no_indices_take_every_value(tmp_path):
    path = tmp_path / "plain.mlir"
    path.write_text("""func.func @plain(%x: tensor<5xi32>) -> tensor<5xi32> {
  %e = tensor.empty() : tensor<5xi32>
  %y = linalg.add ins(%x, %x : tensor<5xi32>, tensor<5xi32>) outs(%e : tensor<5xi32>) -> tensor<5xi32>
  return %y : tensor<5xi32>
}""")
    argument = open_payload(path).arguments[0]
    assert (argument.low, argument.high, argument.accepts) == (-8, 8, (-(2**31), 2**31))
    x = np.array([2000, -9, 8, 0, 1 << 20], np.int32)
    np.testing.assert_array_equal(at.compile(path)(x), 2 * x)


LOOP = """func.func @sums(%ids: memref<8xi64>, %table: memref<8xf32>, %out: memref<8xf32>) {{
  %i = bufferization.to_tensor %ids restrict : memref<8xi64> to tensor<8xi64>
  %t = bufferization.to_tensor %table restrict : memref<8xf32> to tensor<8xf32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %step = arith.constant {step} : index
  %fixed = arith.constant 8 : index
  %none = arith.constant 0 : i64
  %first = tensor.extract %i[%zero] : tensor<8xi64>
  %given = arith.index_cast %first : i64 to index
  %e = tensor.empty() : tensor<8xf32>
  %r:2 = scf.for %n = %zero to {end} step %step iter_args(%made = %e, %sum = %none) -> (tensor<8xf32>, i64) {{
    %behind = arith.addi %n, %one : index
    %id = tensor.extract %i[{read}] : tensor<8xi64>
    %more = arith.addi %sum, %id : i64
    %place = arith.index_cast %more : i64 to index
    %v = tensor.extract %t[{place}] : tensor<8xf32>
    %f = arith.sitofp %more : i64 to f32
    %s = arith.addf %v, %f : f32
    %w = tensor.insert %s into %made[%n] : tensor<8xf32>
    scf.yield %w, %more : tensor<8xf32>, i64
  }}
  bufferization.materialize_in_destination %r#0 in restrict writable %out : (tensor<8xf32>, memref<8xf32>) -> ()
  return
}}"""
ANY = (-(2**63), 2**63)


@pytest.mark.parametrize(
    ("said", "accepts"),
    [
        ({}, ANY),  # what a loop carries is no index of its own
        ({"step": 2, "read": "%behind"}, ANY),  # one behind the last of several that take a step together
        ({"place": "%place"}, (0, 8)),  # sums are indices: the range of random data
        ({"end": "%given"}, (-8, 8)),  # a number that is given says how far
    ],
)
def test_what_a_loop_carries_is_an_index_where_it_is_used_as_one(said, accepts, tmp_path):
    text = LOOP.format(**{"step": 1, "end": "%fixed", "read": "%n", "place": "%n", **said})
    (tmp_path / "sums.mlir").write_text(text)
    assert open_payload(tmp_path / "sums.mlir").arguments[0].accepts == accepts
