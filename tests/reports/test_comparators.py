"""Comparisons: every library computes what the oracle says, and who does not is a row without a time."""

import pickle
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from compare_support import CACHED, CASES, FED, LIBRARIES, TINY, inputs_of, installed, outputs_of
from payload_support import documented_payload
from tuning_support import contraction_payload

from autotune.core.errors import ComparatorError, OptionError
from autotune.core.payload import Payload
from autotune.registry import load_comparator, load_payload
from autotune.reports.compare import check_rounding, comparators_for
from autotune.worker.bench import libraries
from autotune.worker.bench.testbench import Testbench
from autotune.worker.bench.verify import verify

TINY_MODEL = "gpt,seq=4,d_model=16,layers=1,heads=2,d_ff=32,vocab=19,positions=4"
ROUNDING = (("torch_bf16", 1e-5, 5e-2), ("torch_medium", -1.0, 5e-2), ("onnxruntime_int8", 1e-5, 0.1))

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),  # one way of several, while it lasts
    pytest.mark.usefixtures("no_care"),
]


@pytest.mark.parametrize(("name", "spec"), CASES, ids=lambda value: value)
def test_library_computes_what_the_oracle_says_on_every_call(name, spec):
    comparator, payload = installed(name), load_payload(spec)
    inputs, expected = inputs_of(payload)
    before = {key: array.copy() for key, array in inputs.items()}
    ready = comparator.prepare(payload, inputs)
    ready.run(2)
    verdict = verify(payload, ready.outputs(ready.call()), expected)
    assert verdict.outcome == "ok", verdict.diagnostic
    assert all(np.array_equal(array, before[key]) for key, array in inputs.items())


@pytest.mark.parametrize("function", ["prefill", "decode", "decode,batch=2"])
@pytest.mark.parametrize("name", ["numpy", "onnxruntime", "torch"])
def test_library_with_a_cache_computes_what_the_oracle_says_in_every_case(name, function):
    payload = load_payload(f"{CACHED},function={function}")
    bench = Testbench(payload, seed=0)
    ready = [libraries.prepare_at(case, installed(name), bench) for case in bench.cases]
    assert len(ready) == len(payload.cases or (1,))
    before = {key: array.copy() for key, array in bench.inputs.items()}
    libraries.run_all(ready, bench.cases)(2)
    verdict = libraries.check(ready, bench, outputs_of(bench))
    assert verdict.outcome == "ok", verdict.diagnostic
    assert all(np.array_equal(array, before[key]) for key, array in bench.inputs.items())


@pytest.mark.parametrize("function", ["prefill", "decode,position=3", "decode,position=0"])
def test_onnx_runtime_fills_the_cache_that_the_oracle_fills(function):
    from payload.comparators.onnx_model import build
    from payload.comparators.onnxruntime import OrtSession

    installed("onnxruntime")
    payload = load_payload(f"{CACHED},function={function}")
    inputs, (keys, values, _) = inputs_of(payload)
    graph = build(payload, inputs)
    session = OrtSession(payload, graph, inputs)
    session.call()
    kept = [session.values[name].numpy() for name in graph.states]
    for layer, (k, v) in enumerate(zip(kept[::2], kept[1::2], strict=True)):
        np.testing.assert_allclose(k, keys[layer, :, : k.shape[1]], atol=1e-5)
        np.testing.assert_allclose(v, values[layer, :, : v.shape[1]], atol=1e-5)


def test_torch_fills_the_cache_that_the_oracle_fills():
    torch = pytest.importorskip("torch")
    from payload.comparators.torch import build_network

    for function in ("prefill", "decode,position=3"):
        payload = load_payload(f"{CACHED},function={function}")
        inputs, expected = inputs_of(payload)
        fed = {a.name: torch.from_numpy(inputs[a.name].copy()) for a in payload.arguments if a.role in FED}
        with torch.inference_mode():
            build_network(payload, inputs)(*fed.values())
        for name, wanted in zip(("keys", "values"), expected, strict=False):
            np.testing.assert_allclose(fed[name].numpy(), wanted, atol=1e-5)


@pytest.mark.parametrize(
    "spec", ["matmul,m=9,n=33,k=40,constant_b=1", "matmul,m=9,n=33,k=40,transpose_b=1,constant_b=1", TINY_MODEL]
)
@pytest.mark.parametrize(("name", "least", "most"), ROUNDING)
def test_library_that_rounds_is_off_by_what_it_rounds_to(name, least, most, spec):
    comparator, payload = installed(name), load_payload(spec)
    inputs, (expected, *_) = inputs_of(payload)
    ready = comparator.prepare(payload, inputs)
    (got, *_) = ready.outputs(ready.call())
    assert got.dtype == np.float32
    assert least < np.abs(got - expected).max() / np.abs(expected).max() < most


def test_library_that_rounds_has_a_row_where_an_error_is_allowed():
    rounding = {name for name, _, _ in ROUNDING} | {"llama.cpp"}
    assert rounding == {*comparators_for(0.1)} - {*comparators_for(0.0)}
    check_rounding([load_comparator(name) for name in rounding], 0.1)
    with pytest.raises(OptionError, match="error must be above 0 beside torch_bf16, which rounds to bfloat16"):
        check_rounding([load_comparator("torch"), load_comparator("torch_bf16")], 0.0)


