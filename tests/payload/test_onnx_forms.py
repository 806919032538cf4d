"""Forms of ONNX's ops that are written as others before anything reads them: as ONNX Runtime has them, or refused."""

from itertools import product

import ml_dtypes
import numpy as np
import onnx
import pytest
from model_zoo import FLOAT, INT64, TensorProto, helper, numpy_helper

from autotune.bundles.call import compile_payload
from autotune.core.errors import PayloadError
from autotune.worker.loading.importing import import_model
from autotune.worker.loading.reading import open_payload
from payload.importers.linalg import UnsupportedError
from payload.importers.onnx_control import write_steps
from payload.importers.onnx_convert import read_model
from payload.importers.onnx_oracle import ask_reference
from payload.importers.onnx_values import fold, fold_constants, of_shape, requested_size

pytestmark = pytest.mark.usefixtures("warm_converters")
RNG = np.random.default_rng(0)
STEPS, BATCH, WIDTH, HIDDEN = 4, 2, 3, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def random(*shape):
    return (0.5 * RNG.standard_normal(shape)).astype(np.float32)


def value(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def write(path, nodes, given, results, held=(), *, version=17, kind=FLOAT):
    """A model whose inputs are like these arrays."""
    inputs = [value(name, array) for name, array in given.items()]
    outputs = [helper.make_tensor_value_info(name, kind, None) for name in results]
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in dict(held).items()]
    graph = helper.make_graph(nodes, "model", inputs, outputs, weights)
    domains = {node.domain for node in nodes} - {""}
    opsets = [helper.make_opsetid("", version), *(helper.make_opsetid(each, 1) for each in domains)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


def read_whole(path):
    """A model as the importer has it before it is lowered."""
    found = read_model(path, {})
    model, weights = found.model, dict(found.weights)
    fold_constants(model, weights)
    write_steps(model, weights)
    return model, weights


def assert_as_onnx_runtime(path, given, tolerance=1e-5):
    import onnxruntime

    expected = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)
    model, weights = read_whole(path)
    (found,), _ = ask_reference(model, weights, [given])
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, atol=tolerance)
    return model


def recurrent(path, op, direction, lengths, *, full, named=True, version=17):
    ways = 2 if direction == "bidirectional" else 1
    wide = GATES[op] * HIDDEN
    held = {"W": random(ways, wide, WIDTH), "R": random(ways, wide, HIDDEN)}
    names = ["X", "W", "R", "", "", ""]
    given = {"X": random(STEPS, BATCH, WIDTH)}
    if full:
        held |= {"B": random(ways, 2 * wide), "h": random(ways, BATCH, HIDDEN)}
        names[3], names[5] = "B", "h"
    if full and op == "LSTM":
        held |= {"c": random(ways, BATCH, HIDDEN), "P": random(ways, 3 * HIDDEN)}
        names += ["c", "P"]
    if lengths is not None:
        (given if named else held)["lengths"] = np.array(lengths, np.int32)
        names[4] = "lengths"
    attributes = {"linear_before_reset": int(full)} if op == "GRU" else {}
    results = ["Y", "Y_h", "Y_c"][: 3 if op == "LSTM" else 2]
    node = helper.make_node(op, names, results, direction=direction, hidden_size=HIDDEN, **attributes)
    return write(path, [node], given, results, held, version=version), given


@pytest.mark.parametrize(
    ("op", "direction", "full"), list(product(GATES, ("forward", "reverse", "bidirectional"), (False, True)))
)
def test_recurrent_ops_of_all_directions(op, direction, full, tmp_path):
    for lengths in (None, [2, 4]):
        path, given = recurrent(tmp_path / "model.onnx", op, direction, lengths, full=full)
        assert_as_onnx_runtime(path, given)


@pytest.mark.parametrize("op", GATES)
def test_recurrent_ops_of_old_models_are_written_by_ops_of_today(op, tmp_path):
    path, given = recurrent(tmp_path / "model.onnx", op, "bidirectional", [2, 4], full=True, version=7)
    assert_as_onnx_runtime(path, given)


