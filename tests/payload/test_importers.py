"""Importing: models as other tools write them become payloads whose default schedules agree with the framework."""

import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import pytest
from bundle_support import (
    make_bundle,
    no_care,
)
from listener_support import Recorder
from model_zoo import FLOAT, ONNX, helper, mlp, numpy_helper, save, weight

from autotune.bundles.replay import replay
from autotune.compiler.tasks.partition import partition
from autotune.core.errors import PayloadError
from autotune.core.evaluator import Job
from autotune.core.host.machine import this_machine
from autotune.core.listener import telling
from autotune.core.plugs.imported import DESCRIPTION, ORACLE, TEXT, WEIGHTS
from autotune.registry import family_for
from autotune.tuning.candidates import default_candidate
from autotune.worker.loading.importing import import_model
from autotune.worker.loading.reading import open_payload
from autotune.worker.worker import Worker
from payload.comparators.tensor_module import write as write_module
from payload.importers.converter import STAGE, pass_on
from payload.onnx_bert import BertSizes, write_bert

pytestmark = pytest.mark.usefixtures("warm_converters")


@pytest.fixture(scope="module")
def worker():
    with no_care(), Worker() as running:
        yield running


def imported(folder, write):
    """A model of the zoo, written to a file and imported from there."""
    import_model(str(write(folder / "model.onnx")), folder / "model")
    return open_payload(str(folder / "model"))


def agrees(payload, worker, seeds=(0, 1)):
    """Default schedules give what the framework recorded, of both seeds."""
    parts, machine = partition(payload), this_machine()
    for seed in seeds:
        (found,) = worker.evaluate(Job(payload, (default_candidate(parts, machine),), machine, seed=seed))
        assert found.samples is not None, f"{found.outcome}: {found.diagnostic}"


@pytest.mark.parametrize(("number", "name"), list(enumerate(ONNX)))
def test_a_model_agrees_with_its_framework_by_default_configs(number, name, tmp_path, worker):
    payload = imported(tmp_path, ONNX[name])
    assert payload.reference is not None
    agrees(payload, worker, [number % 2])


def test_a_model_is_a_folder_of_plain_files_without_weights_in_the_text(tmp_path):
    payload = imported(tmp_path, mlp)
    files = {TEXT, DESCRIPTION, WEIGHTS, ORACLE, "model.onnx"}
    assert {path.name for path in (tmp_path / "model").iterdir()} == files
    assert [(a.name, a.role) for a in payload.arguments] == [
        ("x", "input"),
        *((f"{n}_{kind}", "weight") for n in range(2) for kind in ("weight", "bias")),
        ("r1", "output"),
    ]
    held = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(tmp_path / "model.onnx").graph.initializer}
    inputs = payload.make_inputs(3)
    for name, array in held.items():
        np.testing.assert_array_equal(inputs[name.replace(".", "_")], array)
        assert str(array.reshape(-1)[0]) not in payload.text
    said = json.loads((tmp_path / "model" / DESCRIPTION).read_text())
    assert said["oracle"] == "onnx.reference in float64"


def test_a_model_of_two_layers_has_both_attentions_found_and_every_weight_packed(tmp_path, worker):
    sizes = BertSizes(tokens=8, width=16, layers=2, heads=2, hidden=24, vocab=20)
    payload = imported(tmp_path, lambda path: write_bert(path, sizes))
    parts = partition(payload)
    assert sum(task.count for task in parts.tasks if len(task.contractions) == 2) == 2
    products = [task.contractions[0] for task in parts.tasks if len(task.contractions) == 1]
    assert products
    assert all(product.constant_b for product in products)
    assert all(family_for(task) is not None for task in parts.tasks)
    agrees(payload, worker)


