"""Comparisons: every library computes what the oracle says, and who does not is a row without a time."""

import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from compare_support import Strange
from payload_support import documented_payload
from tuning_support import contraction_payload

from autotune.compiler.tasks.partition import partition
from autotune.core.errors import BundleError, ComparatorError
from autotune.core.evaluator import Effort
from autotune.core.listener import SILENT, NoteKeeper
from autotune.core.machine import Roofs, this_machine
from autotune.core.payload import Payload
from autotune.core.stats import median_interval
from autotune.core.trial import OUTCOMES
from autotune.registry import COMPARATORS, load_comparator, load_payload, registered
from autotune.reports import compare
from autotune.reports import entries as contenders
from autotune.reports.compare import CompareOptions, split_heats
from autotune.store.places import home
from autotune.worker import race as contest
from autotune.worker.environment import ONE_THREAD, one_thread
from autotune.worker.race import Entry, Standing, enter
from autotune.worker.testbench import Testbench
from autotune.worker.verify import verify
from autotune.worker.worker import Worker

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # one way of several, while it lasts
TINY = "matmul,m=9,n=7,k=5"
ODD = "gpt,d_model=72,heads=3,d_ff=200,vocab=101,seq=17"
SPECS = (
    "matmul,m=33,n=17,k=65",
    "matmul,m=33,n=17,k=65,constant_b=1",
    "matmul,m=8,n=17,k=24,transpose_b=1",
    "matmul,m=8,n=17,k=24,transpose_b=1,constant_b=1",
    "batch_matmul,batch=3,m=7,n=9,k=5",
    "batch_matmul,batch=3,m=7,n=9,k=5,transpose_b=1",
    "attention,heads=3,seq=17,d=8",
    "attention,heads=3,seq=17,d=8,causal=1",
    "layer_norm,rows=5,cols=33",
    "softmax,rows=5,cols=33",
    "gelu,rows=5,cols=33",
    "embedding,rows=5,cols=33,vocab=19",
    "nano,seq=1",
    ODD,
)
LIBRARIES = ("numpy", "onnxruntime", "torch", "iree")
COMPILED = (
    "matmul,m=8,n=17,k=24,transpose_b=1,constant_b=1",
    "embedding,rows=5,cols=33,vocab=19",
    "gpt,d_model=12,heads=3,d_ff=20,vocab=11,seq=5,layers=1",
)
CASES = [(name, spec) for name in LIBRARIES for spec in (SPECS if name != "iree" else COMPILED)]
FED = ("input", "state")
QUICK = Effort(samples=6, seconds=0.05, sample_seconds=1e-4)
ROW = {
    "name",
    "outcome",
    "seconds",
    "interval",
    "roof_fraction",
    "max_error",
    "version",
    "ratio",
    "ratio_interval",
    "diagnostic",
    "samples",
}


