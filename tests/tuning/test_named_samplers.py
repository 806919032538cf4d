"""Samplers by name: Optuna's, and packages of OptunaHub, read from its cache."""

import pytest
from optuna.distributions import IntDistribution
from optuna.samplers import RandomSampler

from autotune.core.errors import MachineError, SpaceError
from autotune.core.space import Knob, Space
from autotune.tuning.samplers.named_samplers import HUB, class_of, named_sampler
from autotune.tuning.samplers.optuna_adapter import Asking
from autotune.tuning.samplers.search import Search, check_sampler

GOOD = """import optuna
class Steps(optuna.samplers.RandomSampler):
    "One sampler, with a seed."
__all__ = ["Steps"]
"""
PACKAGES = {
    "good": GOOD,
    "two": f"{GOOD}class Other(Steps):\n    pass\n__all__ = ['Steps', 'Other']\n",
    "none": "__all__ = ['x']\nx = 1\n",
    "needs": f"{GOOD}class Steps(Steps):\n    def __init__(self, space, seed=None):\n        super().__init__(seed)\n",
    "missing": "import a_package_that_nobody_has\n",
    "broken": "raise RuntimeError('first line\\nsecond line')\n",
    "unseeded": "import optuna\nclass Any(optuna.samplers.BruteForceSampler):\n    def __init__(self):\n"
    "        super().__init__()\n__all__ = ['Any']\n",
}
SPACE = Space((Knob("a", (1, 2, 4)), Knob("b", (1, 2)), Knob("c", (False, True))))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """OptunaHub's cache, as it is once packages were fetched."""
    pytest.importorskip("optunahub")
    monkeypatch.setenv("OPTUNAHUB_CACHE_HOME", str(tmp_path))
    for name, text in PACKAGES.items():
        folder = tmp_path / "github.com" / "optuna" / "optunahub-registry" / "main" / "package" / "samplers" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(text)
    class_of.cache_clear()


@pytest.mark.parametrize("name", ["NSGAIISampler", f"{HUB}samplers/good", f"{HUB}samplers/two:Other"])
def test_a_named_sampler_searches_and_repeats_itself(name):
    check_sampler(name)

    def asked():
        search = Search(SPACE, {"a": 1, "b": 1, "c": False}, sampler=name, seed=3)
        found = []
        while (config := search.ask()) is not None:
            search.tell(config, 1.0 / len(found) if found else 2.0)
            found.append(config)
        return found

    first = asked()
    assert len({tuple(config.items()) for config in first}) == len(first) == 12
    assert asked() == first


def test_a_sampler_without_a_seed_is_taken_as_it_is():
    assert type(named_sampler(f"{HUB}samplers/unseeded", 7)).__name__ == "Any"


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("samplers/two", SpaceError, "must have the sampler that is meant, as in optunahub:samplers/two:NAME"),
        ("samplers/good:Other", SpaceError, "it has Steps"),
        ("samplers/none", SpaceError, "it has none"),
        ("samplers/needs", SpaceError, "sampler Steps must need nothing but a seed, it needs space"),
        ("samplers/missing", MachineError, "needs a_package_that_nobody_has, which is missing"),
        ("samplers/broken", MachineError, "must be there to be fetched; second line"),
        ("", SpaceError, "must be named like optunahub:samplers/auto_sampler, got 'optunahub:'"),
        ("../samplers/good", SpaceError, "must be named like"),
        ("samplers/good\n", SpaceError, "must be named like"),
    ],
)
def test_a_package_that_is_no_sampler_is_refused_in_one_line(name, error, words):
    with pytest.raises(error) as raised:
        check_sampler(HUB + name)
    assert words in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_without_the_package_the_way_out_is_said(monkeypatch):
    monkeypatch.setattr("autotune.tuning.samplers.named_samplers.find_spec", lambda name: None)
    with pytest.raises(MachineError, match=r"need the package optunahub.*\[optunahub\]"):
        check_sampler(f"{HUB}samplers/good")


def test_the_command_refuses_in_one_line(refused):
    refused("tune", "nano", "--sampler", f"{HUB}samplers/two", words="must have the sampler that is meant")


def test_a_sampler_that_fits_with_torch_does_it_on_one_thread():
    torch = pytest.importorskip("torch")
    threads = []

    class Counting(RandomSampler):
        def sample_relative(self, study, trial, search_space):
            threads.append(torch.get_num_threads())
            return {}

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        Asking((3, 2), Counting(seed=0), {"0": IntDistribution(0, 2), "1": IntDistribution(0, 1)}).propose()
        assert (threads, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)