def test_a_recurrent_op_of_which_a_part_is_not_known_is_refused_by_name(tmp_path):
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], name="gate", clip=1.0, hidden_size=HIDDEN)
    held = {"w": random(1, 4 * HIDDEN, WIDTH), "r": random(1, 4 * HIDDEN, HIDDEN)}
    path = write(tmp_path / "model.onnx", [node], {"x": random(STEPS, BATCH, WIDTH)}, ["y"], held)
    with pytest.raises(UnsupportedError, match=r"node gate \(LSTM\) cannot be lowered: clip of it is not known here"):
        read_model(path, {})


def body(nodes, inputs, outputs, *held):
    """A graph inside a node; kinds and shapes of what it reads and gives are as said."""
    values = [[helper.make_tensor_value_info(*each) for each in group] for group in (inputs, outputs)]
    return helper.make_graph(nodes, "body", *values, held)


def growing(path, condition, *, trips):
    """A loop that adds the weights again and again, and keeps what it had on the way."""
    nodes = [
        helper.make_node("Add", ["s", "w"], ["t"], name="inner"),
        helper.make_node("Cast", ["i"], ["real"], to=FLOAT),
        helper.make_node("Mul", ["t", "real"], ["kept"]),
        *condition,
    ]
    inputs = [("i", INT64, []), ("goes", TensorProto.BOOL, []), ("s", FLOAT, [3])]
    outputs = [("again", TensorProto.BOOL, []), ("t", FLOAT, [3]), ("kept", FLOAT, [3])]
    bound = numpy_helper.from_array(np.array(2, np.int64), "bound")
    inner = body(nodes, inputs, outputs, bound)
    loop = helper.make_node("Loop", ["trips" if trips else "", "", "x"], ["y", "all"], body=inner, name="rounds")
    held = {"w": random(3), **({"trips": np.array(4, np.int64)} if trips else {})}
    given = {"x": random(3)}
    return write(path, [loop], given, ["y", "all"], held), given


@pytest.mark.parametrize(
    "condition",
    [
        [helper.make_node("Identity", ["goes"], ["again"])],
        [helper.make_node("Less", ["i", "bound"], ["again"])],
    ],
    ids=["counted", "while"],
)
@pytest.mark.parametrize("trips", [True, False])
def test_a_loop_whose_steps_are_known_is_written_out(condition, trips, tmp_path):
    if not trips and condition[0].op_type == "Identity":
        condition = [helper.make_node("Less", ["i", "bound"], ["again"])]
    path, given = growing(tmp_path / "model.onnx", condition, trips=trips)
    model = assert_as_onnx_runtime(path, given)
    assert "Loop" not in {node.op_type for node in model.graph.node}


def test_a_loop_that_ends_by_data_is_refused_by_its_name(tmp_path):
    condition = [
        helper.make_node("ReduceMax", ["t"], ["largest"], keepdims=0),
        helper.make_node("Less", ["largest", "real"], ["again"]),
    ]
    path, _ = growing(tmp_path / "model.onnx", condition, trips=True)
    with pytest.raises(PayloadError, match=r"node rounds \(Loop\) cannot be lowered"):
        import_model(str(path), tmp_path / "model")


def test_a_loop_without_an_end_is_refused_before_anything_runs_it(tmp_path):
    path, _ = growing(tmp_path / "model.onnx", [helper.make_node("Identity", ["goes"], ["again"])], trips=False)
    with pytest.raises(PayloadError, match=r"node rounds \(Loop\) cannot be lowered: it takes more than 1024 steps"):
        import_model(str(path), tmp_path / "model")


@pytest.mark.parametrize("backward", [0, 1])
def test_a_scan_is_written_out(backward, tmp_path):
    nodes = [helper.make_node("Add", ["s", "a"], ["t"]), helper.make_node("Mul", ["t", "t"], ["b"])]
    inner = body(nodes, [("s", FLOAT, [3]), ("a", FLOAT, [3])], [("t", FLOAT, [3]), ("b", FLOAT, [3])])
    names = {"scan_input_axes": [1], "scan_output_axes": [1], "scan_input_directions": [backward]}
    node = helper.make_node("Scan", ["x", "rows"], ["y", "all"], body=inner, num_scan_inputs=1, **names)
    given = {"x": random(3), "rows": random(3, 4)}
    assert_as_onnx_runtime(write(tmp_path / "model.onnx", [node], given, ["y", "all"]), given)


