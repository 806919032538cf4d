"""An op as data: what families ask of it follows from its operands and its body, without MLIR."""

from dataclasses import replace

import pytest
from mlir import ir

from autotune.compiler.ir.module import context
from autotune.compiler.ir.nests import read_index
from autotune.compiler.tasks.partition import partition
from autotune.core.ops.op import BodyOp, Contraction, Index, IndexPart, LoopNest, Op, Operand
from autotune.core.ops.traversal import contraction_of, lanes_of, periods_of, transposed_loop, vectorizes
from autotune.registry import load_payload

BODY = (BodyOp("arith.mulf", (0, 1), ("f32",)), BodyOp("arith.addf", (2, 3), ("f32",)))


def at(*loops):
    return tuple(Index(((loop, 1),)) for loop in loops)


def product(a=(0, 2), b=(2, 1), *, start=0.0):
    sizes = (4, 8, 16)
    operands = tuple(Operand(tuple(sizes[d] for d in dims), "f32", at(*dims)) for dims in (a, b))
    written = Operand((4, 8), "f32", at(0, 1), is_filled=True, is_own=True, start=start, written=True)
    nest = LoopNest(sizes, ("parallel", "parallel", "reduction"))
    return Op(nest, operands=(*operands, written), body=BODY, gives=(4,), multiplies=True)


def elementwise(*indices):
    operands = (Operand((9,) * len(indices), "f32", indices), Operand((8, 8), "f32", at(0, 1), written=True))
    return Op(LoopNest((8, 8), ("parallel",) * 2), operands=operands, gives=(0,))


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (product(), Contraction(4, 8, 16, zeroed=True)),
        (product(start=1.0), Contraction(4, 8, 16)),
        (product(b=(1, 2)), Contraction(4, 8, 16, transposed_b=True, zeroed=True)),
        (product(a=(2, 0)), Contraction(4, 8, 16, transposed_a=True, zeroed=True)),
        (replace(product(), multiplies=False), None),
    ],
)
def test_a_contraction_is_read_off_the_indices_of_its_operands(op, expected):
    assert contraction_of(op) == expected
    assert vectorizes(op)


def test_an_operand_along_the_first_loop_is_transposed():
    assert transposed_loop(elementwise(*at(0, 1))) is None
    assert transposed_loop(elementwise(*at(1, 0))) == 0


def test_a_sum_of_loops_is_a_window_and_no_vector():
    windows = Index(((0, 1), (2, 1)))
    x, w = Operand((10, 8), "f32", (windows, *at(1))), Operand((3, 8), "f32", at(2, 1))
    y = Operand((8, 8), "f32", at(0, 1), written=True)
    op = Op(LoopNest((8, 8, 3), ("parallel", "parallel", "reduction")), operands=(x, w, y), body=BODY, gives=(4,))
    assert not vectorizes(op)
    lanes = lanes_of(op)
    assert (lanes.lane, lanes.row, lanes.products) == (1, 0, True)


@pytest.mark.parametrize(("filters", "rows", "row"), [(19, 1, 1), (4, 7, 2), (7, 7, 1)])
def test_filters_that_read_the_same_vectors_share_a_register_tile_where_they_are_many(filters, rows, row):
    x = Operand((2, 6, rows, 9), "f32", (*at(0, 4, 2), Index(((3, 1), (5, 1)))))
    w = Operand((2, filters, 6, 2), "f32", at(0, 1, 4, 5))
    y = Operand((2, filters, rows, 8), "f32", at(0, 1, 2, 3), written=True)
    nest = LoopNest((2, filters, rows, 8, 6, 2), (*["parallel"] * 4, "reduction", "reduction"))
    lanes = lanes_of(Op(nest, operands=(x, w, y), body=BODY, gives=(4,)))
    assert (lanes.lane, lanes.row, lanes.products) == (3, row, True)


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (Index(((1, 1),), 1), (1, 1)),
        (Index(parts=(IndexPart("floordiv", Index(((1, 1),)), 2),)), (1, 2)),
        (Index(parts=(IndexPart("floordiv", Index(((1, 3),)), 6),)), (1, 2)),
        (Index(parts=(IndexPart("mod", Index(((1, 1),)), 4),)), (1, 8)),
        (Index(((1, -1),), 7), ()),
    ],
)
def test_tiles_of_a_stencil_begin_where_its_reads_repeat(index, expected):
    assert periods_of(elementwise(*at(0), index)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d0 * 2 + d1 + 3", Index(((0, 2), (1, 1)), 3)),
        ("(d0 * 2 + d1) floordiv 3 + d0", Index(((0, 1),), 0, (IndexPart("floordiv", Index(((0, 2), (1, 1))), 3),))),
        ("((d0 mod 4) * 2) ceildiv 3", None),
        ("7", Index(constant=7)),
    ],
)
def test_an_index_is_read_as_a_sum(text, expected):
    with context():
        amap = ir.Attribute.parse(f"affine_map<(d0, d1) -> ({text})>").value
        read = read_index(amap.results[0])
    if expected is None:
        inner = Index(parts=(IndexPart("mod", Index(((0, 1),)), 4, 2),))
        expected = Index(parts=(IndexPart("ceildiv", inner, 3),))
    assert read == expected


def test_operands_of_a_task_say_where_they_come_from():
    softmax = partition(load_payload("softmax,rows=8,cols=32")).tasks[0]
    root = softmax.root
    assert [each.argument for each in softmax.ops[-1].inputs] == ["in0"]
    assert all(each.source is not None for each in root.inputs)
    assert root.outputs[0].argument == ""
