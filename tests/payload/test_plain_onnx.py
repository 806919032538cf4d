"""Ops of ONNX that torch-mlir reads otherwise, or not at all: imported, they give what ONNX says."""

import numpy as np
import pytest
from bundle_support import no_care
from model_zoo import FLOAT, INT64, helper, numpy_helper, save

from autotune.compiler.tasks.partition import partition
from autotune.core.evaluator import Job
from autotune.core.machine import this_machine
from autotune.tuning.default_program import default_candidate
from autotune.worker.importing import import_model
from autotune.worker.reading import open_payload
from autotune.worker.worker import Worker

pytestmark = pytest.mark.usefixtures("warm_converters")
IMAGE = ("x", FLOAT, [2, 8, 6, 7])


@pytest.fixture(scope="module")
def worker():
    with no_care(), Worker() as running:
        yield running


def numbers(name, *values, dtype=np.int64):
    return numpy_helper.from_array(np.array(values, dtype), name)


def one(path, op, result, *weights, given=IMAGE, outputs=("y",), kinds=(FLOAT,), **attributes):
    """A model of one node; every result has one shape."""
    node = helper.make_node(op, ["x", *(weight.name for weight in weights)], outputs, **attributes)
    held = [weight for weight in weights if weight.name]
    return save(path, [node], [given], [(o, kind, result) for o, kind in zip(outputs, kinds, strict=True)], *held)


PADS = numbers("pads", 2, 1, 1, 3), numbers(""), numbers("axes", 2, -1)  # the second is left out
MODELS = {
    "DepthToSpace by columns": lambda p: one(p, "DepthToSpace", [2, 2, 12, 14], blocksize=2, mode="CRD"),
    "DepthToSpace by rows": lambda p: one(p, "DepthToSpace", [2, 2, 12, 14], blocksize=2),
    "Selu by default": lambda p: one(p, "Selu", [2, 8, 6, 7]),
    "LRN": lambda p: one(p, "LRN", [2, 8, 6, 7], size=4, alpha=0.5),
    "MaxPool with places": lambda p: one(
        p, "MaxPool", [2, 8, 3, 3], outputs=("y", "i"), kinds=(FLOAT, INT64), kernel_shape=[2, 2], strides=[2, 2]
    ),
    **{
        f"Pad, {mode}": lambda p, mode=mode: one(p, "Pad", [2, 8, 9, 11], *PADS, mode=mode)
        for mode in ("reflect", "edge", "wrap")
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_an_op_computes_what_onnx_says(name, tmp_path, worker):
    import_model(str(MODELS[name](tmp_path / "model.onnx")), tmp_path / "model")
    payload, machine = open_payload(str(tmp_path / "model")), this_machine()
    assert payload.reference is not None
    candidate = default_candidate(partition(payload), machine)
    for seed in (0, 1):
        (found,) = worker.evaluate(Job(payload, (candidate,), machine, seed=seed))
        assert found.samples is not None, f"{found.outcome}: {found.diagnostic}"
