"""A script with knobs, a range, a law and alternatives: its space to the number, and searches on recorded times."""

import importlib
import json
from pathlib import Path
from statistics import median

import pytest
from own_support import read

from autotune.core.host.machine import this_machine
from autotune.core.scripts.user_family import OwnFamily
from autotune.reports.show import show
from autotune.tuning.samplers.search import Search

RESULTS = Path(__file__).parents[2] / "results"
SCRIPT = RESULTS / "three_ways.mlir"
RECORDED = sorted(RESULTS.glob("*/own_schedules.json"))


def test_its_space_is_counted_exactly():
    first, *_ = show("matmul,m=256,n=256,k=256", "space", schedule=SCRIPT).text.splitlines()
    assert first.endswith("three_ways.mlir: 5 knobs, 1 constraint; 243 combinations, 120 distinct and valid")


def test_a_grid_asks_for_each_config_once_and_for_none_that_breaks_the_law_or_differs_where_it_does_not_count():
    script, machine = read(SCRIPT.read_text()), this_machine()
    search, asked = Search(script.space(machine), script.default(machine), sampler="grid"), []
    while (config := search.ask()) is not None:
        search.tell(config, 1.0)
        asked.append(config)
    assert len({tuple(config.items()) for config in asked}) == len(asked) == 120
    assert all(config["rows"] * config["columns"] <= 256 for config in asked)
    assert all(config["unroll"] == 1 for config in asked if config["way"] != 0)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.parent.name)
def test_searches_on_recorded_times_find_the_best_in_a_third_of_the_space(path, monkeypatch):
    monkeypatch.syspath_prepend(RESULTS)
    command = importlib.import_module("own_schedules")
    data = json.loads(path.read_text())["three_ways"]
    own, times = OwnFamily(read(SCRIPT.read_text())), data["seconds"]
    goal = command.NEAR * min(seconds for seconds in times.values() if seconds is not None)
    found = [command.needed(own, times, goal, seed) for seed in range(10)]
    assert found == data["needed"][:10]
    assert median(found) <= len(times) / 3
