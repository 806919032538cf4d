"""Stores copied into others, there and back: nothing is changed, mixed or left half-done."""

import math

import optuna
import pytest
from store_support import IDENTITY, SPACE, fill, make, one_line

from autotune.core.errors import StoreError
from autotune.core.listener import Listener
from autotune.core.trial import Trial
from autotune.store.copying import copy_store
from autotune.store.store import Store

KINDS = ("file", "database", "server")


@pytest.fixture
def place(request, tmp_path):
    """Gives a new location of a kind."""

    def new(kind, name="other"):
        if kind == "server":
            return request.getfixturevalue("postgres_url")
        return tmp_path / f"{name}.journal" if kind == "file" else f"sqlite:///{tmp_path}/{name}.db"

    return new


def fill_oddly(location):
    """A store of several sweeps, with whatever a record may hold."""
    odd = [
        make(3),
        make(0, "wrong-result", max_error=math.nan),
        make(1, "crashed", diagnostic="signal 11\nß\udcff \0"),
        make(2, "duplicate", twin="key3"),
    ]
    with Store.open(location) as store:
        for payload, identity in (("nano", IDENTITY), ("a/b", IDENTITY), ("nano", IDENTITY | {"machine": "n"})):
            sweep = store.sweep(payload, "matmul0", identity, flops=2e9, default=odd[0].config, name="a product")
            for trial in odd:
                sweep.add(trial, SPACE)
        store.sweep("empty", "none", IDENTITY)
        store.write_summary("nano", {"speedup": 2.0, "roofs": [1.5, None]})


def held(location):
    """All of a store that anybody reads."""
    with Store.read(location) as store:
        sweeps = [(sweep.about, [repr(trial) for trial in sweep.recorded]) for sweep in store.sweeps()]
        return sweeps, store.summaries()


def records(location):
    """All of a store as Optuna has it, but for what only servers have."""
    with Store.read(location) as store:
        studies = sorted(store.storage.get_all_studies())[1:]
        found = [(s, store.storage.get_all_trials(store.storage.get_study_id_from_name(s.study_name))) for s in studies]
    return [
        (s.study_name, s.user_attrs, [(t.number, t.state, t.values, t.params, t.distributions, t.datetime_start,
                                       t.datetime_complete, list(t.user_attrs)) for t in listed])
        for s, listed in found
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_copy_there_and_back_is_the_same(place, tmp_path, kind):
    source, back = tmp_path / "store.journal", tmp_path / "back.journal"
    fill_oddly(source)
    before = source.read_bytes()
    other = place(kind)
    found = copy_store(source, other)
    assert (found.trials, found.copied) == (13, 13)
    copy_store(other, back)
    assert held(source) == held(other) == held(back)
    assert records(source) == records(other) == records(back)
    assert source.read_bytes() == before


def test_optuna_reads_the_knobs_of_a_copy(tmp_path, postgres_url):
    fill(tmp_path / "s", 2)
    copy_store(tmp_path / "s", postgres_url)
    storage = postgres_url.replace("postgresql://", "postgresql+psycopg://")
    (name,) = (name for name in optuna.get_all_study_names(storage) if name.startswith("nano/"))
    assert [trial.params for trial in optuna.load_study(study_name=name, storage=storage).trials] == [
        make(0).config,
        make(1).config,
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_store_of_other_trials_is_refused_and_left_alone(place, tmp_path, kind):
    source, other = tmp_path / "store.journal", place(kind)
    fill(source, 3)
    fill(other, 1, first=7)
    before = held(other)
    with pytest.raises(StoreError, match="must be empty or hold a part of the same copy") as error:
        copy_store(source, other)
    one_line(error)
    assert held(other) == before


def test_store_is_not_copied_into_itself(tmp_path):
    fill(tmp_path / "s", 1)
    with pytest.raises(StoreError, match="into another one"):
        copy_store(tmp_path / "s", tmp_path / "x" / ".." / "s")


def test_missing_source_makes_no_target(tmp_path):
    with pytest.raises(StoreError, match="must exist"):
        copy_store(tmp_path / "s", tmp_path / "t")
    assert list(tmp_path.iterdir()) == []


class Interrupts(Listener):
    """Interrupts a copy."""

    def __init__(self, words):
        self.words = words

    def stage(self, sentence):
        if self.words in sentence:
            raise KeyboardInterrupt


@pytest.mark.parametrize("words", ["0 of", "6 of 9", "9 of 9", "read"])
@pytest.mark.parametrize("kind", KINDS)
def test_interrupted_copy_is_not_taken_for_whole_and_goes_on(place, tmp_path, monkeypatch, kind, words):
    monkeypatch.setattr("autotune.store.copying.STEP", 2)
    source, other = tmp_path / "store.journal", place(kind)
    for machine in ("one", "two", "three"):
        with Store.open(source) as store:
            sweep = store.sweep("nano", "matmul0", IDENTITY | {"machine": machine})
            for number in range(3):
                sweep.add(make(number), SPACE)
    with pytest.raises(KeyboardInterrupt):
        copy_store(source, other, Interrupts(words))
    for writing in (True, False):
        with pytest.raises(StoreError, match="finish `autotune lab copy"):
            Store.open(other, create=writing, exclusive=writing)
    found = copy_store(source, other)
    assert found.trials == 9
    assert found.copied < 9 or words == "0 of"
    assert records(source) == records(other)


def test_what_was_recorded_since_is_copied_by_the_same_command(tmp_path, autotune, postgres_url, postgres):
    source = tmp_path / "s"
    fill(source, 3)
    code, out, said = autotune("lab", "copy", source, postgres_url)
    assert (code, out) == (0, "")
    hidden = postgres_url.replace(postgres.password, "***")
    assert said.endswith(f"3 trials of {source} are in {hidden}, read back and the same\n")
    fill(source, 2, first=3)
    code, _, said = autotune("lab", "copy", source, postgres_url)
    assert code == 0
    assert said.endswith("3 of them were there\n")
    assert held(source) == held(postgres_url)


def test_copy_of_trials_that_are_in_a_store_twice_has_them_twice(tmp_path, postgres_url):
    with Store.open(tmp_path / "s") as store:
        sweep = store.sweep("nano", "matmul0", IDENTITY)
        for outcome in ("ok", "crashed", "ok"):
            sweep.add(Trial("matmul0", 0, make(0).config, outcome, "key0", "matmul"), SPACE)
    copy_store(tmp_path / "s", postgres_url)
    assert held(tmp_path / "s") == held(postgres_url)
