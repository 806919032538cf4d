"""`autotune replay KEY`: a trial of a store, as files and as an outcome, or a line that says why not."""

import json
from dataclasses import replace

import pytest

from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.core.trial import RIGHT
from autotune.registry import family_for, load_payload
from autotune.store.copying import copy_store
from autotune.store.store import Store
from autotune.tuning.stages.task_search import SearchSetting, TaskSearch
from autotune.worker.worker import Worker

SPEC = "matmul,m=9,n=7,k=5"
FILES = {"payload.mlir", "schedule.mlir", "trial.json", "README"}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A store with a right trial, and with records of what never happened or cannot happen here; and the trial."""
    path = tmp_path_factory.mktemp("reproduce") / "s"
    (task,) = partition(load_payload(SPEC)).tasks
    with Store.open(path) as store, Worker(60.0) as worker:
        search = TaskSearch.open(task, family_for(task), SearchSetting(this_machine(), store, SPEC, "tpe", 0))
        trial, _ = search.step(worker)
        untrue = (
            {"outcome": "crashed", "samples": None, "diagnostic": "the process died by SIGSEGV"},
            {"outcome": "crashed", "samples": None, "task": "gone"},
            {"outcome": "crashed", "samples": None, "family": "psychic"},
        )
        for number, fields in enumerate(untrue, 1):
            search.sweep.add(replace(trial, number=number, key=f"{number}" * 64, **fields), search.space)
    return path, trial


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_trial_is_written_as_files_and_does_what_it_did(autotune, filled, place):
    path, trial = filled
    code, out, said = autotune("replay", trial.key[:10], "--store", path, "--output", "again")
    assert (code, said) == (0, "")
    recorded, now, files = out.splitlines()
    assert recorded.split()[:2] == ["recorded:", trial.outcome]
    assert now.split()[1] in RIGHT
    assert files.split() == ["files:", "again"]
    assert {file.name for file in (place / "again").iterdir()} == FILES
    assert json.loads((place / "again" / "trial.json").read_text())["key"] == trial.key
    assert f"autotune replay {trial.key[:12]} --store {path}" in (place / "again" / "README").read_text()


def test_files_of_a_trial_on_a_server_hold_no_password(autotune, filled, place, postgres, postgres_url):
    copy_store(filled[0], postgres_url)
    code, _, said = autotune("replay", filled[1].key[:10], "--store", postgres_url, "--output", "again")
    assert (code, said) == (0, "")
    texts = [file.read_text() for file in (place / "again").iterdir()]
    assert any("--store postgresql://autotune:***@" in text for text in texts)
    assert not any(postgres.password in text for text in texts)


def test_trial_that_does_otherwise_now_is_exit_code_1(autotune, filled, place):
    code, out, _ = autotune("replay", "111", "--store", filled[0])
    assert code == 1
    assert "note: payload, schedule, pipeline or compiler are not those of the record" in out
    assert "recorded: crashed the process died by SIGSEGV" in out
    assert {file.name for file in (place / "trial-111").iterdir()} == FILES


def test_without_a_key_what_failed_is_listed(autotune, filled):
    code, out, said = autotune("replay", "--store", filled[0])
    assert (code, said) == (0, "")
    assert "1" * 12 in out
    assert "SIGSEGV" in " ".join(out.split())


def test_store_without_failures_says_so(autotune):
    with Store.open("s"):
        pass
    assert autotune("replay", "--store", "s")[:2] == (0, "no trial failed\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("zzz",), "'zzz' begins none"),
        ((".",), "is a folder, leave --store out"),
        (("222",), "has no gone"),
        (("333",), "'psychic'"),
        (("111", "--output", "file/x"), "file"),
        (("111", "--timeout", "0"), "timeout"),
        (("111", "222"), "222"),
        (("--nonsense",), "--nonsense"),
    ],
)
def test_bad_input_is_refused_in_one_line(refused, filled, place, arguments, words):
    (place / "file").touch()
    refused("replay", *arguments, "--store", filled[0], words=words)


@pytest.mark.parametrize("arguments", [("111",), ()])
def test_missing_or_foreign_store_is_refused(refused, place, arguments):
    refused("replay", *arguments, "--store", "nowhere", words="nowhere")
    (place / "garbage").write_bytes(b"\x7fELF not a store\n" * 3)
    refused("replay", *arguments, "--store", "garbage", words="line 1")
