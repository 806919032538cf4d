"""Forms of ONNX's ops that are written as others before anything reads them: as ONNX Runtime has them, or refused."""

from itertools import product

import numpy as np
import onnx
import pytest
from model_zoo import FLOAT, INT64, TensorProto, helper, numpy_helper

from autotune.core.errors import PayloadError
from autotune.worker.importing import import_model
from payload.importers.linalg import UnsupportedError
from payload.importers.onnx_control import write_steps
from payload.importers.onnx_convert import read_model
from payload.importers.onnx_oracle import ask_reference
from payload.importers.onnx_values import fold_constants

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
    model, weights = read_model(path, {})
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


def recurrent(path, op, direction, lengths, *, full, named=True):
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
    return write(path, [node], given, results, held), given


@pytest.mark.parametrize(
    ("op", "direction", "full"), list(product(GATES, ("forward", "reverse", "bidirectional"), (False, True)))
)
def test_recurrent_ops_of_all_directions(op, direction, full, tmp_path):
    for lengths in (None, [2, 4]):
        path, given = recurrent(tmp_path / "model.onnx", op, direction, lengths, full=full)
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


@pytest.mark.parametrize("backward", [0, 1])
def test_a_scan_is_written_out(backward, tmp_path):
    nodes = [helper.make_node("Add", ["s", "a"], ["t"]), helper.make_node("Mul", ["t", "t"], ["b"])]
    inner = body(nodes, [("s", FLOAT, [3]), ("a", FLOAT, [3])], [("t", FLOAT, [3]), ("b", FLOAT, [3])])
    names = {"scan_input_axes": [1], "scan_output_axes": [1], "scan_input_directions": [backward]}
    node = helper.make_node("Scan", ["x", "rows"], ["y", "all"], body=inner, num_scan_inputs=1, **names)
    given = {"x": random(3), "rows": random(3, 4)}
    assert_as_onnx_runtime(write(tmp_path / "model.onnx", [node], given, ["y", "all"]), given)


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
        ("Bernoulli", r"node there \(Bernoulli\) cannot be lowered: torch-mlir writes it as ml_program.global_load"),
    ],
)
def test_a_refusal_names_the_node(op, words, tmp_path):
    nodes = [helper.make_node("Neg", ["a"], ["x"]), helper.make_node(op, ["x"], ["y"], name="there")]
    kind = FLOAT if op == "Bernoulli" else INT64
    path = write(tmp_path / "model.onnx", nodes, {"a": random(4, 4)}, ["y"], kind=kind)
    with pytest.raises(PayloadError, match=words):
        import_model(str(path), tmp_path / "model")