def test_masks_hold_the_lowest_number_there_is(tmp_path, worker):
    mask = numpy_helper.from_array(np.where(np.tri(6), 0, np.finfo(np.float32).min).astype(np.float32), "mask")
    nodes = [
        helper.make_node("Add", ["x", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["y"], axis=-1),
    ]
    agrees(imported(tmp_path, lambda p: save(p, nodes, [("x", FLOAT, [6, 6])], [("y", FLOAT, [6, 6])], mask)), worker)


def test_weights_are_in_memory_few_times(tmp_path):
    """Float64 results and a copy of the model included, and whatever converters take without any."""
    side, peaks = 2048, []
    for size in (1, side):
        nodes = [helper.make_node("MatMul", ["x", name], [f"y{name}"]) for name in "abcd"]
        weights = [weight(name, size, size) for name in "abcd"]
        outputs = [(f"y{name}", FLOAT, [1, size]) for name in "abcd"]
        path = save(tmp_path / f"{size}.onnx", nodes, [("x", FLOAT, [1, size])], outputs, *weights)
        command = [sys.executable, "-m", "payload.importers.onnx_convert", str(path), str(tmp_path / str(size))]
        running = subprocess.Popen(command)
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        assert running.returncode == 0
        peaks.append(used.ru_maxrss * 1024)
    held = 4 * side * side * 4  # bytes; it was 12 times as much when every pass over the model copied them
    assert peaks[1] - peaks[0] < 7 * held


def test_every_linear_of_a_model_has_its_weight_packed_and_no_task_transposes(tmp_path):
    tasks = partition(imported(tmp_path, mlp)).tasks
    assert [[c.constant_b for c in task.contractions] for task in tasks] == [[True], [True]]


def test_attention_is_found_among_reshapes_and_a_folded_mask(tmp_path):
    tasks = partition(imported(tmp_path, ONNX["attention"])).tasks
    assert sum(len(task.contractions) == 2 for task in tasks) == 1
    assert all(family_for(task) is not None for task in tasks)


def test_weights_of_any_name_are_parameters_of_a_module_for_iree(tmp_path):
    payload = imported(tmp_path, mlp)
    module = write_module(payload, payload.make_inputs(0))
    assert module.text.count('@"0_weight"') == 2  # declared, and read
    assert set(module.weights) == {a.name for a in payload.arguments if a.role == "weight"}


def test_a_file_is_a_payload_itself_and_imported_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = mlp(tmp_path / "model.onnx")
    payload = open_payload(path)
    monkeypatch.setattr("payload.importers.onnx.start_converter", None)
    again = open_payload(path)
    assert (payload.name, payload.text) == (str(path), again.text)


def test_a_model_is_tuned_and_its_bundle_replays(tmp_path):
    imported(tmp_path, mlp)
    folder = make_bundle(tmp_path, str(tmp_path / "model"), trials=2)
    with no_care():
        assert replay(folder).is_right


def test_open_sizes_are_given_behind_the_file(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    path = save(tmp_path / "open.onnx", nodes, [("x", FLOAT, ["batch", 4])], [("y", FLOAT, ["batch", 4])])
    with pytest.raises(PayloadError, match=r"input x must have fixed sizes, batch is open; .* give batch=1"):
        import_model(str(path), tmp_path / "open")
    import_model(f"{path},batch=3", tmp_path / "open")
    assert open_payload(str(tmp_path / "open")).arguments[0].shape == (3, 4)


def unknown(path):
    node = helper.make_node("Frobnicate", ["x"], ["y"], domain="mine")
    graph_inputs, graph_outputs = [("x", FLOAT, [4])], [("y", FLOAT, [4])]
    values = [[helper.make_tensor_value_info(*e) for e in g] for g in (graph_inputs, graph_outputs)]
    graph = helper.make_graph([node], "model", *values)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)


def corrupt(path):
    path.write_bytes(b"no model at all")


def heavy(path):
    """Weights of three gigabytes, said to lie in a file beside it that is empty."""
    tensor = weight("w", 1)
    tensor.ClearField("raw_data")
    tensor.dims[:] = [3 << 28]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "weights.bin"
    (path.parent / "weights.bin").touch()
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    save(path, nodes, [("x", FLOAT, [3 << 28])], [("y", FLOAT, [3 << 28])], tensor)


def test_weights_that_are_gone_by_the_time_they_are_wanted_are_named(tmp_path):
    payload = imported(tmp_path, mlp)
    (tmp_path / "model" / WEIGHTS).unlink()
    with pytest.raises(PayloadError, match=r"weights must be readable, .* is not: No such file .*; import it again"):
        payload.make_inputs(0)


def apart(path):
    """Weights that lie in a file beside it, which is missing."""
    mlp(path)
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    (path.parent / "weights.bin").unlink()


def open_ended(path):
    """An op whose result has as many rows as it finds."""
    nodes = [helper.make_node("NonMaxSuppression", ["boxes", "scores"], ["y"])]
    asked = [("boxes", FLOAT, [1, 8, 4]), ("scores", FLOAT, [1, 2, 8])]
    save(path, nodes, asked, [("y", onnx.TensorProto.INT64, ["n", 3])])


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (apart, "weights.bin"),
        (
            open_ended,
            "node 0 (NonMaxSuppression, which gives y) cannot be lowered: the size of what it gives depends on data",
        ),
        (corrupt, "it is no valid ONNX model"),
        (
            unknown,
            "node 0 (mine::Frobnicate, which gives y) must be of a standard op of ONNX, or one that is defined here",
        ),
        (heavy, "weight w must be bytes 0 to 3221225472 of weights.bin, the model names all of the 0 there"),
        (lambda path: None, "a model must be a file"),
    ],
    ids=["weights missing", "open-ended", "corrupt", "unknown op", "weights cut off", "missing"],
)
def test_a_wrong_model_is_one_line(write, words, tmp_path, refused):
    write(tmp_path / "model.onnx")
    refused("import", tmp_path / "model.onnx", "-o", tmp_path / "out", words=words)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_is_one_line(tmp_path, refused):
    (tmp_path / "file").write_text("")
    refused("import", mlp(tmp_path / "model.onnx"), "-o", tmp_path / "file" / "out", words="")
    refused("import", tmp_path / "model.onnx", "-o", "/proc/out", words="/proc/out must be writable, it is not")