def wrong_scan(**said):
    rows = ("s", FLOAT, [3]), ("a", FLOAT, [3])
    inner = body([helper.make_node("Add", ["s", "a"], ["t"])], rows, [("t", FLOAT, [3])])
    return helper.make_node("Scan", ["x", "rows"], ["y"], body=inner, doc_string="node 7 (Scan)", **said)


def wrong_branch():
    branch = body([helper.make_node("Neg", ["x"], ["a"])], [], [("a", FLOAT, [3])])
    return helper.make_node("If", ["c"], ["y", "z"], then_branch=branch, else_branch=branch, doc_string="node 7 (If)")


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (wrong_scan(num_scan_inputs=3), r"node 7 \(Scan\) cannot be lowered: it must scan from 1 to all .*, got 3"),
        (wrong_scan(num_scan_inputs=-1), "it must scan from 1 to all of its inputs, got -1"),
        (wrong_scan(num_scan_inputs=1, scan_input_axes=[9]), r"scan_input_axes must be dimensions .*, got \[9\]"),
        (wrong_branch(), "its then_branch must take 0 tensors and give 2, it takes 0 and gives 1"),
    ],
)
def test_a_node_that_does_not_fit_the_graphs_inside_it_is_refused(node, words):
    inputs = [helper.make_tensor_value_info(*each) for each in (("x", FLOAT, [3]), ("rows", FLOAT, [4, 3]))]
    held = numpy_helper.from_array(np.array(True), "c")
    graph = helper.make_graph([node], "model", inputs, [helper.make_tensor_value_info("y", FLOAT, [3])], [held])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    with pytest.raises(UnsupportedError, match=words):
        write_steps(model, {})


