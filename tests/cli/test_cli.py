"""The command line: bad input is one line on stderr and exit code 2, whatever it is; results go to stdout."""

import json
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from bundle_support import make_bundle, no_care
from sweep_support import fill_store
from tuning_support import contraction_payload

from autotune.cli.verbs import app
from autotune.core.host.machine import Roofs
from autotune.core.space import Knob, Space
from autotune.core.trial import Samples, Trial
from autotune.registry import PAYLOADS, registered
from autotune.store.history import Check, append_history
from autotune.store.store import Store, trials
from autotune.worker.worker import Worker

SPACE = Space((Knob("tile", (1, 2)), Knob("order", ("mn", "nm"))))
ROOT = Path(__file__).parents[2]
SHOWN = {name: each for name, each in typer.main.get_command(app).commands.items() if not each.hidden}
VERBS = [*(name for name in SHOWN if name != "lab"), *(f"lab {name}" for name in SHOWN["lab"].commands)]
TINY = "matmul,m=4,n=4,k=4"
MEMORY = "memref<4x4xf32>"
CHECKS = [Check(1, datetime(2026, 1, 1, tzinfo=UTC), "other", "ok", 1.0, 2.0, 1.9, 2.1, "m", "c", "v")]
COPY = f"memref.copy %a, %b : {MEMORY} to {MEMORY} return"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Run in an empty folder, and measure no roofs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Worker, "roofs", lambda self, machine: Roofs(1e11, 1e10, 1e11))
    return tmp_path


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("nanoo", "did you mean 'nano'"),
        ("zzz", "see `autotune list`"),
        ("nano,colour=3", "got 'colour'"),
        ("gpt2,seq=5000", "seq must be at most positions"),
        ("gpt,d_model=72,heads=5", "heads must divide d_model"),
        ("matmul,m=0", "m must be at least 1, got 0"),
        ("matmul,m=-3", "m must be at least 1, got -3"),
        ("matmul,m=abc", "m must be a whole number, got 'abc'"),
        ("matmul,m=1.5", "m must be a whole number"),
        ("matmul,m=99999999999", "m must be at most"),
        ("matmul,m", "must read key=value"),
        ("matmul,,", "must read key=value"),
        ("matmul,m=4,m=5", "given once"),
        ("", "PAYLOAD must have a value, got an empty text"),
        ("missing.mlir", "No such file"),
        (".", "payload must be one of"),
        ("./", "Is a directory"),
    ],
)
def test_bad_payload_is_refused_in_one_line(refused, spec, words):
    refused("tune", spec, "--store", "s", words=words)
    assert not os.path.exists("s")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("module {\n  func.func @f( {\n", "bad.mlir:2:"),
        ("", "exactly one public function, it has none"),
        ("func.func @f() { return }", "must write at least one argument"),
        (f"func.func @f(%a: {MEMORY}) {{ return }}", "must write at least one argument"),
        (f"func.func @f(%a: memref<?x4xf32>, %b: {MEMORY}) {{ return }}", "got memref<?x4xf32>; fix its sizes"),
        (f"func.func @f(%a: memref<*xf32>, %b: {MEMORY}) {{ return }}", "got memref<*xf32>; fix its sizes"),
        (f"func.func @f(%a: f32, %b: {MEMORY}) {{ return }}", "must be a memref of static shape, got f32; store"),
        (
            f"func.func @f(%a: memref<4xi16>, %b: {MEMORY}) {{ return }}",
            "got memref<4xi16>; store them as one of those",
        ),
        (f"func.func @f(%a: tensor<4xi16>, %b: {MEMORY}) {{ return }}", "must have elements of f32, f64, i32"),
        (f"func.func @f(%a: tensor<4x4xf32>, %b: {MEMORY}) {{ return }}", "must write at least one argument"),
        (f"func.func @f(%a: memref<4xtf32>, %b: {MEMORY}) {{ return }}", "memref<4xtf32>"),
        (f"func.func @f(%a: {MEMORY}) -> {MEMORY} {{ return %a : {MEMORY} }}", "must be a tensor of static shape"),
        (
            "\n".join(f"func.func @{name}(%a: {MEMORY}, %b: {MEMORY}) {{ {COPY} }}" for name in "fg"),
            "it has @f, @g",
        ),
        ("func.func private @f(%a: memref<4xf32>)", "it has none"),
        ("\x00\xff", "bad.mlir"),
    ],
)
def test_bad_payload_file_is_refused_in_one_line(refused, place, text, words):
    (place / "bad.mlir").write_text(text)
    refused("tune", "bad.mlir", "--store", "s", words=words)


