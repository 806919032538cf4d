"""Ops of ONNX that torch-mlir reads otherwise, or not at all: imported, they give what ONNX says."""

import numpy as np
import onnx
import pytest
from bundle_support import no_care
from model_zoo import FLOAT, INT64, TensorProto, helper, numpy_helper, save
from onnx.reference import ReferenceEvaluator

import autotune as at
from autotune.compiler.tasks.partition import partition
from autotune.core.errors import PayloadError
from autotune.core.evaluator import Job
from autotune.core.host.machine import this_machine
from autotune.core.plugs.imported import ORACLE, input_key
from autotune.tuning.candidates import default_candidate
from autotune.worker.loading.importing import import_model
from autotune.worker.loading.reading import open_payload
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
    **{
        f"AveragePool with dilations, {name}": lambda p, attributes=attributes: one(
            p, "AveragePool", [2, 8, 6, 7], kernel_shape=[2, 2], dilations=[2, 2], pads=[1, 1, 1, 1], **attributes
        )
        for name, attributes in {"inside": {}, "and its border": {"count_include_pad": 1}}.items()
    },
    "LRN": lambda p: one(p, "LRN", [2, 8, 6, 7], size=4, alpha=0.5),
    "MaxPool with places": lambda p: one(
        p, "MaxPool", [2, 8, 3, 3], outputs=("y", "i"), kinds=(FLOAT, INT64), kernel_shape=[2, 2], strides=[2, 2]
    ),
    **{
        f"Pad, {mode}": lambda p, mode=mode: one(p, "Pad", [2, 8, 9, 11], *PADS, mode=mode)
        for mode in ("reflect", "edge", "wrap")
    },
}
PLACES = np.random.default_rng(0).integers(-6, 6, (5, 3, 7))
ROWS = ("x", FLOAT, [5, 6, 7])


def sort(path, *, axis, largest, count):
    """The first elements along an axis, and their places; some are equal."""
    result = [count if d == axis else size for d, size in enumerate(ROWS[2])]
    nodes = [
        helper.make_node("Round", ["twice"], ["few"]),
        helper.make_node("Mul", ["x", "two"], ["twice"]),
        helper.make_node("TopK", ["few", "count"], ["y", "i"], axis=axis, largest=largest),
    ]
    held = numbers("two", 2, dtype=np.float32), numbers("count", count)
    return save(path, [nodes[1], nodes[0], nodes[2]], [ROWS], [("y", FLOAT, result), ("i", INT64, result)], *held)


def scatter(path, op, places, values, *held, **attributes):
    """Elements put at places that an input holds, or a constant."""
    node = helper.make_node(op, ["x", "at", "u"], ["y"], **attributes)
    given = [ROWS, ("u", FLOAT, values), *([] if held else [("at", INT64, places)])]
    return save(path, [node], given, [("y", FLOAT, ROWS[2])], *held)


MODELS |= {
    "TopK, largest last": lambda p: sort(p, axis=2, largest=1, count=3),
    "TopK, least first": lambda p: sort(p, axis=0, largest=0, count=5),
    "ScatterElements": lambda p: scatter(p, "ScatterElements", [5, 1, 7], [5, 1, 7], axis=1),
    "ScatterElements, added": lambda p: scatter(
        p, "ScatterElements", [], [5, 3, 7], numbers("at", *PLACES.tolist()), axis=1, reduction="add"
    ),
    "ScatterND": lambda p: scatter(p, "ScatterND", [], [2, 7], numbers("at", [0, -1], [4, 2])),
    "ScatterND, added": lambda p: scatter(p, "ScatterND", [3, 1], [3, 6, 7], reduction="add"),
}


def newest(path, op, *given, opset=24, result=None, held=(), **attributes):
    """A model of one node of a version of ONNX; unless it is said, the result is like its first input."""
    inputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in given]
    output = helper.make_tensor_value_info("y", FLOAT, result or given[0][1])
    node = helper.make_node(op, [*(name for name, _ in given), *(each.name for each in held)], ["y"], **attributes)
    graph = helper.make_graph([node], "model", inputs, [output], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)
    return path


def whole_sums(path):
    """Partial sums of integers, as positions of tokens are counted."""
    nodes = [
        helper.make_node("Cast", ["x"], ["whole"], to=INT64),
        helper.make_node("CumSum", ["whole", "axis"], ["y"], reverse=1),
    ]
    return save(path, nodes, [ROWS], [("y", INT64, [5, 6, 7])], numpy_helper.from_array(np.array(1), "axis"))