@pytest.mark.parametrize(
    ("op", "given", "most"),
    [
        ("Range", [0, 1 << 40, 1], 1 << 40),
        ("ConstantOfShape", [[1 << 20, 1 << 20]], 1 << 40),
        ("Expand", [1.0, [1 << 20, 1 << 20]], 1 << 40),
        ("Tile", [[1.0, 2.0], [1 << 40]], 1 << 41),
        ("Add", [1, 2], 0),
    ],
)
def test_what_is_asked_for_is_counted_before_it_is_made(op, given, most):
    names = [f"g{number}" for number in range(len(given))]
    node, known = helper.make_node(op, names, ["y"]), dict(zip(names, map(np.array, given), strict=True))
    assert requested_size(node, list(known.values())) == most
    graph = helper.make_graph([node], "model", [], [helper.make_tensor_value_info("y", INT64, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    assert (fold(model, node, known, {}) is None) == (most > 0)


def test_a_window_larger_than_its_image_is_refused_by_the_sizes_that_it_leaves():
    with pytest.raises(UnsupportedError, match=r"sizes of tensor y must be such as arrays have, they are \[1, -4\]"):
        of_shape("y", (1, -4))


@pytest.mark.parametrize("held", [True, False])
def test_the_branch_of_a_known_condition_is_taken(held, tmp_path):
    branches = [
        body([helper.make_node(op, ["x"], [name])], [], [(name, FLOAT, [3])])
        for op, name in (("Neg", "a"), ("Exp", "b"))
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    path = write(tmp_path / "model.onnx", [node], {"x": random(3)}, ["y"], {"c": np.array(held)})
    model = assert_as_onnx_runtime(path, {"x": random(3)})
    assert next(each.op_type for each in model.graph.node) == ("Neg" if held else "Exp")


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("NonZero", r"node there \(NonZero\) cannot be lowered: the size of what it gives depends on data"),
        ("Bernoulli", r"node there \(Bernoulli\) cannot be lowered: torch-mlir writes it as ml_program"),
    ],
)
def test_a_refusal_names_the_node(op, words, tmp_path):
    nodes = [helper.make_node("Neg", ["a"], ["x"]), helper.make_node(op, ["x"], ["y"], name="there")]
    kind = FLOAT if op == "Bernoulli" else INT64
    path = write(tmp_path / "model.onnx", nodes, {"a": random(4, 4)}, ["y"], kind=kind)
    with pytest.raises(PayloadError, match=words):
        import_model(str(path), tmp_path / "model")


MICROSOFT = "com.microsoft"
B, S, N, D = 2, 5, 3, 4  # batch, tokens, heads, and numbers of a head
W = N * D
ROWS = {"x": random(B, S, W)}
SCALES = {"g": 1 + random(W), "b": random(W)}
IDS = {"i": RNG.integers(0, 9, (B, S)).astype(np.int32), "j": RNG.integers(0, 2, (B, S)).astype(np.int32)}
TABLES = {"words": random(9, W), "places": random(7, W), "kinds": random(2, W)}
QKV = {"w": random(W, 3 * W), "c": random(3 * W)}
LENGTHS, SEEN = np.array([3, 5], np.int32), np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)
PAIR = {"q": random(B, 3, W), "k": random(B, S, W), "v": random(B, S, W)}
ANGLES = RNG.uniform(0, 6, (9, D // 2))
TURNS = {"cos": np.cos(ANGLES).astype(np.float32), "sin": np.sin(ANGLES).astype(np.float32)}
HEADS = {"x": random(B, N, S, D)}
AT, FIRST = {"p": np.array([range(S), range(2, S + 2)])}, {"p": np.array([3])}
IMAGE = {"x": random(1, 2, 6, 6)}
CONV = {"w": random(4, 2, 3, 3), "b": random(4)}
WHOLE = {"x": RNG.integers(0, 255, (3, 4)).astype(np.uint8), "w": RNG.integers(-9, 9, (4, 6)).astype(np.int8)}
FACTORS = {"s": np.array(0.1, np.float32), "t": random(6), "z": np.array(7, np.uint8)}

# By name: op, names of inputs, arrays that are given, that are held, attributes, and names of results.
CONTRIB = {
    "BiasGelu": ("BiasGelu", "x b", ROWS, SCALES, {}, "y"),
    "FastGelu": ("FastGelu", "x", ROWS, {}, {}, "y"),
    "FastGelu with a bias": ("FastGelu", "x b", ROWS, SCALES, {}, "y"),
    "QuickGelu": ("QuickGelu", "x", ROWS, {}, {"alpha": 1.5}, "y"),
    "SkipLayerNormalization": ("SkipLayerNormalization", "x x g b", ROWS, SCALES, {"epsilon": 1e-3}, "y"),
    "SkipLayerNormalization, all": (
        "SkipLayerNormalization",
        "x s g b e",
        ROWS,
        {**SCALES, "s": random(1, S, W), "e": random(W)},
        {},
        "y - - t",
    ),
    "SkipSimplifiedLayerNormalization": ("SkipSimplifiedLayerNormalization", "x x g b", ROWS, SCALES, {}, "y - - t"),
    "EmbedLayerNormalization": (
        "EmbedLayerNormalization",
        "i j words places kinds g b m",
        {**IDS, "m": SEEN},
        {**TABLES, **SCALES},
        {},
        "y m2",
    ),
    "EmbedLayerNormalization of words": (
        "EmbedLayerNormalization",
        "i - words places - g b",
        {"i": IDS["i"]},
        {**TABLES, **SCALES},
        {},
        "y m2",
    ),
    "Attention": ("Attention", "x w c", ROWS, QKV, {"num_heads": N}, "y"),
    "Attention, lengths": ("Attention", "x w c m", {**ROWS, "m": LENGTHS}, QKV, {"num_heads": N}, "y"),
    "Attention, mask": ("Attention", "x w c m", {**ROWS, "m": SEEN}, QKV, {"num_heads": N, "scale": 0.3}, "y"),
    "Attention, causal": ("Attention", "x w c", ROWS, QKV, {"num_heads": N, "unidirectional": 1}, "y"),
    "Attention, bias": ("Attention", "x w c - - a", {**ROWS, "a": random(B, N, S, S)}, QKV, {"num_heads": N}, "y"),
    "MultiHeadAttention": ("MultiHeadAttention", "q k v", PAIR, {}, {"num_heads": N}, "y"),
    "MultiHeadAttention, all": (
        "MultiHeadAttention",
        "q k v c m a",
        {**PAIR, "m": SEEN, "a": random(1, N, 3, S)},
        QKV,
        {"num_heads": N},
        "y",
    ),
    **{
        f"RotaryEmbedding, {kind} {name}": (
            "RotaryEmbedding",
            "x p cos sin",
            {**x, **places},
            TURNS,
            {"interleaved": near, **heads},
            "y",
        )
        for near, kind in enumerate(("halves", "neighbours"))
        for name, x, places, heads in (
            ("of rows", ROWS, AT, {}),
            ("of heads", HEADS, AT, {}),
            ("from the fourth on", ROWS, FIRST, {}),
        )
    },
    "FusedConv": ("FusedConv", "x w b", IMAGE, CONV, {"activation": "Relu", "kernel_shape": [3, 3]}, "y"),
    "FusedConv and a sum": (
        "FusedConv",
        "x w b z",
        {**IMAGE, "z": random(1, 4, 4, 4)},
        CONV,
        {"activation": "LeakyRelu", "activation_params": [0.2], "kernel_shape": [3, 3]},
        "y",
    ),
    "FusedGemm": (
        "FusedGemm",
        "x w b",
        {"x": random(3, 4)},
        {"w": random(5, 4), "b": random(5)},
        {"transB": 1, "alpha": 0.5, "activation": "LeakyRelu", "activation_alpha": 0.3},
        "y",
    ),
    "MatMulIntegerToFloat": ("MatMulIntegerToFloat", "x w s s z - t", WHOLE, FACTORS, {}, "y"),
}


@pytest.mark.parametrize("name", CONTRIB)
def test_contrib_ops_are_as_onnx_runtime_has_them(name, tmp_path):
    op, inputs, given, held, attributes, results = CONTRIB[name]
    names, outputs = ([each.strip("-") for each in text.split()] for text in (inputs, results))
    node = helper.make_node(op, names, outputs, domain=MICROSOFT, **attributes)
    used = {name: array for name, array in held.items() if name in names}
    kept = [each for each in outputs if each]
    path = write(tmp_path / "model.onnx", [node], {k: v for k, v in given.items() if k in names}, kept, used)
    if "m2" in kept:
        path = write_typed(path)
    assert_as_onnx_runtime(path, {k: v for k, v in given.items() if k in names})


def write_typed(path):
    """The same model, of whose results the second is i32."""
    model = onnx.load(path)
    model.graph.output[1].type.tensor_type.elem_type = TensorProto.INT32
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("near", [0, 1])
@pytest.mark.parametrize("part", [0, 2])
def test_rotary_embeddings_of_onnx_are_as_onnx_runtime_has_them(near, part, tmp_path):
    tables = {name: table[:, : (part or D) // 2] for name, table in TURNS.items()}
    attributes = {"interleaved": near, "rotary_embedding_dim": part}
    node = helper.make_node("RotaryEmbedding", ["x", "cos", "sin", "p"], ["y"], **attributes)
    path = write(tmp_path / "model.onnx", [node], {**HEADS, **AT}, ["y"], tables, version=23)
    assert_as_onnx_runtime(path, {**HEADS, **AT})


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [None, 0, 2, -1])
def test_softmaxes_of_old_versions_are_of_rows(op, axis, tmp_path):
    node = helper.make_node(op, ["x"], ["y"], **({} if axis is None else {"axis": axis}))
    given = {"x": random(2, 3, 4)}
    assert_as_onnx_runtime(write(tmp_path / "model.onnx", [node], given, ["y"], version=12), given)


@pytest.mark.parametrize(
    ("op", "version", "mode", "scales"),
    [
        ("Upsample", 9, "linear", [1, 1, 2, 3]),
        ("Upsample", 9, "nearest", [1, 1, 1.5, 1.3]),
        ("Resize", 10, "linear", [1, 1, 0.7, 1.5]),
        ("Resize", 10, "nearest", [1, 1, 0.6, 0.6]),
    ],
)
def test_places_of_resizes_of_old_versions_are_those_over_the_scale(op, version, mode, scales, tmp_path):
    given, held = {"x": random(1, 2, 4, 5)}, {"s": np.array(scales, np.float32)}
    node = helper.make_node(op, ["x", "s"], ["y"], mode=mode)
    assert_as_onnx_runtime(write(tmp_path / "model.onnx", [node], given, ["y"], held, version=version), given)


def test_a_result_of_a_type_that_is_not_written_is_refused_by_its_name(tmp_path):
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT16)
    path = write(tmp_path / "model.onnx", [node], {"x": random(3, 4)}, ["y"], kind=TensorProto.INT16)
    with pytest.raises(PayloadError, match="result y must not be of int16, it is; cast it to int32 in the model"):
        import_model(str(path), tmp_path / "model")


def test_an_input_of_a_type_that_is_not_read_is_refused_by_its_name(tmp_path):
    given = {"x": np.zeros((3, 4), np.int16)}
    path = write(tmp_path / "model.onnx", [helper.make_node("Neg", ["x"], ["y"])], given, ["y"], kind=TensorProto.INT16)
    with pytest.raises(PayloadError, match="input x must not hold integers of 16 bits"):
        import_model(str(path), tmp_path / "model")


@pytest.mark.parametrize(
    ("op", "shape", "attributes", "ranges"),
    [
        ("Gather", [4], {"axis": 1}, (7, (-7, 7))),
        ("GatherElements", [5, 2], {"axis": 1}, (7, (-7, 7))),
        ("GatherND", [4, 1], {}, (5, (-5, 5))),
        ("GatherND", [4, 2], {}, (5, (-5, 5))),
        ("NegativeLogLikelihoodLoss", [5], {}, (7, (0, 7))),
        ("SoftmaxCrossEntropyLoss", [5], {}, (7, (0, 7))),
        ("ReverseSequence", [7], {"time_axis": 0, "batch_axis": 1}, (5, (-8, 8))),
    ],
)
def test_indices_of_a_computed_tensor_have_its_range(op, shape, attributes, ranges, tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node(op, ["r", "i"], ["y"], **attributes)]
    given = [helper.make_tensor_value_info("x", FLOAT, [5, 7]), helper.make_tensor_value_info("i", INT64, shape)]
    graph = helper.make_graph(nodes, "g", given, [helper.make_tensor_value_info("y", FLOAT, None)])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    indices = open_payload(path).arguments[1]
    assert (indices.high, indices.accepts) == ranges


@pytest.mark.parametrize("kind", ["STRING", "COMPLEX64", "FLOAT8E4M3FN", "INT4"])
def test_inputs_of_what_programs_do_not_read_are_refused_by_name(kind, tmp_path):
    x, y = (helper.make_tensor_value_info(name, getattr(TensorProto, kind), [2]) for name in "xy")
    path = tmp_path / "model.onnx"
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "model", [x], [y])
    onnx.save(helper.make_model(graph), path)
    with pytest.raises(PayloadError, match=f"input x must hold numbers that programs read, it is of {kind.lower()}"):
        import_model(str(path), tmp_path / "model")


def test_a_sparse_initializer_is_refused_by_name(tmp_path):
    values, places = (numpy_helper.from_array(np.array([1, 2], kind), "w") for kind in (np.float32, np.int64))
    sparse = helper.make_sparse_tensor(values, places, [3])
    x, y = (helper.make_tensor_value_info(name, FLOAT, [3]) for name in "xy")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])], "model", [x], [y], sparse_initializer=[sparse]
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph), path)
    with pytest.raises(PayloadError, match="initializer w must be dense, it is sparse"):
        import_model(str(path), tmp_path / "model")


