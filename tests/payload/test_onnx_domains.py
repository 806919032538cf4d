"""Ops of foreign domains, and functions that are called like standard ops: by their own definition, or refused."""

from itertools import product

import numpy as np
import onnx
import pytest
from bundle_support import no_care
from model_zoo import FLOAT, TensorProto, helper, numpy_helper, weight

from autotune.compiler.tasks.partition import partition
from autotune.core.evaluator import Job
from autotune.core.host.machine import this_machine
from autotune.tuning.candidates import default_candidate
from autotune.worker.loading.importing import import_model
from autotune.worker.loading.reading import open_payload
from autotune.worker.worker import Worker
from payload.importers.linalg import UnsupportedError
from payload.importers.onnx_convert import read_model
from payload.importers.onnx_oracle import ask_reference

MICROSOFT = "com.microsoft"


def write(path, nodes, inputs, outputs, *weights, functions=(), version=20, domains=(MICROSOFT,), own=""):
    """A model that imports the operators of other domains, too."""
    values = [[helper.make_tensor_value_info(*each) for each in group] for group in (inputs, outputs)]
    graph = helper.make_graph(nodes, "model", *values, weights)
    opsets = [helper.make_opsetid(own, version), *(helper.make_opsetid(domain, 1) for domain in domains)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=10), path)
    return path


def function(name, domain, *nodes, inputs=("a",), outputs=("b",)):
    versions = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    return helper.make_function(domain, name, inputs, outputs, nodes, versions)


def computed(path, **given):
    """What a model gives, as the importer reads it: by ONNX's reference in float64."""
    found = read_model(path, {})
    model, weights = found.model, dict(found.weights)
    (results,), how = ask_reference(model, weights, [given])
    assert how == "onnx.reference in float64"
    return results


def in_onnx_runtime(path, **given):
    import onnxruntime

    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)


def random(*shape, dtype=np.float32):
    return np.random.default_rng(1).uniform(-2, 2, shape).astype(dtype)


def fused_matmul(path, a, b, result, **attributes):
    node = helper.make_node("FusedMatMul", ["a", "b"], ["y"], domain=MICROSOFT, **attributes)
    return write(path, [node], [("a", FLOAT, a), ("b", FLOAT, b)], [("y", FLOAT, result)])


@pytest.mark.parametrize("transposed", list(product((0, 1), repeat=4)))
def test_a_fused_product_is_as_onnx_runtime_has_it(transposed, tmp_path):
    said = dict(zip(("transA", "transB", "transBatchA", "transBatchB"), transposed, strict=True))
    rows, inner, columns, batch = 2, 3, 4, [5, 6]
    a = [inner, rows] if said["transA"] else [rows, inner]
    b = [columns, inner] if said["transB"] else [inner, columns]
    a = [a[0], *batch, a[1]] if said["transBatchA"] else [*batch, *a]
    b = [b[0], *batch, b[1]] if said["transBatchB"] else [*batch, *b]
    path = fused_matmul(tmp_path / "model.onnx", a, b, [*batch, rows, columns], alpha=3.0, **said)
    given = {"a": random(*a), "b": random(*b)}
    np.testing.assert_allclose(computed(path, **given)[0], in_onnx_runtime(path, **given)[0], atol=1e-4)


def test_vectors_are_not_transposed(tmp_path):
    path = fused_matmul(tmp_path / "model.onnx", [3], [3, 4], [4], transA=1, alpha=0.5)
    given = {"a": random(3), "b": random(3, 4)}
    np.testing.assert_allclose(computed(path, **given)[0], in_onnx_runtime(path, **given)[0], atol=1e-5)