def given_back(path):
    """A model whose results are its input, a constant, and one that is computed."""
    results = [("x", FLOAT, [5, 6, 7]), ("c", INT64, [2]), ("y", FLOAT, [5, 6, 7])]
    return save(path, [helper.make_node("Abs", ["x"], ["y"])], [ROWS], results, numbers("c", 3, 4))


def half_convolution(path):
    """A convolution in f16, and what is behind it."""
    kernel = (0.2 * np.random.default_rng(0).standard_normal((6, 8, 3, 3))).astype(np.float16)
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4), helper.make_node("Relu", ["a"], ["y"])]
    half = TensorProto.FLOAT16
    given, result = [("x", half, [2, 8, 6, 7])], [("y", half, [2, 6, 6, 7])]
    return save(path, nodes, given, result, numpy_helper.from_array(kernel, "w"))


def recurrent(path, op, gates):
    """Rows after each other; what is kept of the last is read, and written over."""
    rng = np.random.default_rng(0)
    shapes = {"w": (1, 12 * gates, 10), "r": (1, 12 * gates, 12), "b": (1, 24 * gates)}
    held = [numpy_helper.from_array((0.3 * rng.standard_normal(s)).astype(np.float32), n) for n, s in shapes.items()]
    node = helper.make_node(op, ["x", *shapes], ["y"], hidden_size=12)
    return save(path, [node], [("x", FLOAT, [5, 2, 10])], [("y", FLOAT, [5, 1, 2, 12])], *held)


def mixed(path):
    """Experts' results by their shares: a letter that all three have is summed with the last."""
    node = helper.make_node("Einsum", ["x", "w", "s"], ["y"], equation="tef,efd,te->td")
    given = [("x", FLOAT, [6, 3, 5]), ("w", FLOAT, [3, 5, 4]), ("s", FLOAT, [6, 3])]
    return save(path, [node], given, [("y", FLOAT, [6, 4])])


HEADS = [1, 2, 12, 8]
MODELS |= {
    "Gelu by tanh": lambda p: one(p, "Gelu", IMAGE[2], approximate="tanh"),
    "Swish": lambda p: newest(p, "Swish", ("x", [4, 33])),
    "RMSNormalization": lambda p: newest(p, "RMSNormalization", ("x", [4, 33]), ("scale", [33])),
    "MeanVarianceNormalization": lambda p: newest(p, "MeanVarianceNormalization", ("x", IMAGE[2])),
    "Attention": lambda p: newest(p, "Attention", *((name, HEADS) for name in "qkv"), is_causal=1),
    "results that are given": given_back,
    "Einsum of three": mixed,
    "rows by matrices": lambda p: newest(p, "MatMul", ("x", [4, 1, 7]), ("w", [4, 7, 7])),
    "LSTM": lambda p: recurrent(p, "LSTM", 4),
    "GRU": lambda p: recurrent(p, "GRU", 3),
    "convolution in f16": half_convolution,
    "matrices by a vector": lambda p: newest(p, "MatMul", ("x", [2, 3, 4, 5]), ("v", [5]), result=[2, 3, 4]),
    "a vector by matrices": lambda p: newest(p, "MatMul", ("v", [4]), ("x", [2, 3, 4, 5]), result=[2, 3, 5]),
    **{
        f"CumProd {attributes}": lambda p, attributes=attributes: newest(
            p, "CumProd", ("x", [3, 9]), opset=26, held=[numpy_helper.from_array(np.array(1), "axis")], **attributes
        )
        for attributes in ({}, {"exclusive": 1}, {"reverse": 1, "exclusive": 1})
    },
    "CumSum of integers": whole_sums,
    "Softmax of rows": lambda p: newest(p, "Softmax", ("x", [2, 3, 8]), opset=12),
}


def behind_a_group_norm(path, shape, node, result):
    """An op behind one of which ONNX infers no shape."""
    held = [numpy_helper.from_array(np.ones(8, np.float32), name) for name in ("scale", "bias")]
    first = helper.make_node("GroupNormalization", ["x", "scale", "bias"], ["n"], num_groups=2)
    return save_newest(path, [first, node], [("x", shape)], result, [*held, numbers("k", 3)])