@pytest.mark.parametrize("place", ["input", "output", "initializer"])
def test_names_of_several_lines_are_refused(place, tmp_path):
    names = {each: "a\nb" if each == place else each for each in ("input", "output", "initializer")}
    x, y = (helper.make_tensor_value_info(names[name], FLOAT, [2]) for name in ("input", "output"))
    held = numpy_helper.from_array(np.ones(2, np.float32), names["initializer"])
    node = helper.make_node("Add", [names["input"], names["initializer"]], [names["output"]])
    onnx.save(helper.make_model(helper.make_graph([node], "model", [x], [y], [held])), tmp_path / "model.onnx")
    with pytest.raises(PayloadError, match=r"must be printable, got 'a\\nb'"):
        import_model(str(tmp_path / "model.onnx"), tmp_path / "model")


def test_a_model_that_ends_in_bf16_is_compared_with_what_its_import_recorded(tmp_path):
    x = random(6, 8).astype(ml_dtypes.bfloat16)
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=FLOAT),
        helper.make_node("Softmax", ["wide"], ["shares"]),
        helper.make_node("Cast", ["shares"], ["y"], to=TensorProto.BFLOAT16),
    ]
    path = write(tmp_path / "model.onnx", nodes, {"x": x}, ["y"], kind=TensorProto.BFLOAT16)
    import_model(str(path), tmp_path / "model")
    payload = open_payload(str(tmp_path / "model"))
    assert [each.dtype for each in payload.reference(**payload.make_inputs(0))] == [np.float32]
    got = compile_payload(payload)(x).astype(np.float32)
    assert np.abs(got.sum(axis=-1) - 1).max() < 0.02


