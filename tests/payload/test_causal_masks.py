"""Causal masks that a file holds as numbers: computed of their indices, and seen as what they are."""

import numpy as np
import onnx
import pytest
from model_zoo import FLOAT, helper, numpy_helper

from autotune.bundles.call import compile_payload
from autotune.worker.loading.importing import import_model
from autotune.worker.loading.reading import open_payload, partition
from payload.importers.causal_masks import ends_of

pytestmark = pytest.mark.usefixtures("warm_converters")
HEADS, TOKENS, DEPTH = 2, 24, 8
BELOW = np.tri(TOKENS, dtype=bool)
ADDED = np.where(BELOW, 0, -np.inf).astype("f4")
LOWEST = float(np.finfo("f4").min)


def spoiled(mask, place, value):
    changed = mask.copy()
    changed[place] = value
    return changed


MASKS = {  # which are causal, and what attention adds or chooses by them
    "infinite": (True, ADDED),
    "lowest": (True, np.where(BELOW, 0, LOWEST).astype("f4")[None, None]),
    "chosen": (True, BELOW[None]),
    "left out": (True, ~BELOW),
    "not low enough": (False, np.where(BELOW, 0, -1e4).astype("f4")),
    "one more": (False, spoiled(BELOW, (3, 4), True)),
    "one less": (False, spoiled(ADDED, (5, 2), -np.inf)),
    "the future": (False, ADDED.T.copy()),
}


def write_attention(path, mask):
    """Attention whose mask is an initializer."""
    adds = mask.dtype.kind == "f"
    hide = ["scores", "mask"] if adds else ["mask", *(["scores", "low"] if mask.flat[0] else ["low", "scores"])]
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        helper.make_node("Add" if adds else "Where", hide, ["masked"]),
        helper.make_node("Softmax", ["masked"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "v"], ["y"]),
    ]
    shapes = {"q": (HEADS, TOKENS, DEPTH), "k": (HEADS, DEPTH, TOKENS), "v": (HEADS, TOKENS, DEPTH)}
    inputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in shapes.items()]
    output = helper.make_tensor_value_info("y", FLOAT, None)
    held = [numpy_helper.from_array(mask, "mask"), numpy_helper.from_array(np.float32(LOWEST), "low")]
    graph = helper.make_graph(nodes, "model", inputs, [output], held[: 1 + (not adds)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.mark.parametrize("name", MASKS)
def test_attention_leaves_out_what_a_mask_of_numbers_hides(tmp_path, name):
    is_causal, mask = MASKS[name]
    import_model(str(write_attention(tmp_path / "model.onnx", mask)), tmp_path / "imported")
    payload = open_payload(str(tmp_path / "imported"))
    masked = [op.masked_loop for task in partition(payload).tasks for op in task.ops]
    assert any(loop is not None for loop in masked) == is_causal
    rng = np.random.default_rng(0)
    q, v = (rng.standard_normal((HEADS, TOKENS, DEPTH)).astype("f4") for _ in range(2))
    k = rng.standard_normal((HEADS, DEPTH, TOKENS)).astype("f4")
    scores = q.astype("f8") @ k
    scores = scores + mask if mask.dtype.kind == "f" else np.where(mask == mask.flat[0], scores, LOWEST)
    power = np.exp(scores - scores.max(axis=-1, keepdims=True))
    got = compile_payload(payload)(q, k, v)
    np.testing.assert_allclose(got, power @ v / power.sum(axis=-1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize(
    "array",
    [np.zeros((3, 3), "f4"), np.ones((1, 1), bool), np.tri(4, dtype="i8"), np.tri(4, dtype=bool)[None].repeat(2, 0)],
    ids=["all seen", "one", "whole numbers", "several"],
)
def test_other_arrays_are_no_masks(array):
    assert ends_of(array) is None
