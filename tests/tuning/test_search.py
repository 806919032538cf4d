"""One contract for every sampler, on small spaces with constraints."""

import importlib.util
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.trial import TrialState

import autotune.tuning.samplers.search as module
from autotune.core.errors import MachineError, SpaceError
from autotune.core.space import Constraint, Knob, Space, config_key
from autotune.tuning.samplers import sampler
from autotune.tuning.samplers.search import Search, samplers

SPACE = Space(
    (
        Knob("tile_m", (1, 2, 4, 8)),
        Knob("tile_n", (8, 16, 32)),
        Knob("order", ("ijk", "ikj")),
        Knob("pack", (False, True)),
        Knob("vector", (8,)),
    ),
    (Constraint("tile_m * tile_n must be at most 128", lambda c: c["tile_m"] * c["tile_n"] <= 128),),
)
DEFAULT = {"tile_m": 4, "tile_n": 16, "order": "ikj", "pack": True, "vector": 8}


def seconds(config) -> float:
    return 1e-3 * (1 + abs(math.log2(config["tile_m"] * config["tile_n"] / 64)) + (config["order"] == "ijk"))


def run(search: Search, count: int = 1000, fails=lambda config: False) -> list[dict]:
    asked = []
    while len(asked) < count and (config := search.ask()) is not None:
        asked.append(config)
        search.tell(config, None if fails(config) else seconds(config))
    return asked


@pytest.mark.parametrize("sampler", samplers())
class TestEverySampler:
    def test_default_comes_first(self, sampler):
        assert Search(SPACE, DEFAULT, sampler=sampler).ask() == DEFAULT

    def test_small_space_is_exhausted_exactly_without_a_repeat(self, sampler):
        search = Search(SPACE, DEFAULT, sampler=sampler, seed=3)
        keys = [config_key(config) for config in run(search)]
        assert len(keys) == len(set(keys))
        assert set(keys) == {config_key(config) for config in SPACE.configs()}
        assert search.ask() is None

    def test_every_config_obeys_the_constraints(self, sampler):
        for config in run(Search(SPACE, DEFAULT, sampler=sampler, seed=4)):
            SPACE.check(config)
            assert SPACE.broken_constraint(config) is None

    def test_same_seed_and_tells_give_the_same_asks(self, sampler):
        def fails(config):
            return config["tile_m"] == 8

        first, second = (run(Search(SPACE, DEFAULT, sampler=sampler, seed=5), 25, fails) for _ in range(2))
        assert first == second

    def test_another_seed_gives_other_asks(self, sampler):
        assert run(Search(SPACE, DEFAULT, sampler=sampler, seed=1), 20) != run(
            Search(SPACE, DEFAULT, sampler=sampler, seed=2), 20
        )

    def test_told_configs_are_not_asked_again_on_resume(self, sampler):
        told = run(Search(SPACE, DEFAULT, sampler=sampler, seed=6), 12)
        resumed = Search(SPACE, DEFAULT, sampler=sampler, seed=6)
        for config in told:
            resumed.tell(config, seconds(config))
        rest = run(resumed)
        assert not {config_key(c) for c in told} & {config_key(c) for c in rest}
        assert len(told) + len(rest) == len(list(SPACE.configs()))

    def test_space_without_a_choice_gives_its_only_config(self, sampler):
        search = Search(Space((Knob("vector", (8,)),)), {"vector": 8}, sampler=sampler)
        assert [search.ask(), search.ask()] == [{"vector": 8}, None]

    def test_space_without_knobs_gives_one_empty_config(self, sampler):
        search = Search(Space(()), {}, sampler=sampler)
        assert [search.ask(), search.ask()] == [{}, None]

    def test_asks_may_run_ahead_of_tells(self, sampler):
        search = Search(SPACE, DEFAULT, sampler=sampler)
        asked = [search.ask() for _ in range(8)]
        for config in reversed(asked):
            search.tell(config, seconds(config))
        assert len({config_key(config) for config in [*asked, *run(search)]}) == len(list(SPACE.configs()))

    def test_failures_alone_do_not_stop_the_search(self, sampler):
        assert len(run(Search(SPACE, DEFAULT, sampler=sampler), fails=lambda config: True)) == len(
            list(SPACE.configs())
        )

    def test_narrow_space_in_a_huge_product_ends(self, sampler, monkeypatch):
        monkeypatch.setattr(module, "DRAWS", 200)
        knobs = tuple(Knob(f"k{i}", tuple(range(10))) for i in range(7))
        only = dict.fromkeys((knob.name for knob in knobs), 0)
        space = Space(knobs, (Constraint("knobs must be 0", lambda c: not any(c.values())),))
        search = Search(space, only, sampler=sampler)
        assert [search.ask(), search.ask(), search.ask()] == [only, None, None]

    @settings(max_examples=8)
    @given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3), seed=st.integers(0, 99))
    def test_any_small_space_is_exhausted_exactly(self, sampler, sizes, seed):
        knobs = tuple(Knob(f"k{i}", tuple(range(size))) for i, size in enumerate(sizes))
        space = Space(knobs, (Constraint("sum must be even", lambda c: sum(c.values()) % 2 == 0),))
        search = Search(space, dict.fromkeys((k.name for k in knobs), 0), sampler=sampler, seed=seed)
        asked = []
        while (config := search.ask()) is not None:
            asked.append(config_key(config))
            search.tell(config, 1.0 + sum(config.values()))
        assert sorted(asked) == sorted(config_key(config) for config in space.configs())


