"""Numbers rounded to bytes: sums and products give what divisions, roundings and conversions give, also at halves."""

import numpy as np
import pytest
from byte_support import COUNT, ENDS, LANES, numbers, roundings

from autotune.compiler.ir.module import context, parse
from autotune.compiler.lowering.program import compile_program
from autotune.compiler.passes.byte_rounding import round_bytes
from autotune.compiler.passes.pipelines import TAIL
from autotune.core.candidate import Candidate
from autotune.core.payload import Argument, Payload

EMPTY_SCRIPT = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op) { transform.yield }
}"""
DIVISORS = tuple(np.random.default_rng(7).uniform(1e-4, 1, 12).astype(np.float32))


def payload_of(divisor, read="math.roundeven %q"):
    kind, vector = f"memref<{COUNT}xf32>", f"vector<{LANES}xf32>"
    text = f"""func.func @apply(%x: {kind}, %y: {kind}) {{
      %zero = arith.constant 0 : index
      %step = arith.constant {LANES} : index
      %count = arith.constant {COUNT} : index
      %divisor = arith.constant dense<{divisor:.17e}> : {vector}
      scf.for %i = %zero to %count step %step {{
        %in = vector.load %x[%i] : {kind}, {vector}
        %q = arith.divf %in, %divisor : {vector}
        %out = {read} : {vector}
        vector.store %out, %y[%i] : {kind}, {vector}
      }}
      return
    }}"""
    return Payload("apply", text, "apply", (Argument("x", "input", (COUNT,)), Argument("y", "output", (COUNT,))))


def in_bytes(values):
    """As they are held in a byte's range; what is no number stays none."""
    return np.clip(values, np.float32(-128), np.float32(127))


@pytest.mark.parametrize("divisor", DIVISORS)
def test_bytes_are_those_of_a_division(divisor):
    x, y = numbers(divisor), np.empty(COUNT, np.float32)
    compile_program(payload_of(float(divisor)), Candidate(EMPTY_SCRIPT, TAIL)).bind([x, y]).run()
    with np.errstate(over="ignore"):
        wanted = np.rint(x / divisor)
    np.testing.assert_array_equal(in_bytes(y), in_bytes(wanted))


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize(("divisor", "lanes"), [*((each, LANES) for each in (0, *DIVISORS[:4])), (0, 64), (0.3, 128)])
def test_bytes_are_those_of_a_rounding_a_sum_and_limits(divisor, lanes, ends):
    x, y = numbers(np.float32(divisor or 1)), np.empty(COUNT, np.int8)
    x[~np.isfinite(x)] = 3e38
    program = compile_program(roundings(float(divisor), *ends, lanes=lanes), Candidate(EMPTY_SCRIPT, TAIL))
    program.bind([x, y]).run()
    with np.errstate(over="ignore"):
        whole = np.rint(x / np.float32(divisor) if divisor else x)
    np.testing.assert_array_equal(y, np.clip(whole + np.float32(ends[0]), *ends[1:]).astype(np.int8))


@pytest.mark.parametrize("divisor", [0, 0.3])
def test_a_byte_needs_neither_a_rounding_nor_a_conversion(divisor):
    with context():
        module = parse(roundings(divisor, -13, -128, 127).text, "payload")
        round_bytes(module)
        gone = ("roundeven", "fptosi", *["divf"] * bool(divisor))
        assert not [name for name in gone if name in str(module)]


@pytest.mark.parametrize(("divisor", "read", "left"), [(0.3, "math.roundeven %q", 0), (0.3, "math.ceil %q", 1)])
def test_nothing_divides_but_what_is_not_rounded_to_even(divisor, read, left):
    assert rewritten(divisor, read).count("arith.divf") == left


@pytest.mark.parametrize("divisor", [1e-30, 1e30])
def test_a_divisor_whose_reciprocal_might_lose_bits_divides(divisor):
    assert rewritten(divisor).count("arith.divf") == 1


def rewritten(divisor, read="math.roundeven %q"):
    with context():
        module = parse(payload_of(divisor, read).text, "payload")
        round_bytes(module)
        return str(module)


@pytest.mark.parametrize(("lanes", "left"), [(16, 1), (48, 1), (64, 0), (128, 0)])
def test_bytes_of_whole_vectors_are_moved_once(lanes, left):
    with context():
        module = parse(roundings(0, 0, -128, 127, lanes=lanes).text, "payload")
        round_bytes(module)
        assert str(module).count("arith.trunci") == left