def positions(of):
    """Nodes that give 0, 1 .. of the dimension 1 of a tensor, and what they read."""
    nodes = [
        helper.make_node("Shape", [of], ["sizes"]),
        helper.make_node("Gather", ["sizes", "one"], ["tokens"]),
        helper.make_node("Range", ["zero", "tokens", "one"], ["places"]),
    ]
    return nodes, {"zero": np.int64(0), "one": np.int64(1)}


def test_what_is_computed_of_sizes_is_computed_in_the_types_of_the_model(tmp_path):
    """Buckets of T5: log(16 / 8) / log(16) * 8 is 2 in f32, and less in f64, which is cut to 1."""
    nodes, held = positions("x")
    nodes += [
        helper.make_node("Max", ["places", "one"], ["positive"]),
        helper.make_node("Cast", ["positive"], ["real"], to=FLOAT),
        helper.make_node("Div", ["real", "eight"], ["share"]),
        helper.make_node("Log", ["share"], ["log"]),
        helper.make_node("Div", ["log", "whole"], ["part"]),
        helper.make_node("Mul", ["part", "eight"], ["scaled"]),
        helper.make_node("Cast", ["scaled"], ["bucket"], to=INT64),
        helper.make_node("Gather", ["table", "bucket"], ["bias"]),
        helper.make_node("Add", ["x", "bias"], ["y"]),
    ]
    held |= {"eight": np.float32(8), "whole": np.float32(np.log(16)), "table": random(30, 3)}
    given = {"x": random(1, 20, 3)}
    assert_as_onnx_runtime(write(tmp_path / "model.onnx", nodes, given, ["y"], held), given)