def wide_space() -> Space:
    return Space(tuple(Knob(f"k{i}", tuple(2**j for j in range(8))) for i in range(5)))


def wide_seconds(config) -> float:
    return 1e-3 * (1 + sum(abs(math.log2(value) - 5) for value in config.values()))


def best_of(sampler: str, seed: int, trials: int) -> float:
    search = Search(wide_space(), {f"k{i}": 1 for i in range(5)}, sampler=sampler, seed=seed)
    best = math.inf
    for _ in range(trials):
        config = search.ask()
        search.tell(config, wide_seconds(config))
        best = min(best, wide_seconds(config))
    return best


@pytest.mark.parametrize("sampler", ["tpe", "cmaes"])
def test_learning_samplers_beat_random_draws(sampler):
    learned, drawn = (sorted(best_of(s, seed, 80) for seed in range(3))[1] for s in (sampler, "random"))
    assert learned < drawn


def test_failures_teach_the_sampler_to_keep_away():
    search = Search(wide_space(), {f"k{i}": 1 for i in range(5)}, seed=0)
    failed = []
    for _ in range(90):
        config = search.ask()
        failed.append(config["k0"] > 8)  # half of the space
        search.tell(config, None if failed[-1] else 1e-3)
    assert sum(failed[-45:]) < 15


def test_history_that_tpe_keeps_is_bounded(monkeypatch):
    monkeypatch.setattr(sampler, "MOST_REMEMBERED", 20)
    monkeypatch.setattr(sampler, "BEST_KEPT", 5)
    monkeypatch.setattr(sampler, "LATEST_KEPT", 8)
    search = Search(SPACE, DEFAULT)
    keys = [config_key(config) for config in run(search)]
    assert len(search._sampler.recorded) <= 20
    assert len(keys) == len(set(keys)) == len(list(SPACE.configs()))


def test_rejected_proposals_are_counted_by_reason():
    search = Search(SPACE, DEFAULT, sampler="grid")
    valid = len(run(search))
    assert search.rejected == {"duplicate": 1, "constraint": SPACE.size - valid}


def test_unknown_sampler_is_refused_with_the_known_ones():
    with pytest.raises(SpaceError, match="auto, tpe, random, cmaes, model, grid; got 'annealing'"):
        Search(SPACE, DEFAULT, sampler="annealing")


def test_default_that_breaks_a_law_is_refused():
    with pytest.raises(SpaceError, match="at most 128"):
        Search(SPACE, DEFAULT | {"tile_m": 8, "tile_n": 32})


def test_config_outside_the_space_is_refused():
    with pytest.raises(SpaceError, match="tile_m must be one of"):
        Search(SPACE, DEFAULT).tell(DEFAULT | {"tile_m": 3}, 1.0)


def test_missing_package_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MachineError, match="pip install cmaes"):
        Search(SPACE, DEFAULT, sampler="cmaes")


def test_any_sampler_of_optuna_is_known_by_its_name():
    asked = run(Search(SPACE, DEFAULT, sampler="NSGAIISampler", seed=1))
    assert {config_key(config) for config in asked} == {config_key(config) for config in SPACE.configs()}
    assert asked == run(Search(SPACE, DEFAULT, sampler="NSGAIISampler", seed=1))


@pytest.mark.parametrize("name", ["PartialFixedSampler", "BaseSampler", "GridSampler", "__all__", "os", ""])
def test_what_is_no_sampler_that_a_seed_makes_is_refused(name):
    with pytest.raises(SpaceError, match="sampler must be one of"):
        Search(SPACE, DEFAULT, sampler=name)


def test_package_that_a_sampler_of_optuna_needs_is_named(monkeypatch):
    class Needing(sampler.TPESampler):
        def __init__(self, seed=None):
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("optuna.samplers.RandomSampler", Needing)
    with pytest.raises(MachineError, match="needs a package that is missing: torch"):
        Search(SPACE, DEFAULT, sampler="RandomSampler")


def test_tpe_keeps_away_from_what_is_under_way_and_forgets_that_it_was():
    tpe = sampler.Tpe((20,), seed=0)
    for index in range(20):
        tpe.learn((index,), 1.0 + abs(index - 5))
    alone = [tpe.propose() for _ in range(60)].count((5,))
    beside = [tpe.propose([(5,)] * 10) for _ in range(60)].count((5,))
    assert beside < alone / 2
    assert len([trial for trial in tpe.study.trials if trial.state == TrialState.COMPLETE]) == 20
    assert not [trial for trial in tpe.study.trials if trial.state == TrialState.RUNNING]


def test_model_expects_nothing_new_of_what_is_under_way():
    search = Search(wide_space(), {f"k{i}": 1 for i in range(5)}, sampler="model", seed=2)
    for _ in range(30):
        config = search.ask()
        search.tell(config, wide_seconds(config))
    model = search._sampler
    wanted = model.propose()
    near = (*wanted[:-1], max(0, wanted[-1] - 1))
    model.under_way = ()
    _, alone = model.expect([wanted, near])
    model.under_way = [wanted]
    _, beside = model.expect([wanted, near])
    assert (beside < alone).all()


def test_nothing_under_way_changes_nothing_of_tpe(monkeypatch):
    asked = run(Search(SPACE, DEFAULT, seed=7), 40)
    plain = sampler.KnownSpaceTpe
    monkeypatch.setattr(sampler, "KnownSpaceTpe", lambda **options: plain(**{**options, "constant_liar": False}))
    assert run(Search(SPACE, DEFAULT, seed=7), 40) == asked
