"""The record of trials: what is written comes back, and no fault of disk, process or user loses what was written."""

import math

import optuna
import pandas as pd
import pytest
from store_support import IDENTITY, SPACE, fill, make, numbers, one_line

from autotune.core.errors import SpaceError, StoreError
from autotune.core.space import Knob, Space
from autotune.core.trial import Trial
from autotune.store.store import Store, trials


class TestEveryLocation:
    def test_trials_come_back_equal_and_by_number(self, location):
        written = [
            make(2),
            make(0, "crashed", diagnostic="signal 11\nß\udcff"),
            make(1, "wrong-result", max_error=0.5),
        ]
        with Store.open(location) as store:
            sweep = store.sweep("nano", "matmul0", IDENTITY)
            for trial in written:
                sweep.add(trial, SPACE)
            assert sweep.records == {trial.key: trial for trial in written}
        with Store.open(location) as store:
            sweep = store.sweep("nano", "matmul0", IDENTITY)
            assert sweep.trials() == sorted(written, key=lambda trial: trial.number)
            assert sweep.records == {trial.key: trial for trial in written}

    @pytest.mark.parametrize("error", [math.inf, math.nan])
    def test_non_finite_errors_come_back(self, location, error):
        with Store.open(location) as store:
            store.sweep("nano", "matmul0", IDENTITY).add(make(0, "non-finite", max_error=error), SPACE)
        with Store.open(location) as store:
            assert repr(store.sweep("nano", "matmul0", IDENTITY).trials()[0].max_error) == repr(error)

    def test_different_identities_are_never_mixed(self, location):
        with Store.open(location) as store:
            store.sweep("nano", "matmul0", IDENTITY).add(make(0), SPACE)
            assert store.sweep("nano", "matmul0", IDENTITY | {"machine": "other"}).trials() == []
            assert store.sweep("gpt2", "matmul0", IDENTITY).trials() == []
            assert len(store.sweep("nano", "matmul0", dict(reversed(IDENTITY.items()))).trials()) == 1

    def test_incomparable_trials_are_those_of_the_same_tasks_under_other_identities(self, location, monkeypatch):
        kept = [("nano", "matmul0", "old"), ("nano", "matmul1", "old"), ("gpt2", "matmul0", "old")]
        with Store.open(location) as store:
            for number, (payload, task, machine) in enumerate(kept, start=1):
                sweep = store.sweep(payload, task, IDENTITY | {"machine": machine})
                for trial in range(number):
                    sweep.add(make(trial), SPACE)
            store.write_summary("nano", {"speedup": 2.0})
            mine = [store.sweep("nano", task, IDENTITY) for task in ("matmul0", "matmul1", "matmul2")]
            mine[0].add(make(0), SPACE)
            monkeypatch.setattr("autotune.store.sweep.decode", None)  # it counts, and reads no trial
            assert store.count_incomparable(mine) == 1 + 2
            assert store.count_incomparable(mine[:1]) == 1
            assert store.count_incomparable([]) == 0

    def test_config_outside_the_space_is_refused_and_not_recorded(self, location):
        with Store.open(location) as store:
            sweep = store.sweep("nano", "matmul0", IDENTITY)
            with pytest.raises(SpaceError):
                sweep.add(make(0), Space((Knob("tile", (3,)), *SPACE.knobs[1:])))
            assert sweep.trials() == []

    def test_summaries_come_back_newest_last(self, location):
        with Store.open(location) as store:
            assert store.summaries() == []
            store.write_summary("nano", {"speedup": 2.0})
            store.write_summary("gpt2", {"speedup": 3.0})
        with Store.open(location, create=False) as store:
            assert store.summaries() == [{"payload": "nano", "speedup": 2.0}, {"payload": "gpt2", "speedup": 3.0}]

    def test_missing_store_is_not_created_for_reading(self, location, tmp_path):
        for call in (lambda: Store.open(location, create=False), lambda: trials(location)):
            with pytest.raises(StoreError, match="must exist") as error:
                call()
            one_line(error)
        assert list(tmp_path.iterdir()) == []

    def test_flops_are_kept_when_not_given_again(self, location):
        fill(location, 1)
        assert numbers(location) == [0]
        assert trials(location)["gflops"][0] == pytest.approx(2e9 / 2e-3 / 1e9)

    def test_frame_has_one_row_a_trial_failures_included(self, location):
        with Store.open(location) as store:
            sweep = store.sweep("nano", "matmul0", IDENTITY, flops=2e9)
            sweep.add(make(0), SPACE)
            sweep.add(make(1, "crashed"), SPACE)
        frame = trials(location)
        assert list(frame["outcome"]) == ["ok", "crashed"]
        assert list(frame["samples"]) == [3, 0]
        assert frame["seconds_min"][0] == 1e-3
        assert frame["seconds_median"].isna().tolist() == [False, True]
        assert frame["lower_seconds"][0] == 0.2
        assert frame["jit_seconds"].isna().all()
        assert list(frame["knob_tile"]) == [1, 2]

    def test_optuna_alone_can_read_the_sweeps(self, location):
        fill(location, 2)
        storage = str(location)
        if "://" not in storage:
            storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(storage))
        name = next(n for n in optuna.get_all_study_names(storage) if n.startswith("nano/matmul0/"))
        study = optuna.load_study(study_name=name, storage=storage)
        assert study.best_value == pytest.approx(1.5e-3), "the lower quartile of 1, 2 and 3 ms"
        assert study.trials[0].params == make(0).config


