"""Bundles that are damaged, edited or hostile are refused in one line that names the file, before anything is compiled.

Forgers are careful: where a file is changed, its hash in the manifest is changed too.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from bundle_support import edit_file, edit_manifest, shared_bundle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from autotune.compiler.script.checks import passes_of
from autotune.core.errors import BundleError, PayloadError
from autotune.core.payload import Argument, Payload
from autotune.reports.show import show
from autotune.reports.winner import names_in
from autotune.store.bundle import check_describable, digest, read_bundle
from autotune.store.manifest import MOST_BYTES
from autotune.store.records import Seconds
from autotune.worker.bench.measure import MOST_CALLS
from autotune.worker.loading.reading import partition

SPEC = "matmul,m=9,n=24,k=8"
FILES = ("payload.mlir", "tagged.mlir", "schedule.mlir", "tasks/{tag}.mlir", "schedules/{tag}.mlir")


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    return shared_bundle(tmp_path_factory.mktemp("pristine"), SPEC)


@pytest.fixture
def bundle(pristine, tmp_path):
    """A copy, to be spoilt."""
    return shutil.copytree(pristine, tmp_path / "bundle")


@pytest.fixture
def tag(pristine):
    return next(iter(json.loads((pristine / "manifest.json").read_text())["tasks"]))


def refused(folder, name, words=""):
    """A bundle is refused in one line that names a file; gives the line."""
    with pytest.raises(BundleError) as error:
        read_bundle(folder)
    said = str(error.value)
    assert "\n" not in said
    assert len(said) < 1500
    assert str(folder / name) in said
    assert words in said
    return said


def test_pristine_bundle_is_read(pristine):
    assert read_bundle(pristine).payload.name == SPEC


@pytest.mark.parametrize("name", ["payload.mlir", "tagged.mlir", "schedule.mlir", "manifest.json"])
def test_missing_file_is_refused(bundle, tag, name):
    (bundle / name.format(tag=tag)).unlink()
    refused(bundle, name.format(tag=tag), "cannot be read")


def test_files_of_tasks_alone_may_be_left_out_and_names_are_those_of_the_payloads_own_tasks(bundle, tag):
    whole = read_bundle(bundle)
    for folder in ("tasks", "schedules"):
        shutil.rmtree(bundle / folder)
    found = read_bundle(bundle)
    assert whole.texts.keys() - found.texts.keys() == {f"tasks/{tag}.mlir", f"schedules/{tag}.mlir"}
    assert names_in(found) == names_in(whole)
    assert show(str(bundle), "schedule").text == whole.script
    (task,) = partition(found.payload).tasks
    assert digest(task.payload.text) == found.manifest.sha256[f"tasks/{tag}.mlir"]


@pytest.mark.parametrize("name", FILES)
def test_edited_file_is_refused(bundle, tag, name):
    path = bundle / name.format(tag=tag)
    path.write_text(path.read_text() + "// edited\n")
    refused(bundle, name.format(tag=tag), "its sha256 differs")


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_truncated_file_is_refused(bundle, tag, name):
    path = bundle / name.format(tag=tag)
    path.write_bytes(path.read_bytes()[:-200])
    refused(bundle, name.format(tag=tag))


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_link_is_refused(bundle, tag, name, tmp_path):
    path = bundle / name.format(tag=tag)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    refused(bundle, name.format(tag=tag), "is a link")


def test_folder_in_place_of_a_file_is_refused(bundle):
    (bundle / "tagged.mlir").unlink()
    (bundle / "tagged.mlir").mkdir()
    refused(bundle, "tagged.mlir", "Is a directory")


def test_huge_file_is_refused_unread(bundle):
    with (bundle / "payload.mlir").open("r+b") as file:
        file.truncate(MOST_BYTES + 1)
    refused(bundle, "payload.mlir", "it is larger than 16 MiB")


@pytest.mark.parametrize("data", [b"module {} \xff\xfe", b"module {} \0"], ids=["bytes", "nul"])
def test_bytes_that_are_no_text_are_refused(bundle, data):
    edit_file(bundle, "payload.mlir", data)
    refused(bundle, "payload.mlir", "must be text")


NAN, HUGE = float("nan"), 10**400
EDITS = {
    "newer format": (lambda m: m.update(format_version=3), "use a newer release"),
    "older format": (lambda m: m.update(format_version=1), "tune again"),
    "no format": (lambda m: m.pop("format_version"), "got None"),
    "format of another type": (lambda m: m.update(format_version=True), "got True"),
    "a list": (lambda m: [m], "format_version"),
    "no seed": (lambda m: m.pop("seed"), "seed"),
    "seed that is a word": (lambda m: m.update(seed="zero"), "seed"),
    "seed beyond 64 bits": (lambda m: m.update(seed=2**70), "seed"),
    "time below zero": (lambda m: m["samples"][0]["best_seconds"].append(-1.0), "samples.0.best_seconds"),
    "time of no time": (lambda m: m["samples"][0]["best_seconds"].append(5e-324), "samples.0.best_seconds"),
    "time of zero": (lambda m: m["samples"][0]["best_seconds"].append(0), "samples.0.best_seconds"),
    "time that is NaN": (lambda m: m["samples"][0]["best_seconds"].append(NAN), "must be JSON"),
    "infinite time": (lambda m: m["samples"][0]["best_seconds"].append(HUGE), "manifest.json"),
    "a year a call": (lambda m: m["samples"][0]["best_seconds"].append(3.2e7), "samples.0.best_seconds"),
    "samples that do not pair": (lambda m: m["samples"][0]["best_seconds"].append(1e-6), "equally many"),
    "no samples": (lambda m: m.update(samples=[]), "samples"),
    "better speed-up than its samples": (lambda m: m["speedup"].update(estimate=1e3), "follow from the samples"),
    "part of a baseline without its error": (
        lambda m: m["baseline"].update(part=64, part_error=0.2),
        "follow from the samples",
    ),
    "part of a baseline that says nothing": (lambda m: m["baseline"].update(part=64, part_error=2.0), "part_error"),
    "error of a whole baseline": (lambda m: m["baseline"].update(part_error=0.1), "part_error must be 0 of a baseline"),
    "baseline that was not timed": (lambda m: m["baseline"].update(why_not="no"), "gives no speedup"),
    "part of a baseline that is none": (lambda m: m["baseline"].update(part=0), "baseline.part"),
    "error below zero": (lambda m: m["baseline"].update(part_error=-0.1), "baseline.part_error"),
    "no speed-up though measured": (lambda m: m.update(speedup=None), "follow from the samples"),
    "errors beyond tolerance": (lambda m: m["numerics"]["outputs"]["c"].update(max_error=1.0), "tolerance"),
    "numerics of nothing": (lambda m: m["numerics"].update(outputs={}), "numerics must be of the outputs"),
    "fingerprint of another machine": (lambda m: m["machine"].update(l2_bytes=12345), "fingerprint"),
    "negative shape": (lambda m: m["arguments"][0].update(shape=[-9, 8]), "arguments.0.shape"),
    "shape of petabytes": (lambda m: m["arguments"][0].update(shape=[2**30, 2**24]), "must fit this machine's memory"),
    "another shape than the payload": (lambda m: m["arguments"][0].update(shape=[8, 9]), "must take the manifest's"),
    "another role": (lambda m: m["arguments"][0].update(role="spy"), "arguments.0.role"),
    "unknown dtype": (lambda m: m["arguments"][0].update(dtype="f8"), "dtype"),
    "one name twice": (lambda m: m["arguments"][0].update(name="b"), "names of arguments must differ"),
    "empty range": (lambda m: m["arguments"][0].update(low=1.0, high=-1.0), "must be below high"),
    "entry that is not there": (lambda m: m.update(entry="main"), "must define the entry function @main"),
    "entry that is no symbol": (lambda m: m.update(entry="a b(c"), "entry"),
    "pass that writes files": (lambda m: m.update(pipeline="builtin.module(print-op-graph)"), "'print-op-graph'"),
    "pass that loads files": (
        lambda m: m.update(pipeline="builtin.module(transform-preload-library{transform-library-paths=/etc})"),
        "'transform-preload-library'",
    ),
    "baseline that runs tools": (
        lambda m: m["baseline"].update(pipeline="builtin.module(gpu-module-to-binary)"),
        "'gpu-module-to-binary'",
    ),
    "hash that is none": (lambda m: m["sha256"].update({"payload.mlir": "abc"}), "sha256.payload.mlir"),
    "file that is not its own": (lambda m: m["sha256"].update({"tasks/more.mlir": "0" * 64}), "tasks/more.mlir"),
    "file that is not listed": (lambda m: m["sha256"].pop("tagged.mlir"), "tagged.mlir is missing"),
    "config outside its knobs": (lambda m: first(m)["config"].update(unroll_k=3), "unroll_k"),
    "config without a knob": (lambda m: first(m)["config"].pop("unroll_k"), "must set every knob"),
    "bool for a number": (lambda m: first(m)["config"].update(unroll_k=True), "unroll_k"),
    "knob without values": (lambda m: first(m)["knobs"].update(unroll_k=[]), "unroll_k"),
    "panels of nobody": (lambda m: m["panels"].update(ghost=16), "prepared.mlir is missing"),
    "online softmax of nobody": (lambda m: m.update(online=["ghost"]), "prepared.mlir is missing"),
    "panels of no columns": (lambda m: m["panels"].update(ghost=0), "panels.ghost"),
    "no roof of memory": (lambda m: m["roofs"].pop("dram_bytes"), "roofs must have dram_bytes, got flops, l2_bytes"),
    "no roofs": (lambda m: m.update(roofs={}), "roofs must have flops, got none"),
    "no hash of the IR": (lambda m: m.update(ir_sha256={}), "ir_sha256"),
}


def first(manifest):
    """The first task."""
    return next(iter(manifest["tasks"].values()))


@pytest.mark.parametrize("case", EDITS)
def test_manifest_that_says_what_it_may_not_is_refused(bundle, case):
    change, words = EDITS[case]
    edit_manifest(bundle, change)
    assert words in refused(bundle, "")


@pytest.mark.parametrize(
    "name", ["../payload.mlir", "/etc/passwd", "tasks/../../x.mlir", "tasks\\x.mlir", "a\nb.mlir", ""]
)
def test_path_that_climbs_out_is_refused(bundle, name):
    edit_manifest(bundle, lambda m: m["sha256"].update({name: m["sha256"]["payload.mlir"]}))
    refused(bundle, "manifest.json", "printable" if "\n" in name else "sha256")


def test_manifest_nested_without_end_is_refused(bundle):
    (bundle / "manifest.json").write_text("[" * 100_000)
    refused(bundle, "manifest.json", "must be JSON")


SCRIPT = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%m: !transform.any_op {transform.consumed}) {
    BODY
    transform.yield
  }
}"""
MEMREFS = "memref<17x9xf32>, memref<9x24xf32>, memref<17x24xf32>"
SIGNATURE = "%a: memref<17x9xf32>, %b: memref<9x24xf32>, %c: memref<17x24xf32>"
HOSTILE = {
    "schedule that does not parse": ("schedule.mlir", "module {", "schedule.mlir:"),
    "schedule without an entry": ("schedule.mlir", "module {}", "@__transform_main"),
    "schedule that runs any pass": (
        "schedule.mlir",
        SCRIPT.replace(
            "BODY",
            '%0 = transform.apply_registered_pass "print-op-graph" to %m : (!transform.any_op) -> !transform.any_op',
        ),
        "'print-op-graph'",
    ),
    "schedule that prints": (
        "schedule.mlir",
        SCRIPT.replace("BODY", "transform.print %m : !transform.any_op"),
        "print",
    ),
    "schedule that computes": (
        "schedule.mlir",
        SCRIPT.replace("BODY", "") + "\nfunc.func private @f()",
        "func.func",
    ),
    "payload that does not parse": ("payload.mlir", f"func.func @matmul({SIGNATURE}) {{", "payload.mlir:"),
    "payload that calls the system": (
        "payload.mlir",
        f"func.func private @system()\nfunc.func @matmul({SIGNATURE}) {{ func.call @system() : () -> () return }}",
        "@system is outside",
    ),
    "payload that makes pointers": (
        "payload.mlir",
        f"func.func @matmul({SIGNATURE}) {{ %0 = llvm.mlir.constant(7 : i64) : i64 return }}",
        "llvm.mlir.constant",
    ),
    "payload with assembly": (
        "tagged.mlir",
        f'func.func @matmul({SIGNATURE}) {{ llvm.inline_asm "syscall", "" : () -> () return }}',
        "llvm.inline_asm",
    ),
    "payload with another signature": ("tagged.mlir", "func.func @matmul() { return }", "must take the manifest's"),
    "payload without the entry": ("tagged.mlir", f"func.func @other({SIGNATURE}) {{ return }}", "@matmul"),
    "payload nested without end": ("payload.mlir", "module {" * 5000 + "}" * 5000, "must not nest deeper"),
    "payload of nothing": ("payload.mlir", "", "@matmul"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_mlir_that_asks_for_what_it_should_not_is_refused(bundle, case):
    name, text, words = HOSTILE[case]
    edit_file(bundle, name, text)
    refused(bundle, name, words)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_any_damage_to_a_manifest_is_refused_or_harmless(pristine, tmp_path_factory, data):
    folder = copy(pristine, tmp_path_factory)
    text = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_bytes(damage(text, data))
    only_bundle_errors(folder)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_any_value_in_a_manifest_is_refused_or_harmless(pristine, tmp_path_factory, data):
    folder = copy(pristine, tmp_path_factory)
    values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just([]) | st.just({})

    def change(manifest):
        place = manifest
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = data.draw(st.sampled_from(keys))
            if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
                place[key] = data.draw(values)
                return
            place = place[key]

    edit_manifest(folder, change)
    only_bundle_errors(folder)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data(), name=st.sampled_from(["payload.mlir", "tagged.mlir", "schedule.mlir"]))
def test_any_damage_to_mlir_is_refused_or_harmless(pristine, tmp_path_factory, data, name):
    folder = copy(pristine, tmp_path_factory)
    edit_file(folder, name, damage((folder / name).read_bytes(), data))
    only_bundle_errors(folder)


def copy(pristine, tmp_path_factory):
    return Path(shutil.copytree(pristine, tmp_path_factory.mktemp("damaged") / "bundle"))


def damage(text, data):
    """Cut out, double or overwrite a stretch."""
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    inside = data.draw(st.sampled_from([b"", text[start:end] * 2, b"0", b'"', b"}", b"-1", b"\x00"]))
    return text[:start] + inside + text[end:]


def only_bundle_errors(folder):
    """Read a bundle that may be damaged: it is refused in one line, or was not damaged."""
    said = ""
    try:
        read_bundle(folder)
    except BundleError as error:
        said = str(error)
    assert "\n" not in said
    assert said == "" or str(folder) in said


def test_passes_are_found_in_any_nesting():
    text = "builtin.module(func.func(a,b{x=1 y=f(2)}),c{p=builtin.module(d)},e)"
    assert passes_of(text) == {"a", "b", "c", "e"}


def test_refusal_is_one_line_and_exit_code_2(bundle, autotune, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    edit_file(bundle, "schedule.mlir", "module {")
    for verb in (
        ("replay", bundle),
        ("replay", bundle, "--emit", "object"),
        ("replay", bundle, "--retune"),
        ("show", bundle),
    ):
        code, out, said = autotune(*verb)
        assert (code, out) == (2, "")
        assert [line for line in said.splitlines() if "schedule.mlir" in line] == said.splitlines()
    assert not (tmp_path / "results").exists()


def test_the_least_time_that_is_measured_can_be_recorded():
    least = 1e-7 / MOST_CALLS  # all calls compiled into one, and the clock ticks once
    assert TypeAdapter(Seconds).validate_python(least) == least


def test_a_payload_that_no_bundle_may_describe_is_refused_at_once():
    many = Payload("many", "", "f", tuple(Argument(f"arg{number}", "input", (1,)) for number in range(1001)))
    with pytest.raises(PayloadError, match="many must have 1000 arguments at most, it has 1001; join some"):
        check_describable(many)
    check_describable(replace(many, arguments=many.arguments[1:]))