def test_one_token_of_a_model_that_computes_its_sizes(tmp_path):
    nodes, held = positions("x")
    nodes += [
        helper.make_node("Unsqueeze", ["places", "first"], ["row"]),
        helper.make_node("Gather", ["table", "row"], ["rows"]),
        helper.make_node("Add", ["x", "rows"], ["h"]),
    ]
    for dim in ("zero", "one", "last"):
        nodes += [
            helper.make_node("Shape", ["h"], [f"sizes_{dim}"]),
            helper.make_node("Gather", [f"sizes_{dim}", dim], [f"size_{dim}"]),
            helper.make_node("Unsqueeze", [f"size_{dim}", "first"], [f"list_{dim}"]),
        ]
    nodes += [
        helper.make_node("Concat", ["open", "list_last"], ["flat"], axis=0),
        helper.make_node("Reshape", ["h", "flat"], ["matrix"]),
        helper.make_node("Gemm", ["matrix", "w"], ["product"]),
        helper.make_node("Concat", ["list_zero", "list_one", "width"], ["back"], axis=0),
        helper.make_node("Reshape", ["product", "back"], ["y"]),
    ]
    held |= {"table": random(9, 4), "w": random(4, 6), "width": np.array([6]), "last": np.int64(-1)}
    held |= {"first": np.array([0]), "open": np.array([-1])}
    x = random(1, 1, 4)
    path = write(tmp_path / "model.onnx", nodes, {"x": x}, ["y"], held)
    import_model(str(path), tmp_path / "model")
    found = compile_payload(str(tmp_path / "model"))(x)
    np.testing.assert_allclose(found, (x + held["table"][0]) @ held["w"], atol=1e-5)