@pytest.mark.parametrize("kind", ["onnx", "pt2"])
def test_a_missing_package_is_one_line_that_names_the_extra(kind, tmp_path, refused, monkeypatch):
    monkeypatch.setattr(f"payload.importers.{kind}.PACKAGES", {"torch_mlir": "import", "no_such_package": "other"})
    said = refused("tune", mlp(tmp_path / f"model.{kind}"), words="no_such_package must be installed")
    assert "[import,other]'" in said


def test_importing_is_shown_before_it_begins(tmp_path, refused, monkeypatch):
    shown = []
    monkeypatch.setattr("autotune.core.progress.ProgressLine.stage", lambda _, sentence: shown.append(sentence))
    refused("import", tmp_path / "none.onnx")
    refused("tune", tmp_path / "none.onnx")
    refused("compare", tmp_path / "none.onnx")
    assert [sentence.partition(" ")[0] for sentence in shown] == ["importing,", "reading", "reading"]
    assert all("half a minute" in sentence for sentence in shown)


def test_each_stage_of_importing_and_compiling_is_told(tmp_path):
    program = """
import sys
import autotune as at
class Printer(at.Listener):
    def stage(self, sentence):
        print(sentence)
at.compile(sys.argv[1], listener=Printer())
"""
    command = [sys.executable, "-c", program, str(mlp(tmp_path / "model.onnx"))]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    importing = [line for line in said if line.startswith("importing model.onnx: ")]
    assert len(importing) > 2
    assert importing == said[1 : 1 + len(importing)]
    assert [said[0].split()[0], *(line.split()[0] for line in said[1 + len(importing) :])] == [
        "reading",
        "partitioning",
        "scheduling",
        "compiling",
    ]


