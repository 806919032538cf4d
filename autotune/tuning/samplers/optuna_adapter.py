"""Samplers of Optuna as they are, which propose trials and learn from them: CMA-ES, and any other that is given."""

import importlib.util
import math
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.samplers import BaseSampler, CmaEsSampler
from optuna.trial import TrialState, create_trial

from autotune.core.errors import MachineError
from autotune.tuning.samplers.sampler import Index


class Asking:
    """A sampler of Optuna behind our interface: the position of each knob's value is a number."""

    def __init__(self, counts: Sequence[int], sampler: BaseSampler, space: Mapping[str, BaseDistribution]) -> None:
        """Sample a space.

        Args:
            counts: Number of values of each knob.
            sampler: Optuna's sampler.
            space: Distribution of the position of each knob with a choice, by the knob's position.
        """
        self.counts, self.space = tuple(counts), dict(space)
        self.study = optuna.create_study(sampler=sampler)
        self.proposed: optuna.Trial | None = None
        self.pending: dict[Index, optuna.Trial] = {}

    def propose(self, under_way: Sequence[Index] = ()) -> Index:
        """A point of the sampler, rounded; what it asked for itself it knows to be under way."""
        with one_torch_thread():
            self.proposed = self.study.ask(self.space)
        params = self.proposed.params
        return tuple(position(params.get(str(index), 0.0), count) for index, count in enumerate(self.counts))

    def settle(self, index: Index | None) -> None:
        """Expect the time of a config near by: a generation counts only trials that were asked for."""
        if self.proposed is None:
            raise RuntimeError("a config must be proposed before it is settled, none was")
        if index is None:
            self.study.tell(self.proposed, state=TrialState.FAIL)
        else:
            self.pending[index] = self.proposed

    def learn(self, index: Index, seconds: float, cost: float = 0.0) -> None:
        """Give the time to the trial that asked for it."""
        trial = self.pending.pop(index, None)
        if trial is not None:
            self.study.tell(trial, seconds)
            return
        params = {name: index[int(name)] for name in self.space}
        self.study.add_trial(create_trial(params=params, distributions=self.space, value=seconds))


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Have PyTorch compute on one thread meanwhile, if it is loaded: samplers fit small models with it.

    Its threads wait for each other by spinning, and the cores are busy with what is measured: beside that, a proposal
    of Optuna's GPSampler took 14 s on two cores and takes 0.6.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class CmaEs(Asking):
    """Covariance matrix adaptation. Knows nothing but lines: positions are rounded."""

    def __init__(self, counts: Sequence[int], seed: int) -> None:
        """Sample a space; see `Uniform`.

        Raises:
            MachineError: The package cmaes is missing.
        """
        if importlib.util.find_spec("cmaes") is None:
            raise MachineError("sampler cmaes needs the package cmaes, which is missing; pip install cmaes")
        space = {str(index): FloatDistribution(-0.5, count - 0.5) for index, count in enumerate(counts) if count > 1}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = CmaEsSampler(seed=seed, warn_independent_sampling=False)
        super().__init__(counts, sampler, space)


def position(value: float, count: int) -> int:
    """The position that a point on the line rounds to."""
    return min(max(math.floor(value + 0.5), 0), count - 1)