def save_newest(path, nodes, given, result, held=()):
    inputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in given]
    output = helper.make_tensor_value_info("y", FLOAT, result)
    graph = helper.make_graph(nodes, "model", inputs, [output], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def compared(path, op):
    """A tensor compared with itself, as a choice between it and that in another shape."""
    nodes = [
        helper.make_node(op, ["x", "x"], ["same"]),
        helper.make_node("Where", ["same", "row", "row"], ["chosen"]),
        helper.make_node("Cast", ["same"], ["number"], to=FLOAT),
        helper.make_node("Add", ["number", "chosen"], ["y"]),
    ]
    return save_newest(path, nodes, [("x", [3, 7]), ("row", [7])], [3, 7])


def element_of(path):
    """An element that is read at a place: of no dimension, which ONNX does not infer."""
    nodes = [
        helper.make_node("GatherND", ["v", "k"], ["one"]),
        helper.make_node("LessOrEqual", ["x", "one"], ["less"]),
        helper.make_node("Where", ["less", "one", "x"], ["y"]),
    ]
    return save_newest(path, nodes, [("v", [9]), ("x", [4, 6])], [4, 6], [numbers("k", 3)])


def fewer_places(path, op, **attributes):
    """Places of the first ones along another axis than theirs."""
    at = numpy_helper.from_array(np.random.default_rng(1).permuted(np.tile(np.arange(-6, 0), (3, 1)), axis=1), "at")
    if op == "GatherElements":
        node = helper.make_node(op, ["x", "at"], ["y"], axis=1)
        return save_newest(path, [node], [("x", [5, 6])], [3, 6], [at])
    node = helper.make_node(op, ["x", "at", "u"], ["y"], axis=1, **attributes)
    return save_newest(path, [node], [("x", [5, 6]), ("u", [3, 6])], [5, 6], [at])


def pool(path, op, shape, result, **attributes):
    """Windows of which the last end behind the pad."""
    node = helper.make_node(op, ["x"], ["y"], ceil_mode=1, **attributes)
    return save_newest(path, [node], [("x", shape)], result)


def padded(path, mode, pads, result, *value):
    """A pad of some mode."""
    node = helper.make_node("Pad", ["x", "pads", *("scalar" for _ in value)], ["y"], mode=mode)
    held = [numbers("pads", *pads), *(numpy_helper.from_array(np.float32(each), "scalar") for each in value)]
    return save_newest(path, [node], [("x", [1, 5, 7])], result, held)


def resized(path, shape, factors, **attributes):
    """A resize by factors along the last dimensions."""
    scales = numpy_helper.from_array(np.array([1, 1, *factors], np.float32), "scales")
    result = [*shape[:2], *(int(size * factor) for size, factor in zip(shape[2:], factors, strict=True))]
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], **attributes)
    return save_newest(path, [node], [("x", shape)], result, [scales])


