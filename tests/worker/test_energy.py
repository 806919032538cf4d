"""Energy: counters as a kernel shows them, broken ones, and searches of two objectives."""

import json
import os

import numpy as np
import pandas as pd
import pytest
from bundle_support import no_care
from powercap_support import RANGE, burning, set_counter, write_zone

from autotune.core.errors import MachineError, OptionError
from autotune.core.objective import BOTH, Objective
from autotune.core.space import Knob, Space
from autotune.core.trial import Samples, Trial
from autotune.reports.pictures.energy import energy
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions
from autotune.tuning.samplers.objectives import describe_front, finalists_of, front_of
from autotune.tuning.samplers.search import Search
from autotune.tuning.tune import tune
from autotune.worker.bench.energy import MOVED, Counter, describe_energy, find_counters, joules_of
from autotune.worker.loading.reading import open_payload


def test_packages_and_their_memory_are_counted_and_cores_within_them_are_not_counted_twice(tmp_path):
    write_zone(tmp_path, "intel-rapl:0", "package-0")
    write_zone(tmp_path, "intel-rapl:0:0", "core")
    write_zone(tmp_path, "intel-rapl:0:1", "dram")
    write_zone(tmp_path, "intel-rapl:1", "package-1")
    write_zone(tmp_path, "intel-rapl-mmio:0", "psys")
    assert [counter.name for counter in find_counters(tmp_path)] == ["package-0", "dram", "package-1"]
    assert describe_energy(tmp_path) == "RAPL, package-0, dram, package-1"


def test_a_counter_that_begins_again_has_not_gone_back(tmp_path):
    counter = Counter(tmp_path, "package-0", RANGE)
    assert counter.spent(5_000_000, 7_500_000) == 2.5
    assert counter.spent(RANGE - 1_000_000, 2_000_000) == pytest.approx(3.0)


@pytest.mark.parametrize("start", [0, RANGE - 1_500_000])
def test_joules_of_a_call_are_those_of_all_calls_shared_out(start, tmp_path):
    folder = write_zone(tmp_path, "intel-rapl:0", "package-0", start)
    asked = []

    def run(calls):
        asked.append(calls)
        set_counter(folder, (start + 3_000_000) % RANGE)

    assert joules_of(run, 0.01, tmp_path) == pytest.approx(3.0 / asked[0])
    assert asked == [10]  # so many that the counter moves a hundred times meanwhile


def test_where_there_is_no_counter_a_line_says_so(tmp_path):
    with pytest.raises(MachineError, match="RAPL counters of the processor, there are none in"):
        find_counters(tmp_path / "missing")
    write_zone(tmp_path, "intel-rapl:0:0", "core")
    assert describe_energy(tmp_path).startswith("none: energy needs RAPL counters")
    assert joules_of(lambda calls: None, 1.0, tmp_path) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_counter_that_is_roots_alone_says_how_to_open_it(tmp_path):
    folder = write_zone(tmp_path, "intel-rapl:0", "package-0")
    (folder / "energy_uj").chmod(0)
    with pytest.raises(MachineError, match="as root: chmod a"):
        find_counters(tmp_path)


def test_a_refused_read_says_how_to_open_it(tmp_path, monkeypatch):
    write_zone(tmp_path, "intel-rapl:0", "package-0")

    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Counter, "read", refuse)
    with pytest.raises(MachineError, match=r"intel-rapl:0 is root's alone; as root: chmod a\+r"):
        find_counters(tmp_path)


@pytest.mark.parametrize("broken", ["", "much", None])
def test_a_counter_that_breaks_meanwhile_gives_no_joules(broken, tmp_path):
    folder = write_zone(tmp_path, "intel-rapl:0", "package-0")

    def run(calls):
        if broken is None:
            (folder / "energy_uj").unlink()
        else:
            (folder / "energy_uj").write_text(broken)

    assert joules_of(run, 0.5, tmp_path) is None


def test_a_counter_that_stands_still_gives_no_joules(tmp_path):
    write_zone(tmp_path, "intel-rapl:0", "package-0", 77)
    assert joules_of(lambda calls: None, 0.5, tmp_path) is None


def trial(number, seconds, joules):
    return Trial("t", number, {"x": number}, "ok", str(number), "f", Samples((seconds,), joules=joules))


TRIALS = [trial(0, 1.0, 9.0), trial(1, 2.0, 4.0), trial(2, 3.0, 5.0), trial(3, 4.0, 1.0), trial(4, 0.5, None)]