def test_a_converter_that_says_no_whole_line_is_waited_for():
    with tempfile.TemporaryFile() as file:
        file.write(b"noise\n" + STAGE.encode() + b"one\n" + STAGE.encode() + b"tw")
        file.flush()
        heard = Recorder()
        with telling(heard):
            told = pass_on(file, 0)
            file.write(b"o\n")
            file.flush()
            pass_on(file, told)
        assert heard.stages == ["one", "two"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            b"Traceback (most recent call last):\n  ...\nValueError: it cannot be\n\nSee the full graph there.\n",
            r"the converter failed \(exit code 1\): ValueError: it cannot be$",
        ),
        (b"autotune stage: reading\nautotune stage: lowering\n", "it printed nothing after lowering; import parts"),
    ],
    ids=["an error", "none"],
)
def test_a_converter_that_fails_is_told_by_its_error_and_not_by_what_stands_below(text, words, tmp_path, monkeypatch):
    def fail(_module, _arguments, said, _seconds):
        said.write(text)
        return 1

    monkeypatch.setattr("payload.importers.converter.run_module", fail)
    (tmp_path / "model.onnx").touch()
    with pytest.raises(PayloadError, match=words):
        import_model(str(tmp_path / "model.onnx"), tmp_path / "model")


def test_a_folder_with_the_suffix_of_a_model_is_what_was_imported(tmp_path):
    import_model(str(mlp(tmp_path / "model.onnx")), tmp_path / "mine.onnx")
    assert open_payload(tmp_path / "mine.onnx").arguments
    with pytest.raises(PayloadError, match=r"a model must be a file, .* is a folder"):
        import_model(str(tmp_path / "mine.onnx"), tmp_path / "again")


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path, refused):
    (tmp_path / "mine.txt").write_text("mine")
    refused("import", mlp(tmp_path / "model.onnx"), "-o", tmp_path, words="is in use; pass --output")


def test_a_model_is_compared_with_its_own_file_in_its_own_runtime(tmp_path, autotune):
    imported(tmp_path, ONNX["embedding"])
    code, out, said = autotune(
        "compare", tmp_path / "model", "--against", "onnxruntime", "--baseline", "none", "--json"
    )
    assert code == 0, said
    rows = {row["name"]: row for row in json.loads(out)["rows"]}
    assert (rows["default"]["outcome"], rows["onnxruntime"]["outcome"]) == ("ok", "ok")
    assert "the model's own file" in rows["onnxruntime"]["version"]


def with_header(header, data):
    """A safetensors file of a header, text or JSON, before its data."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def hostile_weights(whole):
    """What others may make of a file of weights, by what it is."""
    size = struct.unpack("<Q", whole[:8])[0]
    header, data = json.loads(whole[8 : 8 + size]), whole[8 + size :]
    first, second = [name for name in header if name != "__metadata__"][:2]
    (start, end), (low, high) = header[first]["data_offsets"], header[second]["data_offsets"]

    def changed(name=first, **fields):
        return with_header(header | {name: header[name] | fields}, data)

    return {
        "nothing": b"",
        "huge header": struct.pack("<Q", 1 << 63) + whole[8:],
        "header beyond the file": struct.pack("<Q", len(whole)) + whole[8:],
        "no JSON": with_header(b"{", data),
        "deep JSON": with_header(b"[" * 100_000, data),
        "offsets beyond the file": changed(data_offsets=[start, 10**12]),
        "offsets the other way round": changed(data_offsets=[end, start]),
        "offsets that are fractions": changed(data_offsets=[float(start), float(end)]),
        "sizes that are texts": changed(shape=list(map(str, header[first]["shape"]))),
        "offsets that overlap": changed(second, data_offsets=[start, start + high - low]),
        "sizes without end": changed(shape=[1 << 62, 1 << 62]),
        "unknown dtype": changed(dtype="Q9"),
        "wider dtype": changed(dtype="F64"),
        "whole numbers": changed(dtype="I32"),
        "bytes": changed(dtype="F8_E4M3", shape=[end - start]),
        "another shape": changed(shape=[1, (end - start) // 4, 1]),
        "a name less": with_header({name: about for name, about in header.items() if name != first}, data),
        "a name that commands a terminal": with_header(header | {"\x1b[2J": header[first]}, data),
        "a byte less": whole[:-1],
        "a byte more": whole + b"x",
    }


def test_hostile_weights_are_refused_in_one_line(tmp_path):
    imported(tmp_path, mlp)
    weights = tmp_path / "model" / WEIGHTS
    for what, data in hostile_weights(weights.read_bytes()).items():
        weights.write_bytes(data)
        with pytest.raises(PayloadError) as error:
            open_payload(str(tmp_path / "model"))
        assert str(error.value).isprintable(), what
