"""What is read off programs: their ops against what payloads say, their values against references, what is fused."""

import numpy as np
import pytest

from autotune.compiler.facts.fusion import read_edges
from autotune.compiler.facts.ops import read_ops
from autotune.compiler.ir.module import context, find_function, parse
from autotune.compiler.tasks.partition import partition
from autotune.contrib.analysis.bodies import COMPARE
from autotune.contrib.analysis.evaluate import Evaluation64
from autotune.contrib.analysis.values import BoundFunction, read_values
from autotune.core.payload import Argument
from autotune.registry import load_payload

SPECS = (
    "nano",
    "gpt,seq=8,d_model=16,layers=2,heads=2,d_ff=32,vocab=32,positions=16,function=decode",
    "matmul,m=8,n=12,k=16,transpose_b=1",
    "attention,heads=2,seq=16,d=8,causal=1",
    "softmax,rows=4,cols=24",
    "gelu,rows=4,cols=24",
    "layer_norm,rows=4,cols=24",
    "embedding,rows=4,cols=8,vocab=32",
    "conv,size=8,channels=4,filters=8,stride=2",
    "resnet_block,size=6,channels=4",
)


def inputs_of(payload):
    """Arrays of all arguments, as in the last case."""
    given = payload.make_inputs(0)
    for name, value in payload.cases[-1].values if payload.cases else ():
        given[name] = np.full_like(given[name], value)
    return given, [given.get(a.name, np.zeros(a.shape, np.float32)) for a in payload.arguments]


@pytest.fixture(params=SPECS)
def program(request):
    """A payload, its tagged function, and its ops with their facts."""
    payload = load_payload(request.param)
    text = partition(payload).payload.text
    with context():
        module = parse(text, payload.name)
        function = find_function(module, payload.entry)
        yield payload, function, *read_ops(function, [argument.role for argument in payload.arguments])


def test_evaluation_in_float64_is_the_reference(program):
    payload, function, *_ = program
    given, arrays = inputs_of(payload)
    found = Evaluation64(function, payload.arguments, arrays, lambda op, array: array).results
    wanted = payload.reference(**{a.name: given[a.name] for a in payload.arguments if a.role != "output"})
    for argument, array in zip(payload.written, wanted, strict=True):
        assert np.allclose(found[argument.name], array, rtol=1e-5, atol=1e-5), argument.name


def test_every_structured_op_is_known_and_has_values(program):
    payload, function, ops, facts = program
    assert [op.number for op in facts] == list(range(len(ops)))
    found, why = read_values(BoundFunction(function, payload.arguments, inputs_of(payload)[1]), ops, 0.0)
    assert {value.op for value in found} == set(range(len(ops)))
    assert "were not rounded" in why
    assert all(value.low <= value.high and np.isfinite([value.low, value.high]).all() for value in found)


def test_what_is_computed_together_has_one_task_and_every_value_between_ops_is_an_edge(program):
    _, function, ops, facts = program
    for edge in read_edges(function, ops):
        assert edge.producer < edge.reader
        if not edge.why_apart:
            assert facts[edge.producer].task == facts[edge.reader].task != ""
    fused = {edge.producer for edge in read_edges(function, ops) if not edge.why_apart}
    tagged = {number for number, op in enumerate(ops) if "autotune.task" in op.attributes}
    assert fused.isdisjoint(tagged)
    assert fused | tagged == set(range(len(ops)))


def facts_of(spec):
    payload = load_payload(spec)
    with context():
        module = parse(partition(payload).payload.text, spec)
        function = find_function(module, payload.entry)
        return payload, read_ops(function, [argument.role for argument in payload.arguments])[1]


@pytest.mark.parametrize("spec", ["matmul,m=8,n=12,k=16", "batch_matmul,batch=3,m=8,n=12,k=16"])
def test_operations_and_bytes_of_a_product_are_the_payloads(spec):
    payload, (op,) = facts_of(spec)
    assert op.arithmetic == payload.flops
    assert op.bytes == payload.bytes


