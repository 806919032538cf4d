"""Exponentials, sums and roundings of vectors of bytes: the same numbers with and without the instructions."""

from dataclasses import replace

import numpy as np
import pytest
from byte_support import COUNT, ENDS, numbers, roundings

from autotune.compiler.ir.module import context, parse
from autotune.compiler.lowering.program import compile_program
from autotune.compiler.passes.pipelines import TAIL
from autotune.contrib.byte_ops import exp_code, packs_code
from autotune.contrib.byte_ops.exp_code import write_byte_exps
from autotune.contrib.byte_ops.marks import EXP, PACKS, PACKS_BYTES, PERMUTES, SUMS
from autotune.contrib.byte_ops.packs_code import write_byte_packs
from autotune.contrib.byte_ops.sums_code import write_byte_sums
from autotune.core.candidate import Candidate
from autotune.core.host.matrix_unit import cpu_flags
from autotune.core.payload import Argument, Payload

EMPTY_SCRIPT = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op) { transform.yield }
}"""
needs_permutes = pytest.mark.skipif(PERMUTES not in cpu_flags(), reason="this processor has no vectors of 512 bits")
needs_packs = pytest.mark.skipif(PACKS_BYTES not in cpu_flags(), reason="this processor does not pack 64 bytes")


def rewritten(payload, write):
    """A payload whose text a rewrite of vectors has changed."""
    with context():
        module = parse(payload.text, payload.name)
        write(module)
        assert module.operation.verify()
        return replace(payload, text=str(module))


def called(payload, *arrays):
    """Call a payload's program once."""
    compile_program(payload, Candidate(EMPTY_SCRIPT, TAIL)).bind(list(arrays)).run()


def exponentials(lanes, factor, count):
    """A payload of exp(factor (x - y)) of bytes."""
    bytes_, kind = f"memref<{count}xi8>", f"vector<1x{lanes}xf32>"
    text = f"""func.func @apply(%x: {bytes_}, %y: {bytes_}, %z: memref<{count}xf32>) {{
      %begin = arith.constant 0 : index
      %step = arith.constant {lanes} : index
      %count = arith.constant {count} : index
      %factor = arith.constant dense<{factor:.17e}> : {kind}
      scf.for %i = %begin to %count step %step {{
        %a = vector.load %x[%i] : {bytes_}, vector<{lanes}xi8>
        %b = vector.load %y[%i] : {bytes_}, vector<{lanes}xi8>
        %c = vector.shape_cast %a : vector<{lanes}xi8> to vector<1x{lanes}xi8>
        %d = vector.shape_cast %b : vector<{lanes}xi8> to vector<1x{lanes}xi8>
        %e = arith.sitofp %c : vector<1x{lanes}xi8> to {kind}
        %f = arith.sitofp %d : vector<1x{lanes}xi8> to {kind}
        %g = arith.subf %e, %f : {kind}
        %h = arith.mulf %g, %factor : {kind}
        %k = math.exp %h {{{EXP}}} : {kind}
        %l = vector.shape_cast %k : {kind} to vector<{lanes}xf32>
        vector.store %l, %z[%i] : memref<{count}xf32>, vector<{lanes}xf32>
      }}
      return
    }}"""
    inputs = [Argument(name, "input", (count,), "i8") for name in "xy"]
    return Payload("apply", text, "apply", (*inputs, Argument("z", "output", (count,))))


def differences(count):
    """Bytes with all 511 differences of two."""
    step = np.resize(np.arange(-255, 256), count)
    x = np.clip(step, -128, 127)
    return x.astype(np.int8), (x - np.clip(step, x - 127, x + 128)).astype(np.int8), step


@needs_permutes
@pytest.mark.parametrize(("lanes", "factor"), [(64, 0.0396), (64, 0.29), (24, -0.11)])
def test_looked_up_exponentials_are_products_of_two_rounded_numbers(lanes, factor, monkeypatch):
    count = 9 * 64
    x, y, step = differences(count)
    assert (x.astype(int) - y == step).all()
    found, emulated = np.empty(count, np.float32), np.empty(count, np.float32)
    payload = exponentials(lanes, factor, count)
    called(rewritten(payload, write_byte_exps), x, y, found)
    true = np.exp(np.float64(np.float32(factor)) * step)
    assert (np.abs(found / true - 1) <= 1.501 * 2.0**-23).all()  # three roundings
    assert (found[step == 0] == 1).all()
    monkeypatch.setattr(exp_code, "cpu_flags", frozenset)
    called(rewritten(payload, write_byte_exps), x, y, emulated)
    np.testing.assert_array_equal(emulated, found)