def test_invalid_payload_file_is_refused_with_line_and_column(refused, place):
    (place / "bad.mlir").write_text(f"func.func @f(%a: {MEMORY}) {{\n  return\n}}\n  nonsense\n")
    refused("tune", "bad.mlir", words="bad.mlir:4:3: ")


def test_payload_file_that_is_no_text_is_refused(refused, place):
    (place / "bad.mlir").write_bytes(b"\xff\xfe\x00\x80")
    refused("tune", "bad.mlir", words="it is not text")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--trials", "0"), "trials"),
        (("--trials", "many"), "trials"),
        (("--trials", "-1"), "trials"),
        (("--seconds", "-1"), "seconds"),
        (("--timeout", "0"), "timeout"),
        (("--nonsense",), "--nonsense"),
        (("--sampler", "psychic"), "sampler must be one of auto, tpe, random, cmaes, model, grid; got 'psychic'"),
    ],
)
def test_bad_option_is_refused_in_one_line(refused, options, words):
    refused("tune", TINY, "--store", "s", *options, words=words)


@pytest.mark.parametrize("arguments", [("frobnicate",), ("tune",), ("replay",), ("inspect", "--top", "0")])
def test_misuse_is_refused_in_one_line(refused, arguments):
    refused(*arguments)


def test_bundle_folder_for_several_payloads_is_refused(refused):
    refused("tune", TINY, "gelu", "--bundle", "b", words="give one payload")


def test_store_that_is_a_folder_is_refused(refused, place):
    refused("tune", TINY, "--store", place, words="--store PATH")


def test_store_that_is_garbage_is_refused_and_left_alone(refused, place):
    (place / "s").write_bytes(b"\x7fELF not a store\n" * 3)
    before = (place / "s").read_bytes()
    for verb in (("tune", TINY), ("inspect",)):
        refused(*verb, "--store", "s", words="line 1")
    assert (place / "s").read_bytes() == before


def test_store_of_another_version_is_refused(refused, place):
    (place / "s").write_text('{"op_code":0,"worker_id":"x","study_name":"autotune/format-99"}\n')
    refused("tune", TINY, "--store", "s", words="--store PATH")


def test_store_below_a_file_is_refused(refused, place):
    (place / "file").touch()
    refused("tune", TINY, "--store", "file/s", words="--store PATH")


def test_bundle_below_a_file_is_refused_before_any_trial_is_run(autotune, place):
    (place / "file").touch()
    code, out, said = autotune("tune", TINY, "--trials", 1, "--store", "s", "--bundle", "file/b")
    assert (code, out) == (2, "")
    complaints = [line for line in said.splitlines() if line.startswith("autotune: ")]
    assert len(complaints) == 1
    assert "file/b" in complaints[0]
    assert "Traceback" not in said
    assert trials(place / "s").empty


def test_missing_bundle_is_refused(refused):
    refused("replay", "nowhere", words="nowhere/manifest.json")


