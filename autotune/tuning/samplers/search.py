"""Ask and tell over an Optuna sampler, on a study in memory: which config to try next.

Optuna has no hard constraints and repeats itself, so a proposal that is not new or not valid is moved to a config
near by that is, by a random walk over its knobs; what is measured there is what the sampler learns. How samplers do on
recorded spaces: `results/samplers.py`, docs/results.md.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import cast

from autotune.core.errors import SpaceError
from autotune.core.printable import did_you_mean
from autotune.core.space import Config, Space, Value
from autotune.core.trial import Reason
from autotune.registry import SAMPLERS, SPACES, TRANSFER, complain, load_point, loaded_points, registered
from autotune.tuning.samplers.features import Features, feature_names, is_ordered, knob_features
from autotune.tuning.samplers.named_samplers import HUB, ask_by_name, class_of, is_named, is_optunas
from autotune.tuning.samplers.objectives import AskingBoth
from autotune.tuning.samplers.optuna_adapter import CmaEs
from autotune.tuning.samplers.sampler import (
    DELAY,
    FAILED_SECONDS,
    Index,
    PriorTrial,
    Sampler,
    SamplerKind,
    SpaceView,
    Tpe,
    TransferData,
    Uniform,
)

DEFAULT = "auto"  # a feature's, else TPE: docs/decisions/tuning.md
TPE = SamplerKind(lambda view, seed: Tpe(view.counts, seed), "TPE")
OWN = {
    DEFAULT: TPE,
    "tpe": TPE,
    "random": SamplerKind(lambda view, seed: Uniform(view.counts, seed), "random draws"),
    "cmaes": SamplerKind(lambda view, seed: CmaEs(view.counts, seed), "CMA-ES"),
}


@cache
def learning() -> dict[str, SamplerKind]:
    """Samplers that learn from trials, by name: ours, and those of features, which may be the default."""
    return OWN | {point.name: kind for point, kind in loaded_points(SAMPLERS, SamplerKind, complain)}


def samplers() -> tuple[str, ...]:
    """Names of all samplers but Optuna's."""
    return (*learning(), "grid")


def takes_transfer(name: str) -> bool:
    """Whether a sampler learns from recorded spaces."""
    return name in learning() and learning()[name].takes_transfer


def transfer_from(folders: Sequence[Path], sampler: str) -> TransferData | None:
    """Transfer data for a sampler, from recorded spaces in folders; `None` where it uses none."""
    points = registered(TRANSFER)
    if not takes_transfer(sampler) or SPACES not in points:
        return None
    return cast(Callable[[Sequence[Path]], TransferData | None], load_point(points[SPACES]))(folders)


def check_sampler(name: str) -> None:
    """Raise unless there is such a sampler.

    Raises:
        SpaceError: The name is none of `samplers`, and of no sampler that works with a seed alone.
        MachineError: A package of OptunaHub is missing, or cannot be fetched.
    """
    if name.startswith(HUB):
        class_of(name.removeprefix(HUB))
    elif name not in samplers() and not is_optunas(name):
        raise SpaceError(
            f"sampler must be one of {', '.join(samplers())}; got {name!r:.100}; "
            f"{did_you_mean(name, samplers()) or 'one of Optuna goes by its name: GPSampler'}"
        )


def open_sampler(name: str, view: SpaceView, seed: int) -> Sampler | None:
    """A sampler by its name; `None` for ``grid``, which only enumerates.

    Raises:
        MachineError: A package is missing that it needs.
    """
    if name in learning():
        return learning()[name].open(view, seed)
    return ask_by_name(name, view.counts, seed) if is_named(name) else None


BY_DEFAULT, BY_RECORD = "the default config", "a recorded config"
# Neighbours tried for one proposal, a knob further away every ten.
WALKS = 100
# Up to this many combinations, what the sampler no longer finds is enumerated; beyond, drawn at random so often.
MOST_ENUMERATED = 200_000
DRAWS = 20_000