def test_definitions_see_shapes_behind_others(tmp_path):
    """The second product can only be written when the result of the first has a shape."""
    nodes = [
        helper.make_node("FusedMatMul", ["x", "w"], ["h"], domain=MICROSOFT, alpha=2.0),
        helper.make_node("Gelu", ["h"], ["g"], domain=MICROSOFT),
        helper.make_node("FusedMatMul", ["w", "g"], ["y"], domain=MICROSOFT, transB=1),
    ]
    path = tmp_path / "model.onnx"
    write(path, nodes, [("x", FLOAT, [5, 3])], [("y", FLOAT, [3, 5])], weight("w", 3, 4), version=14)
    x = random(5, 3)
    np.testing.assert_allclose(computed(path, x=x)[0], in_onnx_runtime(path, x=x)[0], atol=1e-5)


def test_a_contrib_op_inside_a_branch_is_written_too(tmp_path):
    def branch(name, op, domain):
        node = helper.make_node(op, ["h"], [name], domain=domain)
        return helper.make_graph([node], name, [], [helper.make_tensor_value_info(name, FLOAT, [4])])

    nodes = [
        helper.make_node("Neg", ["x"], ["h"]),
        helper.make_node(
            "If", ["c"], ["y"], then_branch=branch("t", "Gelu", MICROSOFT), else_branch=branch("e", "Relu", "")
        ),
    ]
    given = [("x", FLOAT, [4]), ("c", TensorProto.BOOL, [])]
    path = write(tmp_path / "model.onnx", nodes, given, [("y", FLOAT, [4])])
    for chosen in (True, False):
        values = {"x": random(4), "c": np.array(chosen)}
        np.testing.assert_allclose(computed(path, **values)[0], in_onnx_runtime(path, **values)[0], atol=1e-6)


def test_functions_of_a_model_are_what_their_bodies_say(tmp_path):
    """They are called like standard ops, and one calls the other."""
    twice = function("Relu", "mine", helper.make_node("Add", ["a", "a"], ["b"]))
    body = [helper.make_node("Relu", ["a"], ["h"], domain="mine"), helper.make_node("Neg", ["h"], ["b"])]
    nodes = [
        helper.make_node("MatMul", ["x"], ["m"], domain="mine"),
        helper.make_node("Relu", ["m"], ["n"], domain="mine"),
        helper.make_node("Abs", ["n"], ["y"], domain="ai.onnx"),
    ]
    path = tmp_path / "model.onnx"
    functions = [twice, function("MatMul", "mine", *body)]
    write(path, nodes, [("x", FLOAT, [4])], [("y", FLOAT, [4])], functions=functions, domains=["mine"])
    x = random(4)
    np.testing.assert_allclose(computed(path, x=x)[0], np.abs(-4 * x.astype(np.float64)))


def test_a_setting_that_a_function_reads_is_no_weight(tmp_path):
    pad = function("Wider", "mine", helper.make_node("Resize", ["a", "", "s"], ["b"]), inputs=("a", "s"))
    scales = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")
    path = tmp_path / "model.onnx"
    node = helper.make_node("Wider", ["x", "scales"], ["y"], domain="mine")
    shapes = [("x", FLOAT, [1, 2, 3, 3])], [("y", FLOAT, [1, 2, 6, 6])]
    write(path, [node], *shapes, scales, functions=[pad], domains=["mine"])
    found = read_model(path, {})
    model, weights = found.model, dict(found.weights)
    assert (list(weights), [node.op_type for node in model.graph.node]) == ([], ["Resize"])


@pytest.mark.usefixtures("warm_converters")
def test_an_imported_fused_product_keeps_its_factor(tmp_path):
    path = fused_matmul(tmp_path / "model.onnx", [2, 3], [3, 4], [2, 4], alpha=3.0)
    import_model(str(path), tmp_path / "model")
    payload = open_payload(str(tmp_path / "model"))
    given = payload.make_inputs(0)
    np.testing.assert_allclose(payload.reference(**given)[0], in_onnx_runtime(path, **given)[0], atol=1e-5)
    parts, machine = partition(payload), this_machine()
    with no_care(), Worker() as worker:
        (found,) = worker.evaluate(Job(payload, (default_candidate(parts, machine),), machine))
    assert found.outcome == "ok"


def node_of(op, domain, **more):
    return [helper.make_node(op, ["x"], ["y"], domain=domain, **more)]


