"""Quantised ONNX models: bit by bit what whole numbers say, for every op and scheme that quantisers write."""

from collections import Counter

import numpy as np
import onnx
import pytest
from integer_reference import evaluate
from onnx import TensorProto, helper, numpy_helper
from quantised_zoo import DYNAMIC, MODELS, STATIC, quantise, quantise_in_calls

import autotune as at
from autotune.worker.loading.importing import import_model
from autotune.worker.loading.reading import partition
from payload.importers import onnx_values
from payload.importers.linalg import UnsupportedError
from payload.importers.onnx_convert import read_model
from payload.importers.onnx_oracle import compute, open_session
from payload.importers.onnx_quantised import write_in_integers
from payload.importers.onnx_values import fold_constants

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("warm_converters")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    around = tmp_path_factory.mktemp("plain")
    return {name: write(around / f"{name}.onnx") for name, write in MODELS.items()}


def written(path):
    """A model as it is written in whole numbers, and what is left in real ones."""
    read = read_model(path, {})
    model, weights = read.model, dict(read.weights)
    left = write_in_integers(model, weights)
    fold_constants(model, weights)
    return model, weights, left


def random_inputs(path, seed=5):
    rng = np.random.default_rng(seed)
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in onnx.load(path).graph.input}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def assert_exact(path, left=(), *, beside=True):
    model, weights, found = written(path)
    assert found == list(left)
    given = random_inputs(path)
    ours = compute(model, {**weights, **given}, wide=False)
    for mine, theirs in zip(ours, evaluate(path, given), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    return model, ours, open_session(str(path)).run(None, given) if beside else ours


# Half of all, in which there is every pair of a model, a layout, weights by channel or not, and types.
SCHEMES = [(name, scheme) for i, (name, *scheme) in enumerate(STATIC) if (i // 12 + i // 6 + i // 3 + i) % 2 == 0]


@pytest.mark.parametrize(("name", "scheme"), SCHEMES)
def test_a_static_scheme_is_exact(name, scheme, plain, tmp_path):
    path = quantise(plain[name], tmp_path / "model.onnx", *scheme)
    model, ours, theirs = assert_exact(path)
    ops = Counter(node.op_type for node in model.graph.node)
    products = Counter(node.op_type for node in onnx.load(plain[name]).graph.node)
    assert ops["MatMulInteger"] >= products["MatMul"] + products["Gemm"] + products["Conv"] - 2  # two are of no weight
    assert np.abs(ours[0] - theirs[0]).max() < 1e-6 * np.abs(theirs[0]).max() + 1e-6  # of ONNX Runtime, node by node


@pytest.mark.parametrize(("name", "kind"), DYNAMIC)
def test_what_is_quantised_in_a_call_is_exact(name, kind, plain, tmp_path):
    path = quantise_in_calls(plain[name], tmp_path / "model.onnx", kind)
    model, weights, _ = written(path)
    given = random_inputs(path)
    ours, theirs = compute(model, {**weights, **given}, wide=False), open_session(str(path)).run(None, given)
    np.testing.assert_allclose(ours[0], evaluate(path, given)[0], rtol=1e-6)  # its scales are of the call, in f32
    np.testing.assert_allclose(ours[0], theirs[0], atol=1e-5 * np.abs(theirs[0]).max())


FLOAT, U8, S8, I32 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT8, TensorProto.INT32
RNG = np.random.default_rng(0)
node = helper.make_node
SCALES = {"s": np.float32(0.02), "z": np.uint8(117), "t": np.float32(0.05), "u": np.uint8(3)}


def write(path, nodes, held, given, kind=FLOAT):
    """A model of one result, y; gives its path."""
    inputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in given.items()]
    weights = [
        array if isinstance(array, onnx.TensorProto) else numpy_helper.from_array(np.asarray(array), name)
        for name, array in {**SCALES, **held}.items()
    ]
    graph = helper.make_graph(nodes, "model", inputs, [helper.make_tensor_value_info("y", kind, None)], weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


READ = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["r"])]
END = [node("QuantizeLinear", ["p", "t", "u"], ["o"]), node("DequantizeLinear", ["o", "t", "u"], ["y"])]


def random_weight(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_of(*shape, dtype=np.int8):
    ends = np.iinfo(dtype)
    return RNG.integers(ends.min, ends.max + 1, shape).astype(dtype)


def kernel(op, whole, axis=1, **more):
    """Nodes and tensors of a weight of bytes."""
    held = {"w": whole, "ws": RNG.uniform(0.01, 0.02, whole.shape[axis]).astype(np.float32), **more}
    return [node("DequantizeLinear", ["w", "ws"], ["k"], axis=axis), *op], held


def test_weights_of_4_bits_are_exact(tmp_path):
    whole = RNG.integers(-8, 8, (5, 7))
    packed = helper.make_tensor("w", TensorProto.INT4, whole.shape, whole.ravel())
    nodes = [*READ, node("DequantizeLinear", ["w", "ws"], ["k"], axis=1), node("MatMul", ["r", "k"], ["p"]), *END]
    held = {"w": packed, "ws": RNG.uniform(0.01, 0.02, 7).astype(np.float32)}
    assert_exact(write(tmp_path / "model.onnx", nodes, held, {"x": [3, 5]}))


@pytest.mark.parametrize("scheme", ["float bias", "1-D", "groups", "SAME_UPPER", "no end"])
def test_a_convolution_is_exact(scheme, tmp_path):
    shapes = {"1-D": ((6, 4, 3), [2, 4, 9]), "groups": ((6, 2, 3, 3), [1, 4, 5, 6])}
    shape, given = shapes.get(scheme, ((6, 4, 3, 3), [1, 4, 5, 6]))
    attributes = {"group": 2} if scheme == "groups" else {}
    attributes |= {"auto_pad": "SAME_UPPER", "strides": [2, 2]} if scheme == "SAME_UPPER" else {}
    bias = {"b": RNG.standard_normal(6).astype(np.float32)} if scheme == "float bias" else {}
    y = "y" if scheme == "no end" else "p"
    nodes, held = kernel([node("Conv", ["r", "k", *bias], [y], **attributes)], bytes_of(*shape), axis=0, **bias)
    path = write(tmp_path / "model.onnx", [*READ, *nodes, *(END if y == "p" else [])], held, {"x": given})
    model, weights, left = written(path)
    inputs = random_inputs(path)
    ours = compute(model, {**weights, **inputs}, wide=False)[0]
    theirs = open_session(str(path)).run(None, inputs)[0]
    assert not left
    assert not any(each.op_type in ("QuantizeLinear", "DequantizeLinear") for each in model.graph.node)
    apart = np.abs(ours - theirs)
    assert apart.max() <= (1e-5 if y == "y" else 0.0501)  # one step, where a sum of f32 is on the other side of a half
    assert y == "y" or (apart > 1e-6).mean() < 0.02


@pytest.mark.parametrize("image", [False, True])
@pytest.mark.parametrize("strides", [[1, 1], [2, 1]])
def test_a_convolution_of_each_channel_is_whole_numbers_in_either_order(image, strides, tmp_path):
    conv = node("Conv", ["r", "k"], ["p"], group=4, pads=[1, 0, 2, 1], strides=strides)
    nodes, held = kernel([conv], bytes_of(4, 1, 3, 2), axis=0)
    before = [node("Conv", ["r", "k2"], ["p2"]), *(renamed(each) for each in END)] if image else []
    if image:
        _, more = kernel([], bytes_of(4, 4, 1, 1), axis=0)
        held |= {f"{name}2": array for name, array in more.items()}
        before = [node("DequantizeLinear", ["w2", "ws2"], ["k2"], axis=0), *before]
        nodes[-1].input[0] = "y2"
    path = write(tmp_path / "model.onnx", [*READ, *before, *nodes, *END], held, {"x": [2, 4, 6, 5]})
    model, *_ = assert_exact(path, beside=False)
    ops = Counter(each.op_type for each in model.graph.node)
    assert ops["Conv"] == 0
    assert ops["Mul"] >= 3 * 2
    assert ops["Transpose"] == 2 * image


@pytest.mark.parametrize("image", [False, True])
@pytest.mark.parametrize(("channels", "products"), [(6, 3 * 3 * 2), (66, 0)])
def test_a_convolution_of_few_channels_a_group_is_whole_numbers(channels, products, image, tmp_path):
    """Of more than 64 products it is one of f32, which holds every sum exactly."""
    size = (3, 3) if products else (1, 3)
    conv = node("Conv", ["r", "k"], ["p"], group=channels // 2 if products else 3, pads=[1, 0, 2, 1], strides=[1, 2])
    filters = channels * 2
    nodes, held = kernel([conv], bytes_of(filters, 2 if products else 22, *size), axis=0)
    before = [node("Conv", ["r", "k2"], ["p2"]), *(renamed(each) for each in END)] if image else []
    if image:
        _, more = kernel([], bytes_of(channels, 4, 1, 1), axis=0)
        held |= {f"{name}2": array for name, array in more.items()}
        before = [node("DequantizeLinear", ["w2", "ws2"], ["k2"], axis=0), *before]
        nodes[-1].input[0] = "y2"
    given = [2, 4 if image else channels, 6, 5]
    model, *_ = assert_exact(write(tmp_path / "model.onnx", [*READ, *before, *nodes, *END], held, {"x": given}))
    ops = Counter(each.op_type for each in model.graph.node)
    assert bool(ops["Conv"]) == (not products)
    assert ops["Mul"] >= products


def renamed(each):
    """A node that reads and gives tensors of names with a 2."""
    other = type(each)()
    other.CopyFrom(each)
    other.input[0], other.output[0] = f"{each.input[0]}2", f"{each.output[0]}2"
    return other


@pytest.mark.parametrize("width", [5, 6, 7, 9])
@pytest.mark.parametrize("strides", [[1, 1], [2, 2], [1, 3]])
def test_windows_of_few_channels_are_exact_however_they_end(width, strides, tmp_path):
    conv = node("Conv", ["r", "k"], ["p"], pads=[1, 1, 0, 1], strides=strides)
    nodes, held = kernel([conv], bytes_of(5, 3, 2, 4), axis=0)
    assert_exact(write(tmp_path / "model.onnx", [*READ, *nodes, *END], held, {"x": [2, 3, 4, width]}), beside=False)


@pytest.mark.parametrize(("lead", "k"), [((), 700), ((2, 3), 5), ((), 2**15)])
def test_a_product_of_two_quantised_tensors_is_exact(lead, k, tmp_path):
    """Sums of bytes, less what the zero points add; where 32 bits are too few it is computed in real numbers."""
    given = {"x": [*lead, 3, k], "v": [*lead, k, 2]}
    nodes = [*READ, node("QuantizeLinear", ["v", "t", "u"], ["c"]), node("DequantizeLinear", ["c", "t", "u"], ["d"])]
    path = write(tmp_path / "model.onnx", [*nodes, node("MatMul", ["r", "d"], ["y"], name="there")], {}, given)
    if k < 2**15:
        model, ours, _ = assert_exact(path)
        assert "MatMulInteger" in {each.op_type for each in model.graph.node}
        assert np.abs(ours[0]).max() > 0
    else:
        model, _, left = written(path)
        assert left == ["node there (MatMul)"]
        assert "MatMulInteger" not in {each.op_type for each in model.graph.node}


def test_a_bias_in_steps_of_its_own_leaves_the_product_in_real_numbers_and_is_named(tmp_path):
    added = {"b": bytes_of(7).astype(np.int32), "bs": np.float32(0.3)}
    ops = [node("DequantizeLinear", ["b", "bs"], ["c"]), node("Gemm", ["r", "k", "c"], ["p"], name="there")]
    nodes, held = kernel(ops, bytes_of(5, 7), **added)
    path = write(tmp_path / "model.onnx", [*READ, *nodes, *END], held, {"x": [3, 5]})
    model, weights, left = written(path)
    assert left == ["node there (Gemm)"]
    given = random_inputs(path)
    theirs = open_session(str(path)).run(None, given)[0]
    np.testing.assert_allclose(compute(model, {**weights, **given}, wide=False)[0], theirs, atol=0.0501)


MOVED = {
    "Relu": node("Relu", ["r"], ["p"]),
    "Transpose": node("Transpose", ["r"], ["p"], perm=[0, 2, 3, 1]),
    "MaxPool": node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], dilations=[2, 1]),
    "Sigmoid": node("Sigmoid", ["r"], ["p"]),
    "Concat": node("Concat", ["r", "r"], ["p"], axis=1),
    "AveragePool": node("AveragePool", ["r"], ["p"], kernel_shape=[2, 2]),
    "Softmax": node("Softmax", ["r"], ["p"]),
}


@pytest.mark.parametrize("op", MOVED)
def test_ops_between_roundings_are_as_onnx_runtime_has_them(op, tmp_path):
    path = write(tmp_path / "model.onnx", [*READ, MOVED[op], *END], {}, {"x": [1, 2, 4, 4]})
    model, weights, _ = written(path)
    given = random_inputs(path)
    theirs = open_session(str(path)).run(None, given)[0]
    np.testing.assert_array_equal(compute(model, {**weights, **given}, wide=False)[0], theirs)


ONE = ["q", "s", "z", "t", "u"]
CONTRIB = {
    "QLinearAveragePool": node("QLinearAveragePool", ONE, ["o"], kernel_shape=[2, 2], domain="com.microsoft"),
    "QLinearSigmoid": node("QLinearSigmoid", ONE, ["o"], domain="com.microsoft"),
    "QLinearLeakyRelu": node("QLinearLeakyRelu", ONE, ["o"], alpha=0.1, domain="com.microsoft"),
    "QLinearSoftmax": node("QLinearSoftmax", ONE, ["o"], axis=-1, opset=13, domain="com.microsoft"),
    "QLinearConcat": node("QLinearConcat", ["t", "u", *ONE[:3], *ONE[:3]], ["o"], axis=1, domain="com.microsoft"),
    "QLinearMul": node("QLinearMul", [*ONE[:3], *ONE[:3], "t", "u"], ["o"], domain="com.microsoft"),
}


@pytest.mark.parametrize("op", CONTRIB)
def test_quantised_ops_of_onnx_runtime_are_within_a_step_of_it(op, tmp_path):
    path = write(tmp_path / "model.onnx", [READ[0], CONTRIB[op], END[1]], {}, {"x": [1, 2, 4, 4]})
    model, weights, _ = written(path)
    given = random_inputs(path)
    theirs = open_session(str(path)).run(None, given)[0]
    apart = np.abs(compute(model, {**weights, **given}, wide=False)[0] - theirs)
    assert apart.max() < 1.01 * SCALES["t"]  # it multiplies by another factor, or looks a sigmoid up in a table
    assert (apart > 1e-6).mean() < 0.1


def test_ops_of_onnx_runtime_are_written_one_behind_another(tmp_path):
    """The shape of what the second one reads is known when the first one is written."""
    between = [
        node("DequantizeLinear", ["o", "t", "u"], ["real"]),
        node("QuantizeLinear", ["real", "s", "z"], ["whole"]),
        node("QLinearSoftmax", ["whole", *ONE[1:]], ["p"], axis=1, opset=13, domain="com.microsoft"),
    ]
    nodes = [READ[0], CONTRIB["QLinearConcat"], *between, node("DequantizeLinear", ["p", "t", "u"], ["y"])]
    path = write(tmp_path / "model.onnx", nodes, {}, {"x": [1, 2, 4, 4]})
    model, weights, _ = written(path)
    given = random_inputs(path)
    theirs = open_session(str(path)).run(None, given)[0]
    assert np.abs(compute(model, {**weights, **given}, wide=False)[0] - theirs).max() < 1.01 * SCALES["t"]


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_a_scale_that_is_none_is_refused(scale, tmp_path):
    path = write(tmp_path / "model.onnx", [*READ, MOVED["Relu"], *END], {"s": np.float32(scale)}, {"x": [2, 3]})
    with pytest.raises(UnsupportedError, match=r"node 0 \(QuantizeLinear, .*scales must be positive and finite"):
        written(path)


def test_a_program_is_exact(plain, tmp_path):
    """From the file to a call: every program of the tuner's computes the bytes of the reference."""
    path = quantise(plain["convolutions"], tmp_path / "model.onnx")
    import_model(str(path), tmp_path / "model")
    given = random_inputs(path)
    found = at.compile(str(tmp_path / "model"))(**given)
    np.testing.assert_array_equal(found, evaluate(path, given)[0])


@pytest.mark.parametrize("name", ["transformer", "causal_transformer"])
def test_products_of_two_activations_are_tasks_of_their_own_in_a_program_that_is_right(name, plain, tmp_path):
    """One reads the bytes that the other gives; powers of attention may round to the next byte."""
    path = quantise(plain[name], tmp_path / "model.onnx")
    import_model(str(path), tmp_path / "model")
    given = random_inputs(path)
    found = at.compile(str(tmp_path / "model"))(**given)
    assert (found != evaluate(path, given)[0]).mean() < 0.05
    tasks = partition(at.payload(str(tmp_path / "model"))).tasks
    assert all(len(task.contractions) < 2 for task in tasks)  # in a group, nothing packs what one product gives another


@pytest.mark.parametrize(
    ("bits", "k", "zeros", "bias"),
    [(4, 64, True, False), (4, 80, False, True), (4, 80, True, False), (8, 64, True, True)],
)
def test_weights_in_blocks_are_as_onnx_runtime_has_them(bits, k, zeros, bias, tmp_path):
    n, size = 6, 32
    blocks = -(-k // size)
    held = {"w": bytes_of(n, blocks, size * bits // 8, dtype=np.uint8)}
    held["ws"] = RNG.uniform(0.01, 0.02, n * blocks).astype(np.float32)
    held["wz"] = bytes_of(n * -(-blocks * bits // 8), dtype=np.uint8)
    held["b"] = RNG.standard_normal(n).astype(np.float32)
    inputs = ["x", "w", "ws", "wz" if zeros else "", "", "b" if bias else ""]
    product = node("MatMulNBits", inputs, ["y"], domain="com.microsoft", K=k, N=n, bits=bits, block_size=size)
    path = write(tmp_path / "model.onnx", [product], held, {"x": [3, k]})
    model, weights, _ = written(path)
    given = random_inputs(path)
    theirs = open_session(str(path)).run(None, given)[0]
    np.testing.assert_allclose(compute(model, {**weights, **given}, wide=False)[0], theirs, rtol=1e-5, atol=1e-5)


def test_weights_in_blocks_are_widened_once_however_large_and_others_stay_there_once(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_values, "MOST_FOLDED", 16)
    held = {"w": bytes_of(6, 2, 16, dtype=np.uint8), "ws": np.full(12, 0.01, np.float32), "v": random_weight(64, 64)}
    product = node("MatMulNBits", ["m", "w", "ws"], ["y"], domain="com.microsoft", K=64, N=6, bits=4, block_size=32)
    turned = [node("Transpose", ["v"], ["vt"], perm=[1, 0]), node("MatMul", ["x", "vt"], ["m"])]
    model, weights, _ = written(write(tmp_path / "model.onnx", [*turned, product], held, {"x": [3, 64]}))
    assert [each.op_type for each in model.graph.node] == ["Transpose", "MatMul", "MatMul"]
    assert "v" in weights
    assert {tuple(each.dims) for each in model.graph.initializer if len(each.dims)} <= {(64, 6)}


def test_a_note_names_the_weights_whose_rows_are_no_whole_blocks(tmp_path):
    held = {"w": bytes_of(6, 3, 16, dtype=np.uint8), "ws": np.full(18, 0.01, np.float32)}
    product = node("MatMulNBits", ["x", "w", "ws"], ["y"], domain="com.microsoft", K=72, N=6, bits=4, block_size=32)
    path = write(tmp_path / "model.onnx", [product], held, {"x": [3, 72]})
    import_model(str(path), tmp_path / "model")
    assert at.payload(str(tmp_path / "model")).notes == (
        "weights in blocks are held and multiplied in f32, 1 in all: y",
    )