class Search:
    """One search of one space. The same seed and the same tells give the same asks.

    Attributes:
        rejected: Proposals that were turned down, by reason: ``duplicate``, ``constraint``.
        reason: Why the last config was asked for.
        transfer: Number of configs of other tasks that the sampler learned from beforehand.
        is_reckoned: Whether the family's arithmetic tells the sampler something beforehand.
    """

    def __init__(
        self,
        space: Space,
        default: Config,
        *,
        sampler: str = "tpe",
        seed: int = 0,
        starts: Sequence[Config] = (),
        features: Features = knob_features,
        transfer: Sequence[PriorTrial] = (),
        has_joules: bool = False,
    ) -> None:
        """Start a search that asks for `starts` first, then for `default`.

        Args:
            space: Knobs and constraints.
            default: A valid config.
            sampler: One of `samplers`, or the name of one of Optuna's, or of OptunaHub's.
            seed: Seed of every random choice.
            starts: Valid configs that are known to be good elsewhere, the most promising first.
            features: Gives the features of a config, for samplers that model.
            transfer: Configs that were measured before, of other tasks of the same family.
            has_joules: Whether it minimises joules besides seconds.

        Raises:
            SpaceError: The sampler is unknown, or one of those configs is not a valid config.
            MachineError: The sampler's package is missing.
        """
        check_sampler(sampler)
        for config in (default, *starts):
            space.check(config)
            if broken := space.broken_constraint(config):
                raise SpaceError(f"default config must satisfy: {broken}; got {dict(config)}; choose another default")
        self.rejected = {"duplicate": 0, "constraint": 0}
        self._space = space
        self._features = features
        self._names = feature_names(space, features, default)
        self._described: dict[Index, tuple[float, ...]] = {}
        self._first = [self._index(config) for config in (*starts, default)]
        self.reason = Reason(BY_DEFAULT)
        self.transfer, self.is_reckoned = len(transfer), takes_transfer(sampler) and DELAY in self._names
        self._random = random.Random(seed)
        self._seen: set[Index] = set()
        self._valid: dict[Index, bool] = {}  # what the constraints said of every config they were asked about
        self._moves = [(i, len(k.values), is_ordered(k)) for i, k in enumerate(space.knobs) if len(k.values) > 1]
        counts = tuple(len(knob.values) for knob in space.knobs)
        view = SpaceView(counts, self._is_open, self._names, self._describe, transfer)
        self.sampler_name = sampler
        self._sampler = AskingBoth(counts, sampler, seed) if has_joules else open_sampler(sampler, view, seed)
        self._rest = self._enumerate()
        self._exhausted = False

    def ask(self, under_way: Sequence[Config] = ()) -> dict[str, Value] | None:
        """The next config, never proposed or recorded before; `None` when there is none left.

        Args:
            under_way: Configs under evaluation: configs far from them are preferred.
        """
        for position, index in enumerate(self._first):
            if index not in self._seen:
                self.reason = Reason(BY_DEFAULT if position == len(self._first) - 1 else BY_RECORD)
                return self._give(index)
        if self._exhausted:
            return None
        found, before = None, dict(self.rejected)
        if self._sampler is not None:
            found = self._nearest(self._settle(self._sampler.propose([self._index(config) for config in under_way])))
            self._sampler.settle(found)
        reason = getattr(self._sampler, "reason", None) or Reason(f"the sampler {self.sampler_name}")
        if found is None:
            found, reason = next(self._rest, None), Reason("one of those that are left")
        refused = {why: count - before[why] for why, count in self.rejected.items() if count > before[why]}
        self.reason = replace(reason, refused=refused)
        self._exhausted = found is None
        return self._give(found) if found is not None else None

    def tell(self, config: Config, seconds: float | None, cost: float = 0.0, joules: float | None = None) -> None:
        """Teach the sampler the outcome of a config, also one it never proposed, as when a search is resumed.

        Args:
            config: Value of every knob.
            seconds: Seconds a call; `None` if it failed, which counts as slower than anything measured.
            cost: Seconds that the trial took; 0 if that is not known.
            joules: Energy of a call; `None` where it is not known.

        Raises:
            SpaceError: The config is not one of the space.
        """
        self._space.check(config)
        index = self._index(config)
        self._seen.add(index)
        if isinstance(self._sampler, AskingBoth) and seconds is not None and joules is not None:
            self._sampler.learn_both(index, seconds, joules)
        elif self._sampler is not None:
            value = seconds if seconds is not None and math.isfinite(seconds) else FAILED_SECONDS
            self._sampler.learn(index, value, cost)

    def _nearest(self, wanted: Index) -> Index | None:
        """The first new and valid config on random walks of growing length from `wanted`."""
        reason = self._reason(wanted)
        if reason is None:
            return wanted
        self.rejected[reason] += 1
        for walk in range(WALKS if self._moves else 0):
            index = list(wanted)
            for _ in range(1 + walk // 10):
                self._step(index)
            if self._reason(settled := self._settle(tuple(index))) is None:
                return settled
        return None

    def _settle(self, index: Index) -> Index:
        """The config that is the same program, with knobs that do not count as they always are there."""
        return self._index(self._space.settled(self._config(index))) if self._space.conditions else index

    def _step(self, index: list[int]) -> None:
        """Move one knob: an ordered one to the next value up or down, another one anywhere."""
        draw = self._random.random  # the fastest of its methods
        position, count, ordered = self._moves[int(draw() * len(self._moves))]
        if ordered:
            index[position] = min(max(index[position] + (1 if draw() < 0.5 else -1), 0), count - 1)
        else:
            index[position] = int(draw() * count)

    def _enumerate(self) -> Iterator[Index]:
        """Every config that is new and valid, in random order; of a huge space, random ones."""
        size = self._space.size
        small = size <= MOST_ENUMERATED
        numbers = self._random.sample(range(size), size) if small else iter(self._draws(size))
        for number in numbers:
            index = self._settle(self._unravel(number))
            reason = self._reason(index)
            if reason is None:
                yield index
            elif self._sampler is None:
                self.rejected[reason] += 1

    def _draws(self, size: int) -> Iterator[int]:
        """Random numbers below `size`, until so many in a row led to nothing new."""
        fruitless, before = 0, -1
        while fruitless < DRAWS:
            fruitless = fruitless + 1 if len(self._seen) == before else 0
            before = len(self._seen)
            yield self._random.randrange(size)

    def _reason(self, index: Index) -> str | None:
        """Why a config must not be asked for; `None` if it may."""
        if index in self._seen:
            return "duplicate"
        valid = self._valid.get(index)
        if valid is None:
            valid = self._valid[index] = self._space.broken_constraint(self._config(index)) is None
        return None if valid else "constraint"

    def _is_open(self, index: Index) -> bool:
        """Whether a config is settled, valid and new."""
        return self._reason(index) is None and self._settle(index) == index

    def _describe(self, index: Index) -> tuple[float, ...]:
        """Features of a config, in the order of their names."""
        if index not in self._described:
            found = self._features(self._config(index))
            self._described[index] = tuple(found.get(name, 0.0) for name in self._names)
        return self._described[index]

    def _give(self, index: Index) -> dict[str, Value]:
        self._seen.add(index)
        return self._config(index)

    def _config(self, index: Index) -> dict[str, Value]:
        return {knob.name: knob.values[i] for knob, i in zip(self._space.knobs, index, strict=True)}

    def _index(self, config: Config) -> Index:
        return tuple(knob.values.index(config[knob.name]) for knob in self._space.knobs)

    def _unravel(self, number: int) -> Index:
        """The config at a position in the enumeration of all combinations, last knob fastest."""
        index = []
        for knob in reversed(self._space.knobs):
            number, i = divmod(number, len(knob.values))
            index.append(i)
        return tuple(reversed(index))
