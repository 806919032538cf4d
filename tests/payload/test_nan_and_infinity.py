"""NaN and infinities go through imported models as through their framework: they are where it has them."""

import numpy as np
import pytest
from model_zoo import FLOAT, INT64, helper, numpy_helper, save
from onnx.reference import ReferenceEvaluator

import autotune as at
from payload.importers.folder import write_folder

SHAPE = [6, 40]
AXIS, ALONG, LOW, HIGH = "axis", "along", "low", "high"
NODES = {
    "clip": ("Clip", ["x", LOW, HIGH], {}),
    "clip_low": ("Clip", ["x", LOW], {}),
    "least": ("Min", ["x", "back"], {}),
    "most": ("Max", ["x", "back"], {}),
    "most_of_one": ("Max", ["x", LOW], {}),
    "relu": ("Relu", ["x"], {}),
    "leaky": ("LeakyRelu", ["x"], {"alpha": 0.1}),
    "hard_sigmoid": ("HardSigmoid", ["x"], {}),
    "tanh": ("Tanh", ["x"], {}),
    "sums": ("CumSum", ["x", ALONG], {}),
    "sums_from_behind": ("CumSum", ["x", ALONG], {"reverse": 1, "exclusive": 1}),
}
REDUCED = {
    "argmax": ("ArgMax", ["x"], {"axis": 1, "keepdims": 0}, INT64),
    "argmin": ("ArgMin", ["x"], {"axis": 1, "keepdims": 0}, INT64),
    "largest": ("ReduceMax", ["x", AXIS], {"keepdims": 0}, FLOAT),
}


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """Everything in one model: its function, and its reference."""
    folder = tmp_path_factory.mktemp("strange")
    nodes = [helper.make_node(op, given, [name], **more) for name, (op, given, more) in NODES.items()]
    nodes += [helper.make_node(op, given, [name], **more) for name, (op, given, more, _) in REDUCED.items()]
    results = [(name, FLOAT, SHAPE) for name in NODES] + [(n, kind, SHAPE[:1]) for n, (*_, kind) in REDUCED.items()]
    held = [
        numpy_helper.from_array(np.array([1]), AXIS),
        numpy_helper.from_array(np.array(1), ALONG),
        *(numpy_helper.from_array(np.float32(value), name) for name, value in ((LOW, -0.5), (HIGH, 0.75))),
    ]
    path = save(folder / "strange.onnx", nodes, [("x", FLOAT, SHAPE), ("back", FLOAT, SHAPE)], results, *held)
    return at.compile(str(path)), ReferenceEvaluator(str(path))


def test_results_that_start_from_one_constant_do_not_share_their_memory(imported):
    function, _ = imported
    x, back = np.random.default_rng(1).uniform(-1, 1, (2, *SHAPE)).astype(np.float32)
    got = function(x, back)
    np.testing.assert_array_equal(got["argmax"], x.argmax(1))
    np.testing.assert_array_equal(got["argmin"], x.argmin(1))


@pytest.mark.parametrize("strange", [(np.nan,), (np.inf,), (-np.inf,), (np.nan, np.inf, -np.inf)])
def test_nan_and_infinities_are_where_the_reference_has_them(imported, strange):
    function, reference = imported
    rng = np.random.default_rng(0)
    x, back = rng.uniform(-1, 1, (2, *SHAPE)).astype(np.float32)
    x.flat[rng.choice(x.size, 9, replace=False)] = np.resize(strange, 9)
    back.flat[rng.choice(x.size, 9, replace=False)] = np.resize(strange, 9)
    with np.errstate(all="ignore"):
        expected = dict(zip(reference.output_names, reference.run(None, {"x": x, "back": back}), strict=True))
    got = function(x, back)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_weight_without_dimensions_is_stored_without(tmp_path):
    from safetensors.numpy import load_file

    from autotune.core.plugs.imported import WEIGHTS, ImportedModel

    described = ImportedModel(arguments=(), source="", sha256="", importer="onnx", oracle="", versions={}, notes=())
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    write_folder(tmp_path / "model", "", described, {"scale": np.float32(3).reshape(()), "turned": turned})
    held = load_file(tmp_path / "model" / WEIGHTS)
    assert held["scale"].shape == ()
    np.testing.assert_array_equal(held["turned"], turned)
