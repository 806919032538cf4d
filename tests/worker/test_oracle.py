"""Every schedule against NumPy and against the plain lowering of the same payload, on sizes that do not divide."""

import numpy as np
import pytest
from tuning_support import (
    MACHINES,
    agrees,
    contraction_payload,
    default_steps,
    product_of,
    random_configs,
    run,
    run_steps,
    tensor_payload,
)

from autotune.compiler.passes.pipelines import PLAIN, TAIL
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.core.payload import Argument
from autotune.core.scripts.assembly import assemble, write_step
from autotune.registry import families, load_family, load_payload
from autotune.worker.bench.verify import verify

LAYOUTS = [("mk", "kn"), ("mk", "nk"), ("km", "kn"), ("km", "nk")]
MATMULS = [(1, 1, 1), (1, 53, 17), (61, 1, 3), (67, 131, 71)]  # m, n, k
BATCHES = [(1, 5, 7, 3), (3, 19, 23, 11)]  # batch, m, n, k
# Every layout with a size that nothing divides, and the narrow ones with one or two layouts.
PRODUCTS = [(MATMULS[-1], *layout) for layout in LAYOUTS]
PRODUCTS += [(MATMULS[0], "mk", "kn"), (MATMULS[1], "mk", "nk"), (MATMULS[1], "km", "kn")]
PRODUCTS += [(MATMULS[2], "km", "nk"), (MATMULS[2], "mk", "kn")]
ORDERS = ["mnk", "nkm", "kmn"]
UNARY = {
    "exp": "%done = math.exp %in : f32",
    "tanh": "%done = math.tanh %in : f32",
    "double": "%done = arith.addf %in, %in : f32",
}
REDUCERS = {"sum": ("arith.addf", 0.0), "max": ("arith.maximumf", "-1.0e+30")}


def check_configs(payload, expected, *, machine, count, family=None, seed=0):
    """Each config of the payload's only task gives what NumPy says."""
    parts = partition(payload)
    (task,) = parts.tasks
    family = family or next(f for f in families() if f.covers(task))
    inputs = payload.make_inputs(seed)
    expected = expected(inputs)
    for config in random_configs(family, task, machine, count, seed):
        steps = [write_step(task, family, config, machine)]
        got = run_steps(payload, parts, inputs, steps)
        verdict = verify(payload, got, expected)
        assert verdict.outcome == "ok", f"{config}: {verdict.diagnostic}"


@pytest.mark.parametrize(("a", "b"), LAYOUTS)
def test_plain_lowering_computes_the_product_of_every_layout(a, b):
    for payload in (contraction_payload(*MATMULS[-1], a=a, b=b), contraction_payload(19, 23, 11, batch=3, a=a, b=b)):
        inputs = payload.make_inputs(0)
        agrees(payload, run(payload, inputs, None, PLAIN), [product_of(payload, inputs, a=a, b=b)])


@pytest.mark.parametrize(("sizes", "a", "b"), PRODUCTS, ids=str)
def test_matmul_schedule_is_right_for_every_layout_and_size(sizes, a, b):
    payload = contraction_payload(*sizes, a=a, b=b)
    expected = lambda inputs: [product_of(payload, inputs, a=a, b=b)]  # noqa: E731
    check_configs(payload, expected, machine=this_machine(), count=2, seed=sum(sizes))


@pytest.mark.parametrize(
    ("sizes", "b"),
    [*((MATMULS[-1], b) for b in ("kn", "nk")), *zip(MATMULS[:-1], ("kn", "nk", "kn"), strict=True)],
    ids=str,
)
def test_matmul_with_a_weight_stored_as_the_schedule_likes_is_right(sizes, b):
    payload = contraction_payload(*sizes, b=b, role_b="weight")
    expected = lambda inputs: [product_of(payload, inputs, b=b)]  # noqa: E731
    check_configs(payload, expected, machine=this_machine(), count=2, seed=sum(sizes))


@pytest.mark.parametrize(
    ("sizes", "a", "b"), [(BATCHES[0], "mk", "kn"), *((BATCHES[1], *layout) for layout in LAYOUTS)], ids=str
)
def test_batch_matmul_schedule_is_right_for_every_layout_and_size(sizes, a, b):
    batch, *sizes = sizes
    payload = contraction_payload(*sizes, batch=batch, a=a, b=b)
    expected = lambda inputs: [product_of(payload, inputs, a=a, b=b)]  # noqa: E731
    check_configs(payload, expected, machine=this_machine(), count=2, seed=sum(sizes))


@pytest.mark.parametrize(("machine", "a", "b"), [(("sse", "avx512")[a == b[::-1]], a, b) for a, b in LAYOUTS])
def test_schedule_for_another_machine_is_right_on_this_one(machine, a, b):
    payload = contraction_payload(35, 45, 19, a=a, b=b)
    expected = lambda inputs: [product_of(payload, inputs, a=a, b=b)]  # noqa: E731
    check_configs(payload, expected, machine=MACHINES[machine], count=2)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("b", ["kn", "nk"])
def test_cache_tiles_with_every_way_of_packing_and_unrolling_are_right(order, b):
    payload = contraction_payload(130, 197, 139, b=b)
    parts = partition(payload)
    (task,) = parts.tasks
    family, machine = load_family("matmul"), MACHINES["sse"]
    space = family.space(task, machine)
    (packing,) = [knob for knob in space.knobs if knob.name == "pack_b"]
    inputs = payload.make_inputs(0)
    wanted = {"tile_m": 64, "tile_n": 64, "tile_k": 64, "order": order}
    wanted |= {"register_m": 2, "register_n": 2, "vector_width": 4, "unroll_k": 2}
    fetched = [(pack, ahead) for pack in packing.values for ahead in ((False, True) if pack == "panels" else (False,))]
    turned = [(pack, False) for pack in packing.values][ORDERS.index(order) :: len(ORDERS)]  # order matters to copies
    for pack, ahead in fetched if b == "kn" else turned:
        config = {**family.default(task, machine), **wanted, "pack_b": pack, "prefetch": ahead}
        space.check(config)
        assert space.broken_constraint(config) is None
        script = assemble([write_step(task, family, config, machine)])
        got = run(payload, inputs, script, TAIL, text=parts.payload.text)
        agrees(payload, got, [product_of(payload, inputs, b=b)])


