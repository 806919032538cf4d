"""Views of arrays in programs of others: those that may reach outside are refused, by the op; others are taken."""

import re

import pytest

from autotune.compiler.ir.limits import program_fault
from autotune.compiler.ir.module import context, every_op, parse
from autotune.compiler.script.checks import open_fault
from autotune.compiler.tasks.payload_file import read_payload
from autotune.core.errors import PayloadError

A, BYTES, FREE = "memref<16xf32>", "memref<64xi8>", "memref<?xf32>"
ANY = "memref<?xf32, strided<[?], offset: ?>>"
EIGHT = "memref<4xf32, strided<[1], offset: 8>>"
MOVED = "memref<4xf32, strided<[1], offset: ?>>"
FOR = "scf.for %i = %c0 to %{} step %c4 {{ %v = memref.subview %a[%i] [4] [1] : " + f"{A} to {MOVED} }}}}"
FORALL = "scf.forall (%i) in ({}) {{ %v = memref.subview %a[%i] [4] [1] : " + f"{A} to {MOVED} }}}}"
PARALLEL = (
    "scf.parallel (%j, %i) = (%c0, %c0) to (%c64, %{}) step (%c4, %c4) {{ "
    f"%v = memref.subview %a[%i] [4] [1] : {A} to {MOVED} }}}}"
)
CASTS = f"to offset: [{{}}], sizes: [{{}}], strides: [{{}}] : {A} to"
INSIDE = {
    "a part": f"%v = memref.subview %a[8] [4] [1] : {A} to {EIGHT}",
    "a part by a constant": f"%v = memref.subview %a[%c12] [4] [1] : {A} to {MOVED}",
    "every other, backwards": f"%v = memref.subview %a[15] [8] [-2] : {A} to memref<8xf32, strided<[-2], offset: 15>>",
    "a part of a loop": FOR.format("c16"),
    "a part of a parallel loop": FORALL.format(13),
    "a part of several parallel loops": PARALLEL.format("c16"),
    "a loop that never runs": FOR.format("c0"),
    "a part of a part": f"%v = memref.subview %a[8] [4] [1] : {A} to {EIGHT}\n"
    f"%w = memref.subview %v[3] [1] [1] : {EIGHT} to memref<1xf32, strided<[1], offset: 11>>",
    "another shape by a cast": f"%v = memref.reinterpret_cast %a {CASTS.format(0, '4, 4', '4, 1')} memref<4x4xf32>",
    "nothing": f"%v = memref.reinterpret_cast %a {CASTS.format(0, '0', '1')} memref<0xf32>",
    "bytes": f"%v = memref.view %b[%c0][] : {BYTES} to memref<2x8xf32>",
    "bytes behind others": f"%v = memref.view %b[%c48][%c4] : {BYTES} to {FREE}",
    "rows": f"%v = memref.expand_shape %a [[0, 1]] output_shape [4, 4] : {A} into memref<4x4xf32>\n"
    "%w = memref.collapse_shape %v [[0, 1]] : memref<4x4xf32> into memref<16xf32>",
    "a type that says less": f"%v = memref.cast %a : {A} to {FREE}\n%w = memref.cast %v : {FREE} to {ANY}",
    "a shape that is read": f"%v = memref.reshape %a(%s) : ({A}, memref<2xindex>) -> memref<4x4xf32>",
}
LONG = "memref<1000xf32>"
OUTSIDE = {
    "a part by an argument's number": f"%v = memref.subview %a[%n] [4] [1] : {A} to {MOVED}",
    "as many as an argument's number": f"%v = memref.subview %a[0] [%n] [1] : {A} to {FREE}",
    "a step of an argument's number": f"%v = memref.subview %a[0] [2] [%n] : {A} to memref<2xf32, strided<[?]>>",
    "a part by a constant outside": f"%v = memref.subview %a[%c16] [4] [1] : {A} to {MOVED}",
    "a part before the first": f"%v = memref.subview %a[%m] [4] [1] : {A} to {MOVED}",
    "a part of a loop that goes on": FOR.format("c64"),
    "a part of a loop of free bounds": FOR.format("n"),
    "a part of a parallel loop that goes on": FORALL.format(14),
    "a part of several parallel loops, one of which goes on": PARALLEL.format("c64"),
    "a loop whose index wraps": "scf.for %i = %c4 to %c12 step %huge { "
    f"%v = memref.subview %a[%i] [4] [1] : {A} to {MOVED} }}",
    "a loop over what is carried": "%r = scf.for %i = %c0 to %c4 step %c4 iter_args(%x = %n) -> index { "
    f"%v = memref.subview %a[%x] [4] [1] : {A} to {MOVED}\nscf.yield %i : index }}",
    "a cast to more": f"%v = memref.reinterpret_cast %a {CASTS.format(0, 1000, 1)} {LONG}",
    "a cast to before": f"%v = memref.reinterpret_cast %a {CASTS.format(0, 4, -1)} memref<4xf32, strided<[-1]>>",
    "a cast by wide steps": f"%v = memref.reinterpret_cast %a {CASTS.format(0, 4, 100)} memref<4xf32, strided<[100]>>",
    "a cast to anywhere": f"%v = memref.reinterpret_cast %a {CASTS.format('%n', 4, 1)} {MOVED}",
    "a cast to any length": f"%v = memref.reinterpret_cast %a {CASTS.format(0, '%n', 1)} {FREE}",
    "a cast from a part that is anywhere": f"%v = memref.subview %a[%c4] [4] [1] : {A} to {MOVED}\n"
    f"%w = memref.reinterpret_cast %v to offset: [0], sizes: [4], strides: [1] : {MOVED} to memref<4xf32>",
    "more bytes": f"%v = memref.view %b[%c4][] : {BYTES} to {A}",
    "bytes before": f"%v = memref.view %b[%m][] : {BYTES} to {A}",
    "bytes anywhere": f"%v = memref.view %b[%n][] : {BYTES} to memref<1xf32>",
    "bytes of any length": f"%v = memref.view %b[%c0][%n] : {BYTES} to {FREE}",
    "a type that says more": f"%v = memref.cast %a : {A} to {FREE}\n%w = memref.cast %v : {FREE} to {LONG}",
    "a type that says more by none": f"%v = memref.cast %a : {A} to memref<*xf32>\n"
    f"%w = memref.cast %v : memref<*xf32> to {LONG}",
    "steps that say more": f"%v = memref.cast %a : {A} to {ANY}\n%w = memref.cast %v : {ANY} to "
    "memref<?xf32, strided<[100], offset: ?>>",
    "a shape that is longer": f"%v = memref.reshape %a(%s) : ({A}, memref<2xindex>) -> memref<?x?xf32>",
    "rows of any number": f"%v = memref.cast %a : {A} to {FREE}\n"
    f"%w = memref.expand_shape %v [[0, 1]] output_shape [%n, 4] : {FREE} into memref<?x4xf32>",
    "no array": f"%v = ub.poison : {A}",
}