@pytest.mark.parametrize(
    "change", [("factor = ", "factor = "), ("subf", "addf"), ("i8", "i16"), ("dense<2", "dense<4")]
)
def test_other_exponentials_stay(change):
    text = exponentials(64, 0.29, 64).text.replace(*change)
    with context():
        module = parse(text, "payload")
        write_byte_exps(module)
        assert ("math.exp" in str(module)) == (change[0] != change[1])


@needs_packs
@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize(("divisor", "lanes"), [(0, 64), (0.3, 128)])
def test_packs_give_the_bytes_that_limits_give(divisor, lanes, ends):
    x, packed, limited = numbers(np.float32(divisor or 1)), np.empty(COUNT, np.int8), np.empty(COUNT, np.int8)
    x[np.isnan(x)] = -3e38
    payload = roundings(float(divisor), *ends, lanes=lanes, mark=PACKS)
    called(rewritten(payload, write_byte_packs), x, packed)
    called(payload, x, limited)
    np.testing.assert_array_equal(packed, limited)


@pytest.mark.parametrize("flags", [frozenset(), frozenset({PACKS_BYTES})], ids=["without", "with"])
@pytest.mark.parametrize("lanes", [48, 64])
def test_only_whole_vectors_are_packed_where_the_processor_packs(lanes, flags, monkeypatch):
    monkeypatch.setattr(packs_code, "cpu_flags", lambda: flags)
    text = rewritten(roundings(0.3, -13, -128, 127, lanes=lanes, mark=PACKS), write_byte_packs).text
    assert ("packssdw" in text) == ("fptosi" not in text) == (lanes == 64 and bool(flags))


def totals(lanes, read="vector.reduction <add>, %total : vector<64xi32> into i32", rows=4):
    """A payload that sums rows of bytes in vectors, and then the lanes."""
    kind, length = f"vector<{lanes}xi32>", 4 * lanes
    text = f"""func.func @apply(%x: memref<{rows}x{length}xi8>, %y: memref<{rows}xi32>) {{
      %begin = arith.constant 0 : index
      %one = arith.constant 1 : index
      %step = arith.constant {lanes} : index
      %count = arith.constant {length} : index
      %rows = arith.constant {rows} : index
      %none = arith.constant dense<0> : {kind}
      scf.for %i = %begin to %rows step %one {{
        %total = scf.for %j = %begin to %count step %step iter_args(%sum = %none) -> ({kind}) {{
          %a = vector.load %x[%i, %j] : memref<{rows}x{length}xi8>, vector<{lanes}xi8>
          %b = arith.extsi %a {{{SUMS}}} : vector<{lanes}xi8> to {kind}
          %c = arith.addi %b, %sum : {kind}
          scf.yield %c : {kind}
        }}
        %r = {read.replace("64", str(lanes))}
        memref.store %r, %y[%i] : memref<{rows}xi32>
      }}
      return
    }}"""
    given = Argument("x", "input", (rows, length), "i8")
    return Payload("apply", text, "apply", (given, Argument("y", "output", (rows,), "i32")))


@pytest.mark.parametrize("flags", [frozenset(), None], ids=["without", "with"])
@pytest.mark.parametrize("lanes", [64, 128])
def test_sums_of_bytes_are_exact(lanes, flags, monkeypatch):
    if flags is not None:
        monkeypatch.setattr("autotune.compiler.passes.rounding.cpu_flags", lambda: flags)
    x = np.random.default_rng(3).integers(-128, 128, (4, 4 * lanes)).astype(np.int8)
    x[0], x[1], found = -128, 127, np.empty(4, np.int32)
    payload = rewritten(totals(lanes), write_byte_sums)
    assert SUMS not in payload.text
    called(payload, x, found)
    np.testing.assert_array_equal(found, x.sum(1, dtype=np.int32))


OTHERS = {
    "a lane": "vector.extract %total[5] : i32 from vector<64xi32>",
    "the largest": "vector.reduction <maxsi>, %total : vector<64xi32> into i32",
    "squares": """arith.constant 0 : i32
        %s = arith.muli %total, %total : vector<64xi32>
        %t = vector.reduction <add>, %s : vector<64xi32> into i32""",
}


@pytest.mark.parametrize("read", OTHERS.values(), ids=OTHERS)
def test_lanes_that_are_told_apart_stay(read):
    assert SUMS in rewritten(totals(64, read), write_byte_sums).text


def test_parts_of_a_vector_are_not_summed_by_dot_products():
    assert SUMS in rewritten(totals(16), write_byte_sums).text