MODELS |= {
    **{
        f"Resize to the nearest, {how}": lambda p, how=how: resized(
            p, [1, 2, 7, 6], [2, 3], coordinate_transformation_mode=how, nearest_mode="ceil"
        )
        for how in ("pytorch_half_pixel", "align_corners", "half_pixel_symmetric")
    },
    **{
        f"Resize of {rank} dimensions, {how}": lambda p, rank=rank, how=how: resized(
            p, [1, 2, 5, 4, 6][:rank], [2, 3, 0.6][: rank - 2], mode="linear", coordinate_transformation_mode=how
        )
        for rank, how in ((3, "half_pixel"), (5, "align_corners"), (5, "asymmetric"))
    },
    "Resize to the nearest, along axes": lambda p: resized(p, [1, 2, 6, 5], [2, 3], axes=[0, 1, 2, 3]),
    "OneHot of real numbers": lambda p: newest(
        p,
        "OneHot",
        ("x", [3, 5]),
        result=[3, 5, 4],
        held=[numbers("depth", 4), numbers("ends", 2, 5, dtype=np.float32)],
    ),
    "Softsign": lambda p: newest(p, "Softsign", ("x", [3, 5])),
    "SpaceToDepth by columns": lambda p: newest(
        p, "SpaceToDepth", ("x", [1, 2, 4, 6]), opset=28, result=[1, 8, 2, 3], blocksize=2, mode="CRD"
    ),
    "Gemm of two, scaled": lambda p: newest(
        p, "Gemm", ("x", [5, 7]), ("w", [9, 7]), result=[5, 9], transB=1, alpha=0.5
    ),
    "TopK behind a GroupNormalization": lambda p: behind_a_group_norm(
        p, [2, 8, 6], helper.make_node("TopK", ["n", "k"], ["y", "i"]), [2, 8, 3]
    ),
    **{
        f"{op} of the same": lambda p, op=op: compared(p, op)
        for op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
    },
    "GatherND of an element": element_of,
    "GatherElements of fewer": lambda p: fewer_places(p, "GatherElements"),
    **{
        f"ScatterElements of fewer, {how}": lambda p, how=how: fewer_places(p, "ScatterElements", reduction=how)
        for how in ("none", "add", "mul", "max", "min")
    },
    "ScatterND, multiplied": lambda p: scatter(p, "ScatterND", [3, 1], [3, 6, 7], reduction="mul"),
    "MaxPool of windows behind the end": lambda p: pool(
        p, "MaxPool", [2, 3, 7, 6], [2, 3, 3, 3], kernel_shape=[3, 1], strides=[3, 2]
    ),
    "GlobalMaxPool of lines": lambda p: one(p, "GlobalMaxPool", [2, 3, 1], given=("x", FLOAT, [2, 3, 9])),
    "GlobalMaxPool of volumes": lambda p: one(p, "GlobalMaxPool", [2, 3, 1, 1, 1], given=("x", FLOAT, [2, 3, 4, 5, 6])),
    "MaxPool up to the pad": lambda p: pool(p, "MaxPool", [2, 3, 16], [2, 3, 17], kernel_shape=[2], pads=[1, 1]),
    "AveragePool of windows behind the end": lambda p: pool(
        p, "AveragePool", [2, 3, 9, 6], [2, 3, 5, 3], kernel_shape=[2, 1], strides=[2, 2]
    ),
    "AveragePool behind its pad": lambda p: pool(
        p, "AveragePool", [2, 3, 6], [2, 3, 4], kernel_shape=[3], strides=[2], pads=[1, 1], count_include_pad=1
    ),
    "Pad by its edge": lambda p: padded(p, "edge", [2, 0, 0, 3, 0, 9], [6, 5, 16]),
    "Pad around": lambda p: padded(p, "wrap", [1, 5, 0, 0, 0, 9], [2, 10, 16]),
    "Pad that keeps the shape": lambda p: padded(p, "constant", [0, 1, 2, 0, -1, -2], [1, 5, 7], 1.5),
    "ConvTranspose with unequal pads": lambda p: newest(
        p,
        "ConvTranspose",
        ("x", [1, 3, 6, 5]),
        ("w", [3, 4, 3, 2]),
        result=[1, 4, 11, 9],
        strides=[2, 2],
        pads=[2, 0, 1, 1],
        output_padding=[1, 0],
    ),
    **{
        f"{op} along an axis of one": lambda p, op=op: newest(
            p, op, ("x", [3, 4, 1]), opset=21, held=[numbers("axes", 2)], result=[3, 4, 1]
        )
        for op in ("ReduceL2", "ReduceLogSumExp")
    },
    **{
        f"GridSample, {mode}, {pad}, {aligned}": lambda p, mode=mode, pad=pad, aligned=aligned: sampled(
            p, mode, padding_mode=pad, align_corners=aligned
        )
        for mode, pad, aligned in (("nearest", "border", 0), ("linear", "reflection", 1), ("linear", "reflection", 0))
    },
    "GridSample of volumes": lambda p: newest(
        p, "GridSample", ("x", [2, 3, 4, 5, 2]), ("g", [2, 2, 3, 1, 3]), opset=22, result=[2, 3, 2, 3, 1]
    ),
}


def sampled(path, mode, opset=22, **attributes):
    """An image at places of a grid."""
    given = ("x", [1, 2, 4, 5]), ("g", [1, 1, 10, 2])
    return newest(path, "GridSample", *given, opset=opset, result=[1, 2, 1, 10], mode=mode, **attributes)


