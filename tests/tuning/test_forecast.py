"""The forecast of a run holds all of it: the search, and what comes after it."""

import io
import re

import pytest
from bundle_support import no_care
from listener_support import Recorder
from rich.console import Console

from autotune.core import progress
from autotune.core.trial import Trial
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions
from autotune.tuning.stages.forecast import FINALISTS_SECONDS, PROOF, Forecast
from autotune.tuning.tune import tune
from autotune.worker.loading.reading import open_payload


class Watcher(Recorder):
    def __init__(self):
        super().__init__()
        self.heard = []

    def stage(self, sentence):
        super().stage(sentence)
        self.heard.append(("stage", sentence))

    def forecast(self, left, whole):
        self.heard.append(("left", left, whole))


def test_what_is_left_falls_to_the_end_and_holds_what_comes_after_the_search(tmp_path):
    watcher = Watcher()
    with no_care(), Store.open(tmp_path / "store.journal") as store:
        tune(open_payload("matmul,m=9,n=24,k=8"), store, tmp_path / "bundle", TuneOptions(trials=2), watcher)
    stages = [each for each in watcher.heard if each[0] == "stage"]
    race = next(each for each in stages if "finalists" in each[1])
    searching = [each for each in watcher.heard[: watcher.heard.index(race)] if each[0] == "left"][:-1]
    assert [left for _, left, _ in searching][-1] >= FINALISTS_SECONDS + sum(PROOF)
    whole = searching[-1][2]
    assert whole == pytest.approx(min(trial.seconds for trial in watcher.trials if trial.seconds))
    after = [each[1] for each in watcher.heard if each[0] == "left"][len(searching) - 1 :]
    assert after == sorted(after, reverse=True)
    assert len(after) == 1 + 1 + len(PROOF)


def test_finalists_that_took_longer_than_expected_make_all_that_follows_be_expected_longer(monkeypatch):
    watcher, clock = Watcher(), iter([100.0, 108.0, 116.0])
    monkeypatch.setattr("autotune.tuning.stages.forecast.perf_counter", lambda: next(clock))
    forecast = Forecast(2, watcher)
    for _ in range(2):
        forecast.race()
    forecast.prove(0)
    forecast.prove(1)
    first = 2 * FINALISTS_SECONDS + sum(PROOF)
    assert [each[1] for each in watcher.heard] == pytest.approx(
        [first, 2 * (FINALISTS_SECONDS + sum(PROOF)), 2 * sum(PROOF), 2 * sum(PROOF[1:])]
    )


def test_a_line_of_80_columns_has_the_bar_the_best_the_whole_and_what_is_left(monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr(progress, "terminal", lambda **_: console)
    trial = Trial("matmul", 0, {}, "ok", "k", "matmul")
    with progress.ProgressLine("nano", 40) as line:
        line.trial(trial, 17, 33.1e-9)
        line.forecast(72.0, 57.8e-6)
        line._line.refresh()
        task = line._line.tasks[0]
        assert 0 <= task.completed < task.total
        shown = console.file.getvalue().splitlines()[-1]
        line.trial(trial, 40, 33.1e-9)
        line.stage("measuring finalists of task 3 of 10")
        line._line.refresh()
        later = console.file.getvalue().splitlines()[-1]
    assert "measuring finalists" in later
    assert "whole 57.8 us" in later
    assert "best" not in later
    assert "40/40" in later
    for part in ("17/40", "best 33.1 ns, whole 57.8 us", "s left"):
        assert part in shown


def test_a_note_breaks_between_words_on_a_terminal_and_is_a_line_where_programs_read_it(monkeypatch):
    note = "sampler auto (a cost model): analytical model as prior for 6 of 10 tasks, recorded data for 0"
    shown = {}
    for is_terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=is_terminal, width=80)
        monkeypatch.setattr(progress, "terminal", lambda console=console, **_: console)
        with progress.ProgressLine() as line:
            line.note(note)
            line.interim(note)
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
        shown[is_terminal] = [each.rstrip() for each in text.splitlines() if len({*note.split()} & {*each.split()}) > 2]
    assert shown[False] == [f"autotune: {note}", f"  {note}"]
    assert [len(each) - len(each.lstrip()) for each in shown[True]] == [0, 2, 2, 4]
    assert max(map(len, shown[True])) <= 80
    assert " ".join(" ".join(shown[True]).split()) == f"autotune: {note} {note}"