def test_the_front_has_what_nobody_beats_in_both():
    assert [each.number for each in front_of(TRIALS)] == [0, 1, 3]
    assert describe_front("mine", TRIALS).startswith("mine: 3 configs on the front")
    assert front_of([]) == []


@pytest.mark.parametrize(("weight", "first"), [(0.0, 0), (1.0, 3), (0.5, 3), (0.3, 0)])
def test_a_weight_chooses_from_the_front(weight, first):
    assert finalists_of(TRIALS, Objective(BOTH, weight), 8)[0].number == first
    scores = {each.number: each.seconds ** (1 - weight) * each.joules**weight for each in TRIALS[:4]}
    assert scores[first] == min(scores.values())


def test_where_joules_of_one_are_not_known_seconds_decide():
    assert Objective(BOTH, 1.0).scores([(1.0, 9.0), (2.0, 1.0)]) == [9.0, 1.0]
    assert Objective(BOTH, 1.0).scores([(1.0, 9.0), (2.0, None)]) == [1.0, 2.0]
    assert Objective().scores([(1.0, 9.0), (2.0, 1.0)]) == [1.0, 2.0]


def test_a_trial_keeps_its_joules_and_one_without_is_stored_as_it_was():
    assert Trial.from_json(TRIALS[0].to_json()) == TRIALS[0]
    assert "joules" not in TRIALS[4].to_json()["samples"]
    assert Trial.from_json(TRIALS[4].to_json()) == TRIALS[4]


@pytest.mark.parametrize(("names", "weight"), [("joules", 0.5), ("", 0.5), (BOTH, 1.5), (BOTH, -0.1)])
def test_an_objective_that_is_none_is_refused(names, weight):
    with pytest.raises(OptionError):
        Objective(names, weight)


@pytest.mark.parametrize("sampler", ["tpe", "NSGAIISampler", "random"])
def test_a_search_of_two_objectives_is_optunas_and_repeats_itself(sampler):
    space = Space((Knob("x", tuple(range(12))), Knob("y", tuple(range(12)))))

    def run():
        search, asked = Search(space, {"x": 0, "y": 0}, sampler=sampler, seed=3, has_joules=True), []
        for _ in range(60):
            config = search.ask()
            x, y = config["x"], config["y"]
            asked.append((x, y))
            failed = x == 11
            off = (y - 4) ** 2
            both = (None, None) if failed else (1.0 + x + off, 13.0 - x + off)
            search.tell(config, both[0], joules=both[1])
        return asked

    asked = run()
    assert len(set(asked)) == 60
    assert run() == asked
    if sampler == "tpe":  # all of the front has y = 4
        assert np.mean([y in (3, 4, 5) for _, y in asked[30:]]) > 0.4


def test_the_picture_has_every_trial_and_the_front():
    rows = pd.DataFrame(
        {
            "task": ["t"] * 5,
            "joules": [each.joules or np.nan for each in TRIALS],
            "seconds_normalised": [each.seconds for each in TRIALS],
        }
    )
    (axes,) = energy(rows).axes
    assert len(axes.collections[0].get_offsets()) == 4
    assert len(axes.lines[0].get_xdata()) == 3
    assert "3 on the front" in axes.lines[0].get_label()


def test_tune_measures_joules_keeps_a_front_and_chooses_again_without_a_trial(tmp_path, monkeypatch):
    monkeypatch.setenv(MOVED, str(tmp_path / "powercap"))
    payload = open_payload("matmul,m=32,n=32,k=32")
    with no_care(), burning(tmp_path / "powercap", watts=50.0), Store.open(tmp_path / "s.journal") as store:
        found = [
            tune(payload, store, tmp_path / "b", TuneOptions(trials=5, objective=BOTH, weight=weight))
            for weight in (0.0, 1.0)
        ]
        trials = [each for sweep in store.sweeps() for each in sweep.recorded]
    joules = [each.joules for each in trials if each.outcome == "ok"]
    assert joules
    assert all(value is not None and value > 0 for value in joules)
    assert any("on the front of seconds and joules" in note for note in found[0].notes)
    assert found[1].evaluated == 0
    manifest = json.loads((tmp_path / "b" / "manifest.json").read_text())
    assert "--objective" in json.dumps(manifest)


def test_tune_refuses_joules_where_there_are_none(tmp_path, monkeypatch):
    monkeypatch.setenv(MOVED, str(tmp_path / "nothing"))
    options = TuneOptions(trials=2, objective=BOTH)
    with Store.open(tmp_path / "s.journal") as store, pytest.raises(MachineError, match="energy needs RAPL"):
        tune(open_payload("matmul,m=8,n=8,k=8"), store, tmp_path / "b", options)