@pytest.mark.parametrize(("number", "name"), list(enumerate(MODELS)))
def test_an_op_computes_what_onnx_says(number, name, tmp_path, worker):
    import_model(str(MODELS[name](tmp_path / "model.onnx")), tmp_path / "model")
    payload, machine = open_payload(str(tmp_path / "model")), this_machine()
    assert payload.reference is not None
    candidate = default_candidate(partition(payload), machine)
    (found,) = worker.evaluate(Job(payload, (candidate,), machine, seed=number % 2))
    assert found.samples is not None, f"{found.outcome}: {found.diagnostic}"


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", [np.int8, np.int32])
def test_shifts_by_negative_amounts_and_past_all_bits_leave_the_sign_alone(direction, dtype, tmp_path):
    bits = 8 * np.dtype(dtype).itemsize
    given = np.array([[5], [-7], [1]], dtype), np.array([-1, 0, 1, bits - 1, bits, bits + 1], dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs = [helper.make_tensor_value_info(name, kind, x.shape) for name, x in zip("xs", given, strict=True)]
    node = helper.make_node("BitShift", ["x", "s"], ["y"], direction=direction)
    graph = helper.make_graph([node], "model", inputs, [helper.make_tensor_value_info("y", kind, [3, 6])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=10)
    onnx.save(model, tmp_path / "model.onnx")
    (expected,) = ReferenceEvaluator(model).run(None, dict(zip("xs", given, strict=True)))
    import_model(str(tmp_path / "model.onnx"), tmp_path / "model")
    assert at.compile(str(tmp_path / "model"))(*given).tolist() == expected.tolist()


def test_a_size_of_zero_is_said_to_be_one(tmp_path):
    path = newest(tmp_path / "model.onnx", "Concat", ("x", [3, 4]), ("e", [0, 4]), axis=0)
    with pytest.raises(PayloadError, match="input e must have sizes of at least 1, that of dimension 0 is 0"):
        import_model(str(path), tmp_path / "model")


@pytest.mark.parametrize(
    ("op", "held", "attributes", "what"),
    [
        ("Slice", {"s": np.array([2]), "e": np.array([2])}, {}, "result y"),
        ("Concat", {"w": np.zeros((0, 4), np.float32)}, {"axis": 0}, "weight w"),
    ],
)
def test_what_has_no_elements_is_named(op, held, attributes, what, tmp_path):
    given = {"x": np.zeros((3, 4), np.float32)}
    path = modelled(tmp_path / "model.onnx", helper.make_node(op, ["x", *held], ["y"], **attributes), given, held)
    with pytest.raises(PayloadError, match=rf"sizes of {what} must be at least 1, got \(0, 4\)"):
        import_model(str(path), tmp_path / "model")


@pytest.mark.parametrize(
    ("sizes", "said"),
    [((3, 4), r"leaves open \(none\), got batch"), (("n", 4), r"leaves open \(n\), got batch")],
)
def test_sizes_of_no_open_dimension_are_refused(sizes, said, tmp_path):
    path = newest(tmp_path / "model.onnx", "Neg", ("x", sizes))
    with pytest.raises(PayloadError, match=said):
        import_model(f"{path},n=3,batch=2" if "n" in sizes else f"{path},batch=2", tmp_path / "model")


def test_elements_at_no_indices_are_refused(tmp_path):
    none = numpy_helper.from_array(np.zeros((0, 1), np.int64), "at")
    nodes = [helper.make_node("GatherND", ["x", "at"], ["e"]), helper.make_node("Concat", ["e", "x"], ["y"], axis=0)]
    path = save_newest(tmp_path / "model.onnx", nodes, [("x", [4, 3])], [4, 3], [none])
    with pytest.raises(PayloadError, match="cannot be imported"):
        import_model(str(path), tmp_path / "model")


@pytest.mark.parametrize(("mode", "aligned"), [("linear", 0), ("linear", 1), ("nearest", 0), ("nearest", 1)])
def test_places_outside_an_image_hold_zeros(mode, aligned, tmp_path):
    path = sampled(tmp_path / "model.onnx", mode, align_corners=aligned)
    image = np.arange(1, 41, dtype=np.float32).reshape(1, 2, 4, 5)
    places = np.zeros((1, 1, 10, 2), np.float32)
    places[..., 0] = [-2, -1.5, -1.3, -1.1, -0.75, 0, 1.1, 1.24, 1.5, 9]
    places[0, 0, 4:6, 1] = -0.5, 0.5
    (expected,) = ReferenceEvaluator(onnx.load(path)).run(None, {"x": image, "g": places})
    import_model(str(path), tmp_path / "model")
    np.testing.assert_allclose(at.compile(str(tmp_path / "model"))(image, places), expected, rtol=1e-5)


def test_places_of_a_grid_are_drawn_outside_the_image_too(tmp_path):
    import_model(str(sampled(tmp_path / "model.onnx", "bilinear", opset=16)), tmp_path / "model")
    with np.load(tmp_path / "model" / ORACLE) as recorded:
        assert np.abs(recorded[input_key(0, "g")]).max() > 1
        assert np.abs(recorded[input_key(0, "x")]).max() <= 1


def test_cubic_samples_are_refused_by_their_node(tmp_path):
    with pytest.raises(PayloadError, match=r"GridSample, which gives y.*must be nearest or linear, it is cubic"):
        import_model(str(sampled(tmp_path / "model.onnx", "cubic")), tmp_path / "model")


def modelled(path, node, given, held=(), *, version=17, results=1):
    """A model of one node, whose inputs are like these arrays."""
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in given.items()}
    inputs = [helper.make_tensor_value_info(name, kinds[name], array.shape) for name, array in given.items()]
    first = next(iter(kinds.values()))
    outputs = [
        helper.make_tensor_value_info(name, kind, None)
        for name, kind in zip(node.output, (first, INT64)[:results], strict=True)
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in dict(held).items()]
    graph = helper.make_graph([node], "model", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=9), path)
    return path