def program(body):
    constants = [0, 4, 12, 16, 48, 64]
    lines = [f"%c{n} = arith.constant {n} : index" for n in constants]
    lines += ["%m = arith.constant -4 : index", f"%huge = arith.constant {(1 << 63) - 1} : index"]
    lines += ["%n = memref.load %s[%c0] : memref<2xindex>", "%one = arith.constant 1.0 : f32"]
    arguments = f"%a: {A}, %b: {BYTES}"
    shape = "%s = memref.alloc() : memref<2xindex>"
    lines = [shape, *lines, f"memref.store %one, %a[%c0] : {A}", body, "return"]
    return f"func.func @f({arguments}) {{\n" + "\n".join(lines) + "\n}"


@pytest.mark.parametrize("body", INSIDE.values(), ids=INSIDE)
def test_views_that_lie_inside_are_taken(body):
    with context():
        assert program_fault(parse(program(body), "mine")) is None


@pytest.mark.parametrize("body", OUTSIDE.values(), ids=OUTSIDE)
def test_views_that_may_reach_outside_are_refused_by_the_op(body):
    name = re.findall(r"memref\.[a-z_]+ %|ub.poison", body)[-1].removesuffix(" %")
    with context():
        module = parse(program(body), "mine")
        fault = program_fault(module)
        own = next(f for op in every_op(module) if (f := open_fault(op)) is not None)
    assert fault == own
    assert "\n" not in fault
    assert fault.startswith("must hold views ")
    assert f", {name} of " in fault or f", {name} is of none" in fault


def test_a_file_with_such_a_view_is_refused_in_one_line():
    with pytest.raises(
        PayloadError, match=r"^mine.mlir must hold views .* memref.reinterpret_cast of memref<16xf32> .*;"
    ):
        read_payload("mine.mlir", program(OUTSIDE["a cast to more"]))
    read_payload("mine.mlir", program(INSIDE["another shape by a cast"]))


@pytest.mark.parametrize("layout", ["strided<[1000]>", "strided<[1], offset: 9>", "affine_map<(i) -> (i + 9)>"])
def test_an_argument_whose_type_says_where_its_elements_are_is_refused(layout):
    text = f"func.func @f(%a: memref<4xf32, {layout}>, %b: memref<4xf32>) {{\n"
    text += f"linalg.copy ins(%a : memref<4xf32, {layout}>) outs(%b : memref<4xf32>)\nreturn\n}}"
    with pytest.raises(PayloadError, match=r"^argument 0 of @f in mine.mlir must be memref<4xf32>, .*; copy it"):
        read_payload("mine.mlir", text)
