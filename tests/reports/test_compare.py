"""Comparing: rows, notes, ratios, and what becomes of libraries that are missing or misbehave."""

import json
import os
from pathlib import Path

import pytest
from compare_support import (
    CACHED,
    ROW,
    TINY,
)

from autotune.compiler.tasks.partition import partition
from autotune.core.errors import BundleError
from autotune.core.host.extras import install_command
from autotune.core.host.machine import Roofs, this_machine
from autotune.core.listener import SILENT, NoteKeeper
from autotune.core.stats import Interval, median_interval
from autotune.registry import load_comparator, load_payload
from autotune.reports import compare
from autotune.reports import entries as contenders
from autotune.reports.compare import with_efficiency
from autotune.reports.comparison import Row
from autotune.reports.entries import library_contender, on_one_thread
from autotune.store.folders import home
from autotune.worker.isolation.environment import COUNTS, only_threads

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),  # one way of several, while it lasts
    pytest.mark.usefixtures("no_care"),
]


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
        f"autotune: onnxruntime is missing: onnxruntime must be installed; {install_command('compare')}"
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
    (note,) = [note for note in found["notes"] if note.startswith("best: the bundle ")]
    folder = Path(note.removeprefix("best: the bundle "))
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
    known = "iree, llama.cpp, numpy, onnxruntime, onnxruntime_int8, torch, torch_bf16, torch_medium"
    assert said == f"autotune: comparator must be one of {known}; got 'tvm'\n"


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

    monkeypatch.setattr(compare.ComparisonRun, "enter", interrupted)
    code, out, said = autotune("compare", TINY, "--against", "numpy")
    assert (code, out) == (130, "")
    assert "Traceback" not in said


def test_environment_of_the_worker_is_clean_and_restored_afterwards(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MKL_NUM_THREADS", "4")
    before = dict(os.environ)
    with only_threads(1) as unset:
        assert [os.environ[name] for name in COUNTS] == ["1"] * len(COUNTS)
        assert "OPENBLAS_CORETYPE" not in os.environ
        assert {"OPENBLAS_CORETYPE": "Haswell", "MKL_NUM_THREADS": "4"}.items() <= unset.items()
        assert "OMP_NUM_THREADS" not in unset
    assert dict(os.environ) == before


def test_median_lies_in_its_interval_and_one_sample_is_its_own():
    found = median_interval([1.0, 1.1, 0.9, 5.0, 1.05, 0.95, 1.02])
    assert found.low <= found.estimate == 1.02 <= found.high < 5.0 + 1e-9
    assert median_interval([2.0]).low == median_interval([2.0]).high == 2.0


def test_efficiency_is_the_time_on_one_thread_over_that_of_all_cores():
    def row(name, seconds):
        return Row(name, "ok", seconds=Interval(seconds, seconds, seconds)) if seconds else Row(name, "missing")

    rows = (row("best", 2.0), row("numpy", None), row("best on one", 3.0), row("numpy on one", 1.0), row("read", 1.0))
    found = {each.name: each.efficiency for each in with_efficiency(rows, 2)}
    assert found == {"best": 0.75, "numpy": None, "best on one": None, "numpy on one": None, "read": None}
    assert "efficiency" not in rows[0].to_json()
    assert with_efficiency(rows, 2)[0].to_json()["efficiency"] == 0.75


def test_efficiency_of_ours_is_over_the_fastest_of_ours_on_one_thread():
    def rows(**seconds):
        return tuple(Row(name.replace("_", " "), "ok", seconds=Interval(s, s, s)) for name, s in seconds.items())

    def found(**seconds):
        return {row.name: row.efficiency for row in with_efficiency(rows(**seconds), 2) if row.efficiency is not None}

    assert found(best=2.0, default=4.0, default_on_one=3.0) == {"best": 0.75, "default": 0.375}
    assert found(best=2.0, default=4.0, default_on_one=3.0, best_on_one=2.0) == {"best": 0.5, "default": 0.25}
    assert found(best=2.0, numpy=1.0, numpy_on_one=1.0) == {"numpy": 0.5}


def test_what_runs_on_one_thread_besides_has_a_row_of_its_own():
    payload = load_payload(TINY)
    contender = library_contender(load_comparator("numpy"), payload, 0, SILENT, threads=3)
    alone = on_one_thread(library_contender(load_comparator("numpy"), payload, 0, SILENT))
    assert (contender.entry.threads, alone.entry.threads) == (3, 1)
    assert alone.name == alone.entry.name == "numpy on one"