def assert_as_onnx_runtime(path, folder, given):
    """Import a file, and compare what its default schedules give with ONNX Runtime."""
    import onnxruntime

    expected = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)
    import_model(str(path), folder)
    called = at.compile(str(folder))
    found = called(*given.values())
    for ours, theirs in zip(found.values() if isinstance(found, dict) else [found], expected, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    return called


@pytest.mark.parametrize(
    ("op", "indices", "dtype", "attributes"),
    [
        ("Gather", [[-3, 1], [-4, 3]], np.int32, {}),
        ("Gather", [-3, 2], np.int64, {"axis": 1}),
        ("GatherElements", [[-3, 1, -4]], np.int64, {}),
        ("GatherElements", [[-3], [2]], np.int32, {"axis": 1}),
        ("GatherND", [[-3], [1]], np.int64, {}),
        ("GatherND", [[-3, 2], [2, -3]], np.int64, {}),
    ],
)
def test_negative_indices_of_an_input_count_from_the_end(op, indices, dtype, attributes, tmp_path):
    given = {"x": np.arange(12, dtype=np.float32).reshape(4, 3), "i": np.array(indices, dtype)}
    path = modelled(tmp_path / "model.onnx", helper.make_node(op, ["x", "i"], ["y"], **attributes), given)
    called = assert_as_onnx_runtime(path, tmp_path / "model", given)
    for wrong in (-5, 4):
        with pytest.raises(PayloadError, match="i must be from -"):
            called(given["x"], np.full_like(given["i"], wrong))


@pytest.mark.parametrize("op", ["ScatterElements", "ScatterND"])
def test_negative_indices_of_an_input_are_put_from_the_end(op, tmp_path):
    given = {"x": np.arange(12, dtype=np.float32).reshape(4, 3), "i": np.array([[-3], [3]])}
    given["u"] = np.array([[90.0], [91]] if op == "ScatterElements" else [[90.0] * 3, [91] * 3], np.float32)
    path = modelled(tmp_path / "model.onnx", helper.make_node(op, ["x", "i", "u"], ["y"]), given)
    assert_as_onnx_runtime(path, tmp_path / "model", given)


@pytest.mark.parametrize(
    "bounds",
    [
        ([2**63 - 1], [-(2**63)], [0], [-1]),
        ([5], [-100], [0], [-1]),
        ([100, 1], [1, 3], [-2, 1], [-2, 1]),
        ([7, 9], [-3, -9], [1, 0], [-1, -3]),
        ([2], [-6], [0], [-1]),
    ],
)
def test_a_slice_backwards_begins_at_the_last_element_that_there_is(bounds, tmp_path):
    given = {"x": np.arange(20, dtype=np.float32).reshape(5, 4)}
    held = {name: np.array(each) for name, each in zip("seap", bounds, strict=True)}
    path = modelled(tmp_path / "model.onnx", helper.make_node("Slice", ["x", *held], ["y"]), given, held)
    assert_as_onnx_runtime(path, tmp_path / "model", given)


@pytest.mark.parametrize(
    ("op", "shape", "attributes"),
    [
        ("AveragePool", [1, 2, 8, 9], {"kernel_shape": [1, 1], "strides": [2, 1], "auto_pad": "VALID", "ceil_mode": 1}),
        ("AveragePool", [1, 2, 7, 8], {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
        ("MaxPool", [1, 2, 9, 8], {"kernel_shape": [3, 2], "strides": [2, 3], "auto_pad": "SAME_UPPER"}),
        ("MaxPool", [1, 2, 9, 8], {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "VALID", "ceil_mode": 1}),
        ("MaxPool", [1, 2, 9], {"kernel_shape": [2], "strides": [2], "auto_pad": "SAME_LOWER"}),
    ],
)
def test_pools_that_choose_their_pads(op, shape, attributes, tmp_path):
    given = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    path = modelled(tmp_path / "model.onnx", helper.make_node(op, ["x"], ["y"], **attributes), given)
    assert_as_onnx_runtime(path, tmp_path / "model", given)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_maxima_of_bytes(rank, dtype, tmp_path):
    given = {"x": np.random.default_rng(0).integers(-128, 128, [1, 2, *[5] * rank]).astype(dtype)}
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2] * rank, pads=[1, 0] * rank)
    assert_as_onnx_runtime(modelled(tmp_path / "model.onnx", node, given), tmp_path / "model", given)


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ([1, 2, 6, 5], {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}),
        ([2, 2, 6, 7], {"kernel_shape": [2, 2], "dilations": [2, 3]}),
        ([1, 2, 6, 5], {"kernel_shape": [3, 2], "strides": [2, 1], "storage_order": 1}),
        ([1, 2, 9], {"kernel_shape": [3], "strides": [2], "pads": [1, 0]}),
        ([2, 2, 5, 4, 6], {"kernel_shape": [1, 2, 1], "strides": [2, 1, 3], "pads": [0, 1, 0, 0, 0, 0]}),
        ([1, 1, 5, 4, 6], {"kernel_shape": [2, 2, 2], "dilations": [1, 2, 3]}),
        ([1, 2, 7, 6], {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1}),
    ],
)
def test_places_of_maxima(shape, attributes, tmp_path):
    given = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], **attributes)
    path = modelled(tmp_path / "model.onnx", node, given, results=2)
    assert_as_onnx_runtime(path, tmp_path / "model", given)


