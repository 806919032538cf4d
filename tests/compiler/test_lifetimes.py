"""Lifetimes read off the IR: what may live at once never shares memory, and what escapes stays allocated."""

import pytest
from arena_support import KIND, SWAPPED, alloc, carry, copy, fill_and_use, lines, loop, plan

from autotune.compiler.ir.module import context, parse
from autotune.compiler.passes.arena import plan_arena
from autotune.core.arena_plan import BufferPlan


def apart(found, *numbers):
    """Tell whether buffers, by their order in the text, lie in different places."""
    return len({found.offsets[number] for number in numbers}) == len(numbers)


def test_buffers_used_one_after_the_other_share():
    copies = (copy("%in", "%a"), copy("%a", "%b"), copy("%b", "%c"), copy("%c", "%out"))
    found, text = plan(*map(alloc, "abc"), *copies)
    assert found.offsets[0] == found.offsets[2]
    assert apart(found, 0, 1)
    assert apart(found, 1, 2)
    assert (found.peak_bytes, found.naive_bytes, found.others) == (128, 192, 0)
    assert "memref.alloc" not in text


def test_a_buffer_lives_from_first_to_last_use_wherever_it_is_allocated():
    found, _ = plan(alloc("a"), alloc("b"), *(copy(*c) for c in (("%in", "%a"), ("%a", "%out"), ("%in", "%b"))))
    assert not apart(found, 0, 1)


def test_what_comes_into_a_loop_lives_for_all_of_it():
    found, _ = plan(alloc("a"), copy("%in", "%a"), loop(copy("%a", "%out"), fill_and_use("b")))
    assert apart(found, 0, 1)


def test_what_a_loop_writes_lives_for_all_of_it():
    found, _ = plan(alloc("a"), loop(fill_and_use("b"), copy("%in", "%a")), copy("%a", "%out"))
    assert apart(found, 0, 1)


def test_buffers_of_one_iteration_share():
    found, text = plan(loop(fill_and_use("a"), fill_and_use("b")))
    assert not apart(found, 0, 1)
    assert "memref.alloc" not in text


def test_buffers_before_and_after_a_loop_share():
    found, _ = plan(alloc("a"), loop(copy("%in", "%a")), copy("%a", "%out"), fill_and_use("b"))
    assert not apart(found, 0, 1)


def test_a_buffer_of_an_outer_iteration_lives_for_all_of_the_inner_loop_and_no_longer():
    inner = loop(copy("%a", "%out"), fill_and_use("b"), index="%j")
    found, _ = plan(loop(alloc("a"), copy("%in", "%a"), inner, fill_and_use("c")))
    assert apart(found, 0, 1)
    assert found.offsets[2] == 0
    assert found.peak_bytes == 128


def test_buffers_swapped_by_a_loop_share_with_nothing_until_their_last_use():
    found, text = plan(SWAPPED)
    assert apart(found, 0, 1, 2)
    assert apart(found, 0, 1, 3)
    assert not apart(found, 2, 3)
    assert "memref.alloc" not in text


def test_a_carried_buffer_never_shares_with_one_in_the_body():
    body = (copy("%x", "%out"), fill_and_use("t"))
    found, _ = plan(alloc("a"), copy("%in", "%a"), carry("%a", *body, yielded="%x"))
    assert apart(found, 0, 1)


def test_a_buffer_carried_through_an_inner_loop_lives_for_that_loop_only():
    inner = carry("%a", copy("%x", "%out"), yielded="%x")
    found, _ = plan(loop(alloc("a"), copy("%in", "%a"), inner, fill_and_use("b")))
    assert not apart(found, 0, 1)


def test_what_an_iteration_hands_to_the_next_stays_allocated_and_so_does_what_it_may_be_one_value_with():
    body = (alloc("t"), copy("%x", "%t"))
    found, text = plan(
        alloc("a"), copy("%in", "%a"), carry("%a", *body, yielded="%t"), copy("%r", "%out"), fill_and_use("free")
    )
    assert (len(found.buffers), found.others) == (1, 2)
    assert text.count("memref.alloc()") == 2


def test_what_a_branch_of_an_iteration_hands_to_the_next_stays_allocated():
    branch = lines(
        f"%s = scf.if %flag -> ({KIND}) {{",
        *(alloc("t"), copy("%x", "%t"), f"scf.yield %t : {KIND}"),
        "} else {",
        f"scf.yield %x : {KIND}",
        "}",
    )
    found, _ = plan(alloc("a"), copy("%in", "%a"), carry("%a", branch, yielded="%s"), copy("%r", "%out"))
    assert found == BufferPlan(others=2)


SLICE = "memref<8xf32, strided<[1], offset: 4>>"


@pytest.mark.parametrize(
    ("view", "kind", "at"),
    [
        (f"memref.subview %a[4] [8] [1] : {KIND} to {SLICE}", SLICE, "%c0"),
        (
            f"memref.expand_shape %a [[0, 1]] output_shape [4, 4] : {KIND} into memref<4x4xf32>",
            "memref<4x4xf32>",
            "%c0, %c0",
        ),
        (f"memref.cast %a : {KIND} to memref<?xf32>", "memref<?xf32>", "%c0"),
        (
            f"memref.reinterpret_cast %a to offset: [0], sizes: [2, 8], strides: [8, 1] : {KIND} to memref<2x8xf32>",
            "memref<2x8xf32>",
            "%c0, %c0",
        ),
        (f"arith.select %flag, %a, %in : {KIND}", KIND, "%c0"),
    ],
    ids=["subview", "expand_shape", "cast", "reinterpret_cast", "select"],
)
def test_use_of_a_view_is_use_of_the_buffer(view, kind, at):
    load = (f"%l = memref.load %v[{at}] : {kind}", f"memref.store %l, %out[%c0] : {KIND}")
    found, text = plan(alloc("a"), copy("%in", "%a"), f"%v = {view}", fill_and_use("b"), *load)
    assert apart(found, 0, 1)
    assert "memref.alloc" not in text