def test_interrupt_is_one_line_that_says_how_to_go_on(autotune, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("autotune.tuning.tune.tune", interrupted)
    code, _, said = autotune("tune", TINY, "--store", "s")
    assert code == 130
    assert [line for line in said.splitlines() if line.startswith("autotune: ")] == [
        "autotune: interrupted; every finished trial is kept, and the same command goes on"
    ]
    assert "Traceback" not in said


def test_full_disk_is_one_line(autotune, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device", "/somewhere/file")

    monkeypatch.setattr("autotune.tuning.tune.tune", full)
    code, _, said = autotune("tune", TINY, "--store", "s")
    assert code == 2
    assert "autotune: the disk of /somewhere/file must have room, it is full; make room" in said.splitlines()


def fill(path):
    with Store.open(path) as store:
        sweep = store.sweep("mine", "product", {"machine": "m"}, flops=2e9)
        for number, outcome in enumerate(("ok", "crashed", "ok")):
            samples = Samples((2e-3 - 5e-4 * number,)) if outcome == "ok" else None
            config = {"tile": 1 + number % 2, "order": "mn" if number < 2 else "nm"}
            sweep.add(Trial("product", number, config, outcome, f"k{number}", "matmul", samples), SPACE)


def test_inspect_prints_json(autotune):
    fill("s")
    code, out, said = autotune("inspect", "--store", "s", "--json")
    assert (code, said) == (0, "")
    (sweep,) = json.loads(out)
    assert (sweep["payload"], sweep["task"], sweep["trials"]) == ("mine", "product", 3)
    assert sweep["outcomes"] == {"ok": 2, "crashed": 1}
    best = {"seconds": 1e-3, "gflops": 2000.0, "roof_fraction": None, "config": {"order": "nm", "tile": 1}}
    assert best.items() <= sweep["best"][0].items()


def test_inspect_prints_a_table(autotune):
    fill("s")
    code, out, _ = autotune("inspect", "--store", "s")
    assert code == 0
    assert re.search(r"^product .* 3 +1 ", out, re.M)  # trials, failed
    code, out, _ = autotune("inspect", "--store", "s", "--full")
    assert code == 0
    assert "1 crashed" in out
    assert "order=nm" in out


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_inspect_writes_every_trial_to_a_file(autotune, place, kind):
    import pandas as pd

    fill("s")
    code, _, _ = autotune("inspect", "--store", "s", f"--{kind}", f"t.{kind}")
    assert code == 0
    frame = (pd.read_csv if kind == "csv" else pd.read_parquet)(place / f"t.{kind}")
    assert list(frame["outcome"]) == ["ok", "crashed", "ok"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_inspect_refuses_a_file_in_a_missing_folder(refused, kind):
    fill("s")
    refused("inspect", "--store", "s", f"--{kind}", f"nowhere/t.{kind}", words="nowhere")


def test_inspect_without_pyarrow_names_the_extra_that_brings_it(refused, monkeypatch):
    fill("s")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused("inspect", "--store", "s", "--parquet", "t.parquet", words="[parquet]'")


def test_inspect_refuses_a_missing_store(refused):
    refused("inspect", "--store", "s", words="does not")


def test_inspect_refuses_a_payload_the_store_does_not_hold(refused):
    fill("s")
    refused("inspect", "--store", "s", "--payload", "yours", words="'yours'")


def test_inspect_of_an_empty_store_is_fine(autotune):
    with Store.open("s"):
        pass
    code, out, _ = autotune("inspect", "--store", "s", "--json")
    assert (code, json.loads(out)) == (0, [])


def test_list_prints_json(autotune):
    code, out, said = autotune("list", "--json")
    assert (code, said) == (0, "")
    groups = json.loads(out)
    found = {"payloads", "schedules", "techniques", "baselines", "comparators", "generators", "importers", "dialects"}
    assert set(groups) == found | {"backends", "costs", "devices", "precisions", "targets"}
    assert {"nano", "gpt2", "matmul", "attention"} <= set(groups["payloads"])
    assert {"loops", "passes"} == set(groups["baselines"])


def test_list_shows_the_parameters_of_payloads_and_takes_kinds_and_names(autotune, refused):
    code, out, _ = autotune("list", "softmax", "baselines")
    assert code == 0
    assert re.findall(r"^(\w+):", out, re.M) == ["payloads", "baselines"]
    assert "rows=512 cols=512" in out
    assert all(hasattr(point.load(), "parameters") for point in registered(PAYLOADS).values())
    assert set(json.loads(autotune("list", "payloads", "--json")[1])) == {"payloads"}
    refused("list", "zzz", words="NAME must be a kind (payloads,")


def test_list_prints_every_name_in_lines_that_fit_the_terminal(autotune, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = autotune("list")
    assert code == 0
    assert {"nano", "vectorize", "passes"} <= set(out.split())
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_help_of_every_verb_shows_an_example(autotune, verb):
    code, out, _ = autotune(*verb.split(), "--help")
    assert code == 0
    assert f"Example: autotune {verb}" in " ".join(out.split())


def test_no_arguments_show_help_and_no_traceback(autotune):
    code, out, said = autotune()
    assert code in (0, 2)
    assert "tune" in out + said
    assert "Traceback" not in out + said


def test_tune_prints_one_json_object_and_its_bundle_replays(autotune, place):
    (place / "mine.mlir").write_text(contraction_payload(5, 6, 7).text)
    with no_care():  # too few samples to be called noisy beside other work
        code, out, said = autotune("tune", "mine.mlir", "--trials", 2, "--store", "s", "--bundle", "b", "--json")
        assert code == 0, said
        result = json.loads(out)
        assert result["payload"] == "mine.mlir"
        assert result["trials"] == {"ok": 2}
        assert result["bundle"] == "b"
        code, out, said = autotune("replay", "b", "--json")
    found = json.loads(out)
    assert found["outcome"] == "ok"
    assert code == (found["verdict"] in ("weaker", "unknown")), said  # as it may be beside other work
    (place / "b" / "schedule.mlir").write_text("module {}")
    code, out, said = autotune("replay", "b")
    assert (code, out, len(said.splitlines())) == (2, "", 1)
    assert "b/schedule.mlir" in said


def test_inspect_draws_compares_and_filters(autotune, refused, place):
    fill_store(place / "a")
    fill_store(place / "b", factor=2.0)
    code, out, said = autotune("inspect", "a", "--plots", "pictures", "--where", "tile_m >= 4")
    assert code == 0
    assert "best so far" in out
    assert "roof" in out
    assert len(list((place / "pictures").glob("*.png"))) == len(said.splitlines()) == 10
    code, out, _ = autotune("inspect", "a", "--compare", "b", "--json")
    assert (code, json.loads(out)["pairs"][0]["there"]["task"]) == (0, "first")
    assert "there / here" in autotune("inspect", "a", "--compare", "b")[1]
    refused("inspect", "a", "--where", "tile_x > 1", words="--where must be a pandas query")
    refused("inspect", "a", "--store", "b", words="give one store")
    refused("inspect", "a", "--compare", "c", words="does not exist; the store holds mine")
    refused("inspect", "a", "--compare", "b", "--payload", "yours", words="'yours'")
    refused("inspect", "a", "--compare", "b", "--where", "tile_m >= 4", words="leave out")
    fill_store(place / "a", payload="yours", factor=2.0)
    code, out, _ = autotune("inspect", "a", "--compare", "yours")
    assert (code, out.splitlines()[0]) == (0, "here: mine; there: yours")


def test_inspect_draws_the_history_that_lies_beside(autotune, refused, place):
    fill_store(place / "a")
    append_history(place / "history.jsonl", CHECKS)
    autotune("inspect", "a", "--plots", "pictures")
    assert (place / "pictures" / "history.png").exists()
    autotune("inspect", "a", "--plots", "elsewhere", "--payload", "mine")
    assert not (place / "elsewhere" / "history.png").exists()
    (place / "damaged").write_text("{")
    refused("inspect", "a", "--plots", "elsewhere", "--history", "damaged", words="damaged line 1")
    refused("inspect", "a", "--plots", "elsewhere", "--history", "nowhere", words="nowhere")
    refused("inspect", "a", "--history", "history.jsonl", words="--plots")


def test_inspect_reads_a_bundle_and_its_trials_it_has_not(autotune, refused, place):
    folder = str(make_bundle(place, TINY))
    code, out, _ = autotune("inspect", folder)
    assert code == 0
    assert "matmul" in out
    assert json.loads(autotune("inspect", folder, "--json")[1])["payload"] == TINY
    refused("inspect", folder, "--where", "tile_m > 1", words="holds no trials")