@pytest.mark.parametrize("name", LIBRARIES)
def test_library_states_its_version(name):
    comparator = installed(name)
    assert comparator.name == name
    assert comparator.version().startswith(f"{name} ")
    assert any(character.isdigit() for character in comparator.version())


def test_numpy_states_the_core_its_blas_is_for():
    pytest.importorskip("threadpoolctl")
    assert " for " in load_comparator("numpy").version()


@pytest.mark.parametrize("name", LIBRARIES[:3])
def test_library_refuses_a_payload_without_a_graph(name):
    comparator, payload = installed(name), contraction_payload(3, 4, 5)
    with pytest.raises(ComparatorError, match=f"{name} must have a graph to compute, product"):
        comparator.prepare(payload, payload.make_inputs(0))


@pytest.mark.parametrize(
    ("changes", "op"),
    [("positions=rope", "rotate"), ("weights=int8", "restore"), ("weights=bf16,function=decode", "restore")],
)
@pytest.mark.parametrize("name", LIBRARIES)
def test_library_refuses_a_graph_with_an_op_that_it_does_not_know(name, changes, op):
    comparator, payload = installed(name), load_payload(f"nano,{changes}")
    with pytest.raises(ComparatorError, match=f"it does not know {op}"):
        comparator.prepare(payload, payload.make_inputs(0))


@pytest.mark.parametrize("name", LIBRARIES)
def test_payload_of_several_ops_needs_nothing_but_its_graph(name):
    bench = Testbench(documented_payload(), seed=0)
    ready = installed(name).prepare(bench.payload, bench.inputs)
    assert libraries.check([ready], bench, outputs_of(bench)).outcome == "ok"


def test_comparators_pickle():
    for name in LIBRARIES:
        assert pickle.loads(pickle.dumps(load_comparator(name))) == load_comparator(name)


def test_comparators_import_and_list_without_their_libraries():
    libraries = ("onnx", "onnxruntime", "torch", "iree", "threadpoolctl", "mlir")
    block = "".join(f"sys.modules[{name!r}] = None\n" for name in libraries)
    code = "from autotune.registry import *\nprint([load_comparator(name).name for name in registered(COMPARATORS)])"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{block}{code}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in LIBRARIES)


def test_constant_operand_is_an_initializer_and_fresh_one_an_input():
    from payload.comparators.onnx_model import build

    for constant in (0, 1):
        payload = load_payload(f"{TINY},constant_b={constant}")
        assert list(build(payload, payload.make_inputs(0)).weights) == ["b"] * constant


def operators(spec):
    from payload.comparators.onnx_model import build

    payload = load_payload(spec)
    return Counter(node.kind for node in build(payload, payload.make_inputs(0)).nodes)


@pytest.mark.parametrize(
    ("function", "transposes", "others"),
    [
        ("forward", 4, {}),  # q, k once for both its turns, v, and what they mix
        ("prefill", 5, {}),  # k besides as the cache has it
        ("decode,position=1", 1, {"Concat": 2}),
    ],
)
def test_each_layer_is_the_operators_that_exporters_write(function, transposes, others):
    block = {
        "LayerNormalization": 2,
        "MatMul": 6,
        "Add": 6,
        "Gelu": 1,
        "Split": 1,
        "Reshape": 4,
        "Mul": 1,
        "Softmax": 1,
    }
    one, two = (operators(f"{CACHED},function={function}".replace("layers=2", f"layers={n}")) for n in (1, 2))
    masked = {} if "decode" in function else {"Add": 1}
    assert two - one == Counter({**block, "Transpose": transposes, **others}) + Counter(masked)


def test_payload_file_becomes_a_function_over_tensors():
    from payload.comparators.tensor_module import write

    payload = contraction_payload(3, 4, 5)
    module = write(payload, payload.make_inputs(0))
    assert "memref<" not in module.text
    assert "return %result : tensor<3x4xf32>" in module.text
    assert module.inputs == ("a", "b")


def test_payload_on_memrefs_is_not_for_iree():
    kind = "memref<4xf32>"
    text = f"func.func @f(%a: {kind}, %b: {kind}) {{\n  memref.copy %a, %b : {kind} to {kind}\n  return\n}}"
    arguments = contraction_payload(3, 4, 5).arguments[1:]
    with pytest.raises(ComparatorError, match="tensor"):
        load_comparator("iree").prepare(Payload("mine", text, "f", arguments), {})


def test_a_program_that_was_exported_in_eval_mode_is_traced_and_frozen(tmp_path):
    torch = pytest.importorskip("torch")
    from payload.comparators.torch import trace_network
    from payload.programs import load_program

    model, x = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).eval(), torch.ones(2, 4)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    network = load_program(tmp_path / "model.pt2").module()
    with torch.inference_mode():
        torch.testing.assert_close(trace_network(network, (x,))(x), model(x))
