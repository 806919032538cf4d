"""The dialect: one description of every op, from which shapes, meaning, cost and linalg come."""

import json
import pickle
from pathlib import Path

import gpt_in_numpy
import numpy as np
import pytest
from payload_support import Program

from autotune.compiler.ir.module import context, parse
from autotune.core.errors import PayloadError
from autotune.core.payload import Argument
from autotune.registry import load_payload
from autotune.worker.loading.reading import open_payload
from payload.config import NANO
from payload.dialect.gpt import GPT
from payload.dialect.op import INDEX, Kind
from payload.dialect.ops.activations import SwigluOp
from payload.dialect.ops.attention import AttentionOp, MergeHeadsOp, RopeOp, SplitHeadsOp
from payload.dialect.ops.block import BlockOp
from payload.dialect.ops.cache import CacheAppendOp, CacheRowsOp
from payload.dialect.ops.linear import LinearOp, RestoreOp
from payload.dialect.ops.norms import LayerNormOp, RmsNormOp
from payload.dialect.ops.tables import EmbeddingOp, RowsOp
from payload.dialect.program import OpWriter
from payload.gpt import write_program
from payload.interface import Request, count_flops, read_request

TEXTS = json.loads((Path(__file__).parent / "texts.json").read_text())
FUNCTIONS = ("forward", "prefill", "decode")


def normal(text):
    """A module as MLIR prints it, with names of its own."""
    with context():
        return str(parse(text, "a payload"))


def one_op(op, *shapes, dtypes=(), role="input"):
    """A payload of one op on random data."""
    kinds = [(shape, dtypes[i] if i < len(dtypes) else "f32") for i, shape in enumerate(shapes)]
    high = {"f32": 1.0, "i32": 5, "i8": 8}
    arguments = [
        Argument(f"a{i}", role, shape, dtype, 0 if dtype == "i32" else -high[dtype], high[dtype])
        for i, (shape, dtype) in enumerate(kinds)
    ]
    g = OpWriter(arguments)
    gives = g.several(op, *g.given.values())
    outputs = [Argument(f"y{i}", "output", ref.kind.shape) for i, ref in enumerate(gives)]
    g = OpWriter([*arguments, *outputs])
    return GPT.payload_of("one", g.program("one", g.several(op, *g.given.values())))


@pytest.mark.parametrize("spec", TEXTS)
def test_text_of_a_payload_is_byte_for_byte_what_bundles_were_recorded_of(spec):
    assert load_payload(spec).sha256 == TEXTS[spec]


@pytest.mark.parametrize("spec", ["nano", *(f"nano,function={name}" for name in FUNCTIONS[1:]), "nano,weights=int8"])
def test_a_payload_in_the_dialect_is_read_as_what_the_builder_makes(spec, tmp_path):
    built = load_payload(spec)
    (tmp_path / "mine.mlir").write_text(built.dialect)
    read = open_payload(tmp_path / "mine.mlir")
    assert normal(read.text) == normal(built.text)
    said = [[(a.role, a.type, a.low, a.high) for a in payload.arguments] for payload in (read, built)]
    assert said[0] == said[1]
    assert read.dialect.count("gpt.") == built.dialect.count("gpt.")


SPECS = ("nano", "nano,function=prefill", "nano,function=decode,position=7", "nano,weights=int8", "nano,weights=bf16")
SPECS += ("nano,positions=rope", "nano,function=prefill,positions=rope", "nano,function=decode,batch=3,positions=rope")