@pytest.fixture(autouse=True)
def no_care(tmp_path, monkeypatch):
    """Run in an empty folder; no roofs, no noise, no compiler of torch, no care in measuring."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Worker, "roofs", lambda self, machine: Roofs(1e11, 1e10, 1e11))
    monkeypatch.setattr("payload.comparators.torch.COMPILERS", ())
    for module in [module for name, module in sys.modules.items() if name.startswith(("autotune.", "payload."))]:
        for name, value in list(vars(module).items()):
            if isinstance(value, Effort):
                monkeypatch.setattr(module, name, QUICK)
            if name == "measure_noise":
                monkeypatch.setattr(module, name, lambda machine, worker, pairs=1: 0.01)


@pytest.fixture
def strange(monkeypatch):
    """Make comparators of `compare_support` known by their names, besides the real ones."""

    def find(name):
        return load_comparator(name) if name in registered(COMPARATORS) else Strange(name)

    monkeypatch.setattr(compare, "load_comparator", find)


def installed(name):
    """The comparator called `name`; skips the test if its library is missing. Importing iree.compiler would clash."""
    comparator = load_comparator(name)
    absent = [module for module in comparator.modules if not contenders.is_installed(module)]
    if absent:
        pytest.skip(f"{' and '.join(absent)} not installed")
    return comparator


def inputs_of(payload):
    bench = Testbench(payload, seed=0)
    arrays = zip(payload.arguments, bench.arrays, strict=True)
    return {a.name: array for a, array in arrays if a.role != "output"}, bench.expected[0]


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


CACHED = "gpt,d_model=12,heads=3,d_ff=20,vocab=11,seq=5,layers=2,positions=9"


@pytest.mark.parametrize("function", ["prefill", "decode", "decode,batch=2"])
@pytest.mark.parametrize("name", ["numpy", "onnxruntime", "torch"])
def test_library_with_a_cache_computes_what_the_oracle_says_in_every_case(name, function):
    payload = load_payload(f"{CACHED},function={function}")
    bench = Testbench(payload, seed=0)
    ready = [contest.prepare_at(case, installed(name), bench) for case in bench.cases]
    assert len(ready) == len(payload.cases or (1,))
    before = {key: array.copy() for key, array in bench.inputs.items()}
    contest.run_all(ready, bench.cases)(2)
    verdict = contest.check(ready, bench)
    assert verdict.outcome == "ok", verdict.diagnostic
    assert all(np.array_equal(array, before[key]) for key, array in bench.inputs.items())


@pytest.mark.parametrize("function", ["prefill", "decode,position=3", "decode,position=0"])
def test_onnx_runtime_fills_the_cache_that_the_oracle_fills(function):
    from payload.comparators.onnx_model import build
    from payload.comparators.onnxruntime import Session

    installed("onnxruntime")
    payload = load_payload(f"{CACHED},function={function}")
    inputs, (keys, values, _) = inputs_of(payload)
    graph = build(payload, inputs)
    session = Session(payload, graph, inputs)
    session.call()
    kept = [session.values[name].numpy() for name in graph.kept]
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
    assert contest.check([ready], bench).outcome == "ok"


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


@pytest.mark.parametrize(
    ("behaviour", "status", "words"),
    [
        ("off_by_a_little", "wrong-result", "should be"),
        ("not_finite", "non-finite", "inf"),
        ("of_another_shape", "wrong-result", "must have shape (9, 7)"),
        ("one_too_many", "failed", "ValueError"),
        ("raises", "failed", "RuntimeError: no luck | today"),
        ("refuses", "unsupported", "something else"),
    ],
)
def test_library_that_misbehaves_has_a_standing_that_says_how(monkeypatch, behaviour, status, words):
    monkeypatch.setattr(contest, "_entered", {})
    found = enter(Entry(behaviour, load_payload(TINY), Strange(behaviour)))
    assert found.status == status
    assert words in found.diagnostic
    assert found.version.startswith(f"{behaviour} 1.0")


def test_statuses_are_outcomes_and_three_more():
    assert set(OUTCOMES) | {"missing", "unsupported", "failed"} == {
        status for part in contest.EntryStatus.__args__ for status in part.__args__
    }


def test_comparison_is_one_json_object(autotune, strange):
    arguments = ("--against", "numpy,off_by_a_little,dies,refuses", "--baseline", "loops", "--json")
    code, out, said = autotune("compare", TINY, *arguments)
    assert code == 1  # somebody computed something else
    found = json.loads(out)
    assert found["payload"] == TINY
    assert found["machine"]["fingerprint"] == this_machine().fingerprint
    assert (found["threads"], found["ratio_to"]) == (1, "default")
    rows = {row["name"]: row for row in found["rows"]}
    assert list(rows) == ["baseline", "default", "numpy", "off_by_a_little", "dies", "refuses"]
    assert all(set(row) == ROW for row in rows.values())
    for name in ("baseline", "default", "numpy"):
        row = rows[name]
        assert row["outcome"] == "ok", row
        assert row["interval"][0] <= row["seconds"] <= row["interval"][1]
        assert row["ratio_interval"][0] <= row["ratio"] <= row["ratio_interval"][1]
        assert row["roof_fraction"] > 0
        assert 0 <= row["max_error"] < 1e-5
        assert row["version"]
        assert len(row["samples"]["seconds"]) == len(row["samples"]["reference_seconds"])
    assert rows["default"]["ratio"] == 1
    assert {name: rows[name]["outcome"] for name in list(rows)[3:]} == {
        "off_by_a_little": "wrong-result",
        "dies": "crashed",
        "refuses": "unsupported",
    }
    assert rows["off_by_a_little"]["max_error"] == pytest.approx(0.01, rel=1e-3)
    assert all(rows[name]["seconds"] is rows[name]["samples"] is None for name in list(rows)[3:])
    assert "there is no row 'best'" in said


def test_other_payloads_of_ours_race_in_rows_of_their_names(autotune):
    others = [f"{CACHED},function=decode,weights={form}" for form in ("int8", "bf16", "int8")]
    beside = [argument for other in others for argument in ("--beside", other)]
    payload = f"{CACHED},function=decode"
    code, out, said = autotune("compare", payload, "--against", "", "--baseline", "none", "--json", *beside)
    assert code == 0, said
    rows = {row["name"]: row for row in json.loads(out)["rows"]}
    names = [load_payload(other).name for other in others[:2]]
    assert list(rows) == ["default", *names, "read"]
    assert all(row["outcome"] == "ok" and row["ratio"] > 0 for row in rows.values())
    assert len({len(row["samples"]["seconds"]) for row in rows.values()}) == 1
    assert rows[names[0]]["max_error"] != rows["default"]["max_error"]
    assert rows["read"]["roof_fraction"] is None
    assert all(rows[name]["roof_fraction"] > 0 for name in ("default", *names))


@pytest.mark.parametrize(
    ("spec", "roof"),
    [
        (f"{CACHED},function=decode", "read"),  # each weight is used once: memory bounds it
        (f"{CACHED},function=decode,batch=64", None),
        ("layer_norm,rows=5,cols=33", "copy"),
    ],
)
def test_roof_is_a_copy_or_a_read_where_memory_bounds_a_call(spec, roof):
    payload = load_payload(spec)
    found = compare.roof_contenders(
        payload, partition(payload), payload.flops, Roofs(1e11, 2e10, 1e11), machine=this_machine(), seed=0
    )
    assert [contender.name for contender in found] == ([roof] if roof else [])
    if roof == "read":
        assert found[0].version.startswith(f"{contenders.weight_bytes(payload)} bytes read once")
        assert len(found[0].entry.payload.cases) == len(payload.cases)


def test_missing_library_is_announced_and_has_a_row(autotune, monkeypatch):
    monkeypatch.setattr(contenders, "is_installed", lambda module: module != "onnxruntime")
    code, out, said = autotune("compare", TINY, "--against", "onnxruntime", "--baseline", "none")
    assert code == 0
    assert [line for line in said.splitlines() if "onnxruntime is missing" in line] == [
        "autotune: onnxruntime is missing: onnxruntime must be installed; pip install 'mlir-schedule-autotune[compare]'"
    ]
    (row,) = [line for line in out.splitlines() if line.startswith("onnxruntime")]
    assert row.split()[1] == "missing"


def test_best_is_the_bundle_that_was_tuned(autotune):
    code, _, said = autotune("tune", TINY, "--trials", 1)
    assert code == 0, said
    code, out, said = autotune("compare", TINY, "--against", "", "--baseline", "none", "--json")
    assert code == 0, said
    found = json.loads(out)
    assert [row["name"] for row in found["rows"]] == ["default", "best"]
    assert found["ratio_to"] == "best"
    (note,) = [note for note in found["notes"] if note.startswith("best is ")]
    folder = Path(note.removeprefix("best is "))
    other = load_payload("matmul,m=9,n=7,k=6")
    with pytest.raises(BundleError, match="tune again"):
        contenders.best_contender(other, folder, folder, this_machine(), seed=0, listener=SILENT)
    (bundle := home() / "bundles" / "spoilt").mkdir()
    (bundle / "manifest.json").write_text("{}")
    told = NoteKeeper()
    assert contenders.newest_bundle(load_payload(TINY), bundle.parent, told) is not None
    assert contenders.newest_bundle(other, bundle.parent, told) is None
    assert all("passed over" in note for note in told.notes)


@pytest.mark.parametrize("names", ["tvm", "numpy,tvm"])
def test_unknown_library_is_refused_in_one_line_that_lists_the_known(autotune, names):
    code, out, said = autotune("compare", TINY, "--against", names)
    assert (code, out) == (2, "")
    assert said == "autotune: comparator must be one of iree, numpy, onnxruntime, torch; got 'tvm'\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nanoo",), "did you mean 'nano'"),
        ((TINY, "--baseline", "psychic"), "baseline must be one of"),
        ((TINY, "--bundle", "nowhere"), "nowhere/manifest.json"),
        ((), "PAYLOAD"),
    ],
)
def test_bad_input_is_refused_in_one_line(autotune, arguments, words):
    code, out, said = autotune("compare", *arguments)
    assert (code, out) == (2, "")
    assert len(said.splitlines()) == 1
    assert words in said


def test_interrupt_ends_with_its_exit_code(autotune, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "enter_all", interrupted)
    code, out, said = autotune("compare", TINY, "--against", "numpy")
    assert (code, out) == (130, "")
    assert "Traceback" not in said


def test_slow_contestants_run_after_the_others_beside_the_row_that_ratios_are_to():
    seconds = {"baseline": 60.0, "default": 0.1, "best": 0.1, "numpy": 0.2}
    right = dict.fromkeys(seconds)
    standings = {name: Standing("ok", seconds=each) for name, each in seconds.items()}
    assert split_heats(right, "best", standings) == [["default", "best", "numpy"], ["best", "baseline"]]
    assert split_heats(right, None, standings) == [["default", "best", "numpy"], ["baseline"]]
    standings["best"] = Standing("ok", seconds=50.0)
    assert split_heats(right, "best", standings) == [list(right)]
    assert split_heats({}, None, {}) == []


def test_process_that_dies_in_the_race_leaves_rows_that_say_so(monkeypatch):
    monkeypatch.setattr(compare, "load_comparator", Strange)
    calls = Worker.call

    def call(self, function, argument, seconds=None):
        return calls(self, os._exit if function is compare.race else function, argument, seconds)

    monkeypatch.setattr(Worker, "call", call)
    monkeypatch.setattr(compare, "Race", lambda *fields: 9)
    found = compare.compare(load_payload(TINY), home(), CompareOptions(("right",), None))
    assert [row.outcome for row in found.rows] == ["crashed", "crashed"]
    assert (found.ratio_to, found.is_right) == (None, False)


def test_environment_of_the_worker_is_clean_and_restored_afterwards(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MKL_NUM_THREADS", "4")
    before = dict(os.environ)
    with one_thread() as unset:
        assert {name: os.environ[name] for name in ONE_THREAD} == ONE_THREAD
        assert "OPENBLAS_CORETYPE" not in os.environ
        assert {"OPENBLAS_CORETYPE": "Haswell", "MKL_NUM_THREADS": "4"}.items() <= unset.items()
        assert "OMP_NUM_THREADS" not in unset
    assert dict(os.environ) == before


def test_median_lies_in_its_interval_and_one_sample_is_its_own():
    found = median_interval([1.0, 1.1, 0.9, 5.0, 1.05, 0.95, 1.02])
    assert found.low <= found.estimate == 1.02 <= found.high < 5.0 + 1e-9
    assert median_interval([2.0]).low == median_interval([2.0]).high == 2.0