def test_frame_round_trips_through_parquet_and_csv(path, tmp_path):
    mixed = Space((Knob("unroll", (1, "full")), Knob("tile", (1, 2))))
    with Store.open(path) as store:
        store.sweep("nano", "a", IDENTITY).add(make(0), SPACE)
        sweep = store.sweep("nano", "b", IDENTITY)
        for number, value in enumerate(("full", 1)):
            changes = {"unroll": value, "tile": 2}
            sweep.add(Trial("b", number, changes, "timed-out", f"b{number}", "matmul"), mixed)
    frame = trials(path)
    assert list(frame["knob_unroll"].dropna()) == ["full", "1"]
    assert list(frame["knob_tile"]) == [1, 2, 2]
    frame.to_parquet(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "t.parquet"), frame)
    frame.to_csv(tmp_path / "t.csv", index=False)
    back = pd.read_csv(tmp_path / "t.csv", dtype=frame.dtypes.to_dict(), keep_default_na=False, na_values=[""])
    pd.testing.assert_frame_equal(back.drop(columns="diagnostic"), frame.drop(columns="diagnostic"))


def test_frame_of_an_empty_store_has_its_columns(path):
    with Store.open(path):
        pass
    assert trials(path).empty
    assert {"payload", "seconds_median", "gflops", "verify_seconds"} <= set(trials(path).columns)


def test_reading_beside_a_writer_works_and_writes_nothing(path):
    with Store.open(path) as store:
        sweep = store.sweep("nano", "matmul0", IDENTITY)
        sweep.add(make(0), SPACE)
        before, files = path.read_bytes(), sorted(path.parent.iterdir())
        assert len(trials(path)) == 1
        with Store.open(path, exclusive=False) as reader, pytest.raises(StoreError, match="must only be read"):
            reader.sweep("nano", "matmul0", IDENTITY).add(make(1), SPACE)
        assert (path.read_bytes(), sorted(path.parent.iterdir())) == (before, files)
        sweep.add(make(1), SPACE)
    assert len(trials(path)) == 2


def test_reader_skips_a_record_that_is_still_being_written(path):
    fill(path, 2)
    with path.open("ab") as file:
        file.write(b'{"op_code":4,"wor')
    before = path.read_bytes()
    assert len(trials(path)) == 2
    assert path.read_bytes() == before


def test_two_writers_see_what_the_other_recorded_and_lose_nothing(path):
    with Store.open(path) as one, Store.open(path) as two:
        mine, theirs = (store.sweep("nano", "matmul0", IDENTITY) for store in (one, two))
        for number in range(0, 10, 2):
            mine.add(make(number), SPACE)
            theirs.add(make(number + 1), SPACE)
        mine.refresh()
        assert [trial.number for trial in mine.recorded] == [trial.number for trial in theirs.recorded]
    assert numbers(path) == list(range(10))