@pytest.mark.parametrize("spec", SPECS)
def test_references_of_the_ops_say_what_the_model_in_numpy_says(spec):
    payload = load_payload(spec)
    config = read_request("nano", dict(pair.split("=") for pair in spec.split(",")[1:]), NANO).config
    arrays = payload.make_inputs(0)
    for case in payload.cases:
        arrays |= {name: np.full_like(arrays[name], value) for name, value in case.values}
    payload = pickle.loads(pickle.dumps(payload))  # as a worker is given it
    wanted = {"forward": gpt_in_numpy.forward_outputs}.get(payload.entry) or getattr(gpt_in_numpy, payload.entry)
    for found, expected in zip(payload.reference(**arrays), wanted(config, **arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("function", FUNCTIONS[:2])
def test_cost_of_the_ops_is_the_cost_of_the_model(function):
    payload = GPT.payload_of("nano", write_program(NANO, function))
    assert payload.flops == count_flops(Request("nano", NANO, function, None, ""))


ONE_OP = {
    "linear": (LinearOp(), (5, 7), (7, 3), (3,)),
    "linear without bias": (LinearOp(), (5, 7), (7, 3)),
    "linear, transposed": (LinearOp(True), (5, 7), (3, 7), (3,)),
    "layer norm": (LayerNormOp(0.01), (5, 7), (7,), (7,)),
    "rms norm": (RmsNormOp(), (5, 7), (7,)),
    "swiglu": (SwigluOp(), (5, 7), (5, 7)),
    "rope": (RopeOp(), (2, 5, 6)),
    "heads": (SplitHeadsOp(4, 2), (5, 8 * 6)),
    "heads of several sequences": (SplitHeadsOp(4, 2, 5), (5, 8 * 6)),
    "merged": (MergeHeadsOp(), (4, 5, 6)),
    "merged, several sequences": (MergeHeadsOp(2), (4, 1, 6)),
    "attention": (AttentionOp(), (4, 5, 6), (4, 9, 6), (4, 9, 6)),
    "attention, causal": (AttentionOp(True), (4, 5, 6), (4, 5, 6), (4, 5, 6)),
    "attention, grouped": (AttentionOp(), (4, 5, 6), (2, 9, 6), (2, 9, 6)),
    "attention, grouped, causal": (AttentionOp(True), (6, 5, 4), (2, 5, 4), (2, 5, 4)),
    "attention, one group, causal": (AttentionOp(True), (3, 5, 4), (1, 5, 4), (1, 5, 4)),
    "embedding": (EmbeddingOp(), (5, 7), (9,)),
    "rows": (RowsOp(3), (5, 7)),
}


@pytest.mark.parametrize("name", ONE_OP)
def test_an_op_computes_what_its_reference_says(name):
    op, *shapes = ONE_OP[name]
    payload = one_op(op, *shapes, dtypes=("f32", "i32") if name == "embedding" else ())
    arrays = payload.make_inputs(1)
    for found, wanted in zip(Program(payload)(**arrays), payload.reference(**arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_every_op_has_the_whole_interface_and_is_in_irdl():
    for op in GPT.ops:
        assert op.__doc__
        assert all(callable(getattr(op, method)) for method in ("infer", "reference", "cost", "lower")), op
        assert f"irdl.operation @{op.name} {{" in GPT.definition
    with context():
        assert parse(GPT.definition, "the dialect").operation.verify()


def test_the_oracle_crosses_processes():
    payload = one_op(RmsNormOp(), (5, 7), (7,))
    arrays = payload.make_inputs(0)
    again = pickle.loads(pickle.dumps(payload))
    np.testing.assert_array_equal(again.reference(**arrays)[0], payload.reference(**arrays)[0])


def test_cost_counts_what_the_mask_leaves_and_bytes_once():
    heads = [Kind((4, 8, 16))] * 3
    assert AttentionOp(causal=True).cost(*heads).flops == 4 * 4 * 36 * 16
    assert AttentionOp().cost(*heads).flops == 4 * 4 * 64 * 16
    cost = LinearOp().cost(Kind((5, 7)), Kind((7, 3)), Kind((3,)))
    assert (cost.flops, cost.bytes, cost.longest) == (2 * 5 * 7 * 3, 4 * (35 + 21 + 3 + 15), 7)
    assert BlockOp(3).cost(cost).flops == 3 * cost.flops


@pytest.mark.parametrize(
    ("op", "kinds", "words"),
    [
        (LinearOp(), [(5, 7), (6, 3)], "x and weight must share the size that is summed, x is 5x7 and weight is 6x3"),
        (LinearOp(), [(5, 7, 1), (7, 3)], "x must have 2 dimensions, it is 5x7x1"),
        (LinearOp(), [(5, 7), (7, 3), (4,)], "bias must have 3 elements, it is 4"),
        (LayerNormOp(), [(5, 7), (6,), (7,)], "gain must have 7 elements, it is 6"),
        (LayerNormOp(-1.0), [(5, 7), (7,), (7,)], "epsilon must be above 0 and below 1, got -1; try 1e-05"),
        (SplitHeadsOp(5), [(4, 64)], "heads must divide the columns of qkv, 5 + 2 x 5 heads do not divide 4x64"),
        (SplitHeadsOp(4, 3), [(4, 60)], "groups must divide heads, got 3 and 4; leave groups out for 4"),
        (AttentionOp(), [(4, 5, 6), (3, 5, 6), (3, 5, 6)], "heads of k must divide those of q, q is 4x5x6 and k is 3"),
        (AttentionOp(True), [(4, 5, 6), (4, 9, 6), (4, 9, 6)], "causal attention must have a key a query, q is 4x5x6"),
        (RopeOp(), [(4, 5, 7)], "x must have heads of an even width, it is 4x5x7"),
        (RopeOp(), [(4, 5, 6), (1,)], "position must be an index, it is 1; make one with gpt.index"),
        (CacheAppendOp(), [(2, 4, 8, 6), (4, 9, 6), None], "rows must fit a layer of cache, rows is 4x9x6"),
        (RowsOp(9), [(5, 7)], "count must be from 1 to the rows of table, got 9 of 5x7"),
        (RestoreOp(0), [(5, 7), (7,)], "stored must be of i8, it is 5x7"),
        (SwigluOp(), [(5, 7), (5, 8)], "gate and up must be of one shape, gate is 5x7 and up is 5x8"),
    ],
)
def test_a_broken_constraint_names_both_shapes(op, kinds, words):
    with pytest.raises(PayloadError) as refused:
        op.infer(*(INDEX if shape is None else Kind(shape) for shape in kinds))
    assert words in str(refused.value)


def test_a_shape_is_checked_where_it_is_written():
    g = OpWriter([Argument("x", "input", (5, 7)), Argument("w", "weight", (6, 3))])
    with pytest.raises(PayloadError, match=r"^gpt.linear: x and weight must share .* x is 5x7 and weight is 6x3"):
        g.one(LinearOp(), g.given["x"], g.given["w"])


def test_rows_of_a_cache_are_as_many_as_are_filled_at_run_time():
    (kind,) = CacheRowsOp().infer(Kind((2, 4, 8, 6)), INDEX, INDEX)
    assert kind.type == "tensor<4x?x6xf32>"