def test_use_of_a_view_of_a_view_is_use_of_the_buffer():
    kind = "memref<2xf32, strided<[1], offset: 6>>"
    views = (
        f"%v = memref.subview %a[4] [8] [1] : {KIND} to {SLICE}",
        f"%w = memref.subview %v[2] [2] [1] : {SLICE} to {kind}",
    )
    load = (f"%l = memref.load %w[%c0] : {kind}", f"memref.store %l, %out[%c0] : {KIND}")
    found, _ = plan(alloc("a"), copy("%in", "%a"), *views, fill_and_use("b"), *load)
    assert apart(found, 0, 1)


def test_both_values_of_a_branch_live_until_its_result_is_used():
    branch = lines(
        f"%r = scf.if %flag -> ({KIND}) {{",
        *(alloc("b"), copy("%in", "%b"), f"scf.yield %b : {KIND}"),
        "} else {",
        f"scf.yield %a : {KIND}",
        "}",
    )
    found, text = plan(alloc("a"), copy("%in", "%a"), branch, fill_and_use("c"), copy("%r", "%out"))
    assert apart(found, 0, 2)
    assert apart(found, 1, 2)
    assert "memref.alloc" not in text


def test_buffers_of_two_branches_share():
    found, _ = plan("scf.if %flag {", fill_and_use("a"), "} else {", fill_and_use("b"), "}")
    assert not apart(found, 0, 1)


def test_a_buffer_read_inside_a_structured_op_lives_until_then():
    maps = 'indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]'
    reader = lines(
        f"linalg.generic {{{maps}}} outs(%out : {KIND}) {{",
        "^bb0(%o: f32):",
        f"%l = memref.load %a[%c0] : {KIND}",
        "linalg.yield %l : f32",
        "}",
    )
    found, text = plan(alloc("a"), copy("%in", "%a"), fill_and_use("b"), reader)
    assert apart(found, 0, 1)
    assert "memref.alloc" not in text


def test_what_parallel_iterations_allocate_stays_and_what_they_use_lives_throughout():
    parallel = lines("scf.parallel (%i) = (%c0) to (%c5) step (%c1) {", copy("%a", "%out"), fill_and_use("b"), "}")
    found, text = plan(alloc("a"), copy("%in", "%a"), parallel)
    assert (len(found.buffers), found.others) == (1, 1)
    assert text.count("memref.alloc()") == 1


@pytest.mark.parametrize(
    ("use", "before"),
    [
        (f"func.call @outside(%a) : ({KIND}) -> ()", f"func.func private @outside({KIND})"),
        (f"%t = memref.alloc() : memref<1x{KIND}>\nmemref.store %a, %t[%c0] : memref<1x{KIND}>", ""),
        (f"%t = bufferization.to_tensor %a restrict : {KIND} to tensor<16xf32>", ""),
        (f"%t = memref.extract_aligned_pointer_as_index %a : {KIND} -> index", ""),
        (f"memref.dealloc %a : {KIND}", ""),
        (f'"test.unknown"(%a) : ({KIND}) -> ()', ""),
        (f'"test.unknown"() ({{\n{copy("%in", "%a")}\n"test.end"() : () -> ()\n}}) : () -> ()', ""),
    ],
    ids=["call", "store", "tensor", "pointer", "dealloc", "unknown", "unknown-region"],
)
def test_what_escapes_stays_allocated(use, before):
    found, text = plan(alloc("a"), copy("%in", "%a"), use, before=before)
    assert not found.buffers
    assert found.others >= 1
    assert "memref.view" not in text


def test_what_is_returned_stays_allocated():
    with context():
        module = parse(f"func.func @f() -> {KIND} {{\n{alloc('a')}\nreturn %a : {KIND}\n}}", "test")
        assert plan_arena(module) == BufferPlan(others=1)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        ("memref.alloc(%n)", "memref<?xf32>"),
        ("memref.alloc()", "memref<16xf32, 1>"),
        ("memref.alloc()", "memref<4x4xf32, strided<[8, 1]>>"),
        ("memref.alloc() {alignment = 4096 : i64}", KIND),
        ("memref.alloc()", "memref<4xcomplex<f32>>"),
        ("memref.alloc()", "memref<0xf32>"),
    ],
    ids=["dynamic", "memory-space", "strided", "page-aligned", "complex", "empty"],
)
def test_what_a_view_of_bytes_cannot_stand_for_stays_allocated(made, kind):
    found, _ = plan(f"%a = {made} : {kind}", f"%d = memref.dim %a, %c0 : {kind}")
    assert found == BufferPlan(others=1)


def test_a_parallel_loop_beside_buffers_is_counted_like_any_other():
    forall = """scf.forall (%p) in (4) {
      memref.copy %a, %out : KIND to KIND
    }""".replace("KIND", KIND)
    found, _ = plan(alloc("a"), alloc("b"), copy("%in", "%a"), forall, copy("%in", "%b"), copy("%b", "%out"))
    assert not apart(found, 0, 1)