def test_fallback_family_is_right_on_a_contraction_too():
    payload = contraction_payload(13, 31, 17)
    expected = lambda inputs: [product_of(payload, inputs)]  # noqa: E731
    check_configs(payload, expected, machine=this_machine(), count=2, family=load_family("vectorize"))


def generic(inputs, output, maps, iterators, body):
    """A linalg.generic over ``%x`` in the letters of its maps, that writes ``%result``."""
    indexing = ", ".join(f"affine_map<(i, j) -> ({', '.join(m)})>" for m in maps)
    kinds = ", ".join(f'"{kind}"' for kind in iterators)
    return f"""linalg.generic {{indexing_maps = [{indexing}], iterator_types = [{kinds}]}}
      ins(%x : {inputs}) outs({output}) {{
    ^bb0(%in: f32, %out: f32):
      {body}
      linalg.yield %done : f32
    }} -> {output.split(": ")[1]}"""


def unary_payload(name, rows, columns):
    shape = (rows, columns)
    kind = f"tensor<{rows}x{columns}xf32>"
    op = generic(kind, f"%empty : {kind}", ["ij", "ij"], ["parallel"] * 2, UNARY[name])
    body = f"%empty = tensor.empty() : {kind}\n    %result = {op}"
    return tensor_payload("unary", [Argument("x", "input", shape), Argument("y", "output", shape)], body)


def reduction_payload(name, rows, columns):
    op, start = REDUCERS[name]
    kind = f"tensor<{rows}xf32>"
    reduce = generic(
        f"tensor<{rows}x{columns}xf32>",
        f"%starts : {kind}",
        ["ij", "i"],
        ["parallel", "reduction"],
        f"%done = {op} %in, %out : f32",
    )
    body = f"""%start = arith.constant {start} : f32
    %empty = tensor.empty() : {kind}
    %starts = linalg.fill ins(%start : f32) outs(%empty : {kind}) -> {kind}
    %result = {reduce}"""
    arguments = [Argument("x", "input", (rows, columns)), Argument("y", "output", (rows,))]
    return tensor_payload("reduction", arguments, body, reduction=columns)


def transpose_payload(rows, columns):
    kind = f"tensor<{columns}x{rows}xf32>"
    body = f"""%empty = tensor.empty() : {kind}
    %result = linalg.transpose ins(%x : tensor<{rows}x{columns}xf32>) outs(%empty : {kind}) permutation = [1, 0]"""
    arguments = [Argument("x", "input", (rows, columns)), Argument("y", "output", (columns, rows))]
    return tensor_payload("turn", arguments, body)


@pytest.mark.parametrize(("name", "shape"), [("double", (1, 1)), *((name, (6, 37)) for name in UNARY)], ids=str)
def test_vectorized_element_wise_op_is_right(name, shape):
    functions = {"exp": np.exp, "tanh": np.tanh, "double": lambda x: x + x}
    payload = unary_payload(name, *shape)
    expected = lambda inputs: [functions[name](inputs["x"].astype(np.float64))]  # noqa: E731
    check_configs(payload, expected, machine=this_machine(), count=2)


@pytest.mark.parametrize(
    ("name", "shape"), [("sum", (1, 1)), ("sum", (6, 67)), ("max", (6, 67)), ("max", (5, 1))], ids=str
)
def test_vectorized_row_reduction_is_right(name, shape):
    payload = reduction_payload(name, *shape)
    reduce = np.sum if name == "sum" else np.max
    expected = lambda inputs: [reduce(inputs["x"].astype(np.float64), axis=1)]  # noqa: E731
    check_configs(payload, expected, machine=this_machine(), count=3)


@pytest.mark.parametrize(
    ("machine", "shape"), [(None, (1, 1)), (None, (37, 22)), (None, (8, 64)), ("sse", (37, 22))], ids=str
)
def test_vectorized_transpose_is_right(machine, shape):
    payload = transpose_payload(*shape)
    host = MACHINES[machine] if machine else this_machine()
    check_configs(payload, lambda inputs: [inputs["x"].T], machine=host, count=2)


@pytest.mark.parametrize(
    ("spec", "machine"),
    [
        ("gpt,d_model=32,heads=2,d_ff=64,vocab=48,seq=16,layers=1", "sse"),
        ("gpt,d_model=36,heads=3,d_ff=52,vocab=53,seq=17,layers=1", None),
        ("attention,heads=3,seq=13,d=8,causal=1", None),
        ("layer_norm,rows=7,cols=33", "sse"),
        ("softmax,rows=7,cols=33", "avx512"),
        ("gelu,rows=7,cols=33", None),
        ("embedding,rows=7,cols=33,vocab=19", "avx512"),
    ],
)
def test_whole_payload_with_every_default_is_what_the_reference_says(spec, machine):
    payload = load_payload(spec)
    parts = partition(payload)
    inputs = payload.make_inputs(0)
    host = MACHINES[machine] if machine else this_machine()
    steps = default_steps(parts, host)
    got = run_steps(payload, parts, inputs, steps)
    agrees(payload, got, payload.reference(**inputs))