def recursive(path):
    endless = function("Endless", "mine", helper.make_node("Endless", ["a"], ["b"], domain="mine"))
    return write(path, node_of("Endless", "mine"), *VECTOR, functions=[endless], domains=["mine"])


def doubling(path):
    """Functions each of which calls the next one twice."""
    called = [helper.make_node(f"F{i + 1}", ["a"], ["b"], domain="mine") for i in range(40)]
    doubled = [function(f"F{i}", "mine", node, node) for i, node in enumerate(called)]
    last = function("F40", "mine", helper.make_node("Neg", ["a"], ["b"]))
    return write(path, node_of("F0", "mine"), *VECTOR, functions=[*doubled, last], domains=["mine"])


def hiding(path):
    hides = function("Relu", "", helper.make_node("Neg", ["a"], ["b"]))
    return write(path, node_of("Relu", ""), *VECTOR, functions=[hides])


def nested(path):
    body = helper.make_graph(
        node_of("Relu", "com.acme", name="inner"), "body", [], [helper.make_tensor_value_info("y", FLOAT, [4])]
    )
    nodes = [helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body)]
    return write(path, nodes, [("x", FLOAT, [4]), ("c", TensorProto.BOOL, [])], [("z", FLOAT, [4])])


VECTOR = [("x", FLOAT, [4])], [("y", FLOAT, [4])]
REFUSED = {
    **{
        f"{domain}::{op}": (
            lambda path, op=op, domain=domain: write(path, node_of(op, domain, name="n7"), *VECTOR, domains=[domain]),
            rf"node n7 \({domain}::{op}\) must be of a standard op of ONNX, or one that is defined here",
        )
        for op, domain in [
            ("Relu", "com.acme"),
            ("MatMul", "com.acme"),
            ("Identity", "com.acme"),
            ("Constant", "com.acme"),
            ("Gelu", "com.acme"),
            ("If", "com.acme"),
            ("Relu", MICROSOFT),
            ("TopK", MICROSOFT),
            ("Scaler", "ai.onnx.ml"),
            ("Relu", "ai.onnx.ml"),
            ("Adam", "ai.onnx.preview.training"),
            ("Relu", "AI.ONNX"),
        ]
    },
    "no such op": (
        lambda path: write(path, node_of("Frobnicate", ""), *VECTOR),
        r"node 0 \(Frobnicate, which gives y\) must",
    ),
    "op of a later version": (
        lambda path: write(path, node_of("Gelu", ""), *VECTOR, version=17),
        r"node 0 \(Gelu, which gives y\) must",
    ),
    "inside a branch": (
        nested,
        r"node inner \(com.acme::Relu\) in the (then|else)_branch of node 0 \(If, which gives z\) must",
    ),
    "function that calls itself": (recursive, "functions must not call themselves, mine::Endless do"),
    "functions that grow beyond all bounds": (
        doubling,
        r"functions must be at most 1048576 nodes where they are called, they are 1\.1e\+12",
    ),
    "function that hides a standard op": (hiding, "function Relu must not have the name of a standard op"),
    "two versions": (
        lambda path: write(path, node_of("Relu", ""), *VECTOR, domains=["ai.onnx"]),
        "must import one version of ONNX's operators, it imports 1 and 20",
    ),
    "a version of no operators": (
        lambda path: write(path, node_of("Relu", ""), *VECTOR, version=999),
        r"must import a version of ONNX's operators from 1 to \d+, it imports 999; export it",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_defined_is_refused_by_domain_and_node(name, tmp_path):
    make, words = REFUSED[name]
    with pytest.raises(UnsupportedError, match=words):
        read_model(make(tmp_path / "model.onnx"), {})


def test_both_spellings_of_the_own_domain_are_one(tmp_path):
    path = tmp_path / "model.onnx"
    write(path, node_of("Relu", "ai.onnx"), *VECTOR, own="ai.onnx", domains=[])
    x = random(4)
    np.testing.assert_allclose(computed(path, x=x)[0], np.maximum(x, 0))