def transposed(path, shape, kernel, given, **attributes):
    """A transposed convolution by a weight, with a bias of whole numbers."""
    rng, made = np.random.default_rng(0), kernel[1] * attributes.get("group", 1)
    held = {"w": rng.standard_normal(kernel).astype(np.float32), "b": np.arange(made, dtype=np.float32)}
    given["x"] = rng.standard_normal(shape).astype(np.float32)
    return modelled(path, helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes), given, held)


@pytest.mark.parametrize(
    ("shape", "kernel", "attributes"),
    [
        ([1, 3, 3, 4], [3, 1, 4, 4], {"group": 3, "strides": [2, 2], "pads": [1] * 4}),
        ([2, 3, 5], [3, 1, 1], {"group": 3, "strides": [2]}),
        ([1, 2, 4, 3], [2, 2, 3, 2], {"auto_pad": "SAME_UPPER", "strides": [2, 1]}),
        ([1, 2, 4, 3], [2, 2, 3, 2], {"auto_pad": "SAME_LOWER", "strides": [2, 1]}),
        ([1, 2, 4, 3], [2, 2, 3, 3], {"output_shape": [8, 6], "strides": [2, 2]}),
    ],
)
def test_transposed_convolutions_in_groups_and_with_pads_of_their_choice(shape, kernel, attributes, tmp_path):
    given = {}
    path = transposed(tmp_path / "model.onnx", shape, kernel, given, **attributes)
    assert_as_onnx_runtime(path, tmp_path / "model", given)


def test_a_transposed_convolution_of_gaps_that_chooses_its_pads_is_refused(tmp_path):
    path = transposed(tmp_path / "model.onnx", [1, 2, 3], [2, 2, 1], {}, auto_pad="SAME_LOWER", strides=[3])
    with pytest.raises(PayloadError, match=r"node 0 .*strides must be at most what its kernel covers for SAME_LOWER"):
        import_model(str(path), tmp_path / "model")