def test_operations_of_a_model_contain_those_that_the_payload_needs():
    payload, facts = facts_of("nano")
    products = sum(op.arithmetic * op.trips for op in facts if "matmul" in op.kind)
    assert payload.flops <= products <= 1.05 * payload.flops  # the payload leaves out what a causal mask hides


def test_weights_of_layers_are_other_arrays_each_time_and_activations_are_not():
    _, facts = facts_of("nano")
    product = next(op for op in facts if op.kind == "matmul" and op.trips == 2)
    assert [access.moves for access in product.accesses] == [False, True, False]


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("gpt,seq=8,d_model=16,layers=1,heads=2,d_ff=32,vocab=32,positions=8", "a product reads it again and again"),
        ("gpt,seq=8,d_model=16,layers=1,heads=2,d_ff=32,vocab=32,positions=8", "others read it, too"),
        ("gpt,seq=8,d_model=16,layers=1,heads=2,d_ff=32,vocab=32,positions=8", "between them is extract slice"),
    ],
)
def test_what_stays_apart_says_what_decided(function, why):
    payload = load_payload(function)
    with context():
        module = parse(partition(payload).payload.text, function)
        tagged = find_function(module, payload.entry)
        ops, _ = read_ops(tagged, [argument.role for argument in payload.arguments])
        assert any(edge.why_apart.startswith(why) for edge in read_edges(tagged, ops))


ROUNDED = """
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  %a = bufferization.to_tensor %x restrict : memref<4xf32> to tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %big = arith.constant 1.0e5 : f32
  %one = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
    iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %p = arith.mulf %in, %big : f32
    linalg.yield %p : f32
  } -> tensor<4xf32>
  bufferization.materialize_in_destination %one in restrict writable %y : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}
"""


def test_a_value_that_a_type_cannot_hold_or_rounds_shows_as_an_error_of_the_output():
    arguments = [Argument("x", "input", (4,)), Argument("y", "output", (4,))]
    array = np.array([1.0, 0.5, 0.3, 0.1], np.float32)
    with context():
        module = parse(ROUNDED, "f")
        function = find_function(module, "f")
        ops, _ = read_ops(function, ["input", "output"])
        (value,), why = read_values(BoundFunction(function, arguments, [array, np.zeros(4, np.float32)]), ops, 10.0)
    assert why == ""
    errors = dict(value.errors)
    assert errors["f16"] == np.inf  # 1e5 is beyond the largest f16
    assert 0 < errors["bf16"] < 2**-8
    assert (value.high, value.low) == (1e5, pytest.approx(1e4))


def test_an_op_that_is_not_evaluated_is_named_and_what_was_seen_before_is_kept():
    text = ROUNDED.replace("arith.mulf %in, %big", "math.tan %in")
    arguments = [Argument("x", "input", (4,)), Argument("y", "output", (4,))]
    with context():
        module = parse(text, "f")
        function = find_function(module, "f")
        ops, _ = read_ops(function, ["input", "output"])
        found, why = read_values(BoundFunction(function, arguments, [np.ones(4, np.float32)] * 2), ops, 10.0)
    assert (found, why) == ([], "the evaluation ends at math.tan")


def test_comparisons_are_in_the_order_of_their_numbers():
    nan = np.nan
    names = [
        "false",
        "oeq",
        "ogt",
        "oge",
        "olt",
        "ole",
        "one",
        "ord",
        "ueq",
        "ugt",
        "uge",
        "ult",
        "ule",
        "une",
        "uno",
        "true",
    ]
    holds = {"o": False, "u": True}
    for name, function in zip(names, COMPARE["arith.cmpf"], strict=True):
        if name in ("true", "false", "ord", "uno"):
            continue
        assert bool(np.all(function(np.array([nan]), np.array([1.0])))) == holds[name[0]], name
        relation = {
            "eq": (0, 1, 0),
            "gt": (0, 0, 1),
            "ge": (0, 1, 1),
            "lt": (1, 0, 0),
            "le": (1, 1, 0),
            "ne": (1, 0, 1),
        }
        pairs = [bool(np.all(function(np.array([a]), np.array([1.0])))) for a in (0.0, 1.0, 2.0)]
        assert pairs == list(map(bool, relation[name[1:]])), name
