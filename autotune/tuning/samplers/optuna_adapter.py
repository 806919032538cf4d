"""Adapters of Optuna's ask-and-tell interface: CMA-ES, and any other sampler of Optuna."""

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
    """Adapter of an Optuna sampler to `Sampler`, over the positions of the knobs' values as numbers."""

    def __init__(self, counts: Sequence[int], sampler: BaseSampler, space: Mapping[str, BaseDistribution]) -> None:
        """Initialize the sampler for a space.

        Args:
            counts: Number of values of each knob.
            sampler: Optuna's sampler.
            space: Distribution of the position of each knob with several values, by the knob's position.
        """
        self.counts, self.space = tuple(counts), dict(space)
        self.study = optuna.create_study(sampler=sampler)
        self.proposed: optuna.Trial | None = None
        self.pending: dict[Index, optuna.Trial] = {}

    def propose(self, under_way: Sequence[Index] = ()) -> Index:
        """Return a point of the sampler, rounded to positions; the study tracks its own unfinished trials."""
        with one_torch_thread():
            self.proposed = self.study.ask(self.space)
        params = self.proposed.params
        return tuple(position(params.get(str(index), 0.0), count) for index, count in enumerate(self.counts))

    def settle(self, index: Index | None) -> None:
        """Assign the last proposal to the config that replaces it: only asked trials count for a CMA-ES generation."""
        if self.proposed is None:
            raise RuntimeError("a config must be proposed before it is settled, none was")
        if index is None:
            self.study.tell(self.proposed, state=TrialState.FAIL)
        else:
            self.pending[index] = self.proposed

    def learn(self, index: Index, seconds: float, cost: float = 0.0) -> None:
        """Record a time, for the trial that proposed the config, if there is one."""
        trial = self.pending.pop(index, None)
        if trial is not None:
            self.study.tell(trial, seconds)
            return
        params = {name: index[int(name)] for name in self.space}
        self.study.add_trial(create_trial(params=params, distributions=self.space, value=seconds))


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Limit PyTorch to one thread in the block, if it is loaded: samplers fit small models with it.

    Its threads synchronize by spinning, while the cores are busy with measurements: a proposal of Optuna's GPSampler
    took 14 s on two cores, and takes 0.6 s on one thread.
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
    """Sampler with CMA-ES (covariance matrix adaptation), over continuous positions that are rounded."""

    def __init__(self, counts: Sequence[int], seed: int) -> None:
        """Initialize the sampler for a space; see `Uniform`.

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
    """Round a continuous value to a position from 0 to `count` - 1."""
    return min(max(math.floor(value + 0.5), 0), count - 1)
