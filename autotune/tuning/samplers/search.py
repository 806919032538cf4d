"""`Search`: ask-and-tell search of a space with hard constraints, over a sampler such as those of Optuna.

Optuna has no hard constraints and may repeat proposals, so a duplicate or invalid proposal is replaced by a new and
valid config close to it, found by a random walk over the knobs; the sampler is told the result of that config. For the
performance of samplers on recorded spaces see `results/samplers.py` and docs/results.md.
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

DEFAULT = "auto"  # the sampler of a plug-in, else TPE: docs/decisions/tuning.md
TPE = SamplerKind(lambda view, seed: Tpe(view.counts, seed), "TPE")
OWN = {
    DEFAULT: TPE,
    "tpe": TPE,
    "random": SamplerKind(lambda view, seed: Uniform(view.counts, seed), "random draws"),
    "cmaes": SamplerKind(lambda view, seed: CmaEs(view.counts, seed), "CMA-ES"),
}


@cache
def learning() -> dict[str, SamplerKind]:
    """Return the samplers that learn from trials, by name: built-in ones, and those of plug-ins."""
    return OWN | {point.name: kind for point, kind in loaded_points(SAMPLERS, SamplerKind, complain)}


def samplers() -> tuple[str, ...]:
    """Return the names of all samplers except those that are looked up in Optuna."""
    return (*learning(), "grid")


def takes_transfer(name: str) -> bool:
    """Return whether a sampler uses transfer data of recorded spaces."""
    return name in learning() and learning()[name].takes_transfer


def transfer_from(folders: Sequence[Path], sampler: str) -> TransferData | None:
    """Return the transfer data for a sampler, from recorded spaces in folders; `None` where it uses none."""
    points = registered(TRANSFER)
    if not takes_transfer(sampler) or SPACES not in points:
        return None
    return cast(Callable[[Sequence[Path]], TransferData | None], load_point(points[SPACES]))(folders)


def check_sampler(name: str) -> None:
    """Raise unless there is a sampler of a name.

    Raises:
        SpaceError: The name is neither in `samplers`, nor that of an Optuna sampler that requires at most a seed.
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
    """Return a sampler by its name; `None` for ``grid``, which only enumerates.

    Raises:
        MachineError: A required package is missing.
    """
    if name in learning():
        return learning()[name].open(view, seed)
    return ask_by_name(name, view.counts, seed) if is_named(name) else None


BY_DEFAULT, BY_RECORD = "the default config", "a recorded config"
# Random walks tried for one proposal; their length grows by one knob every ten.
WALKS = 100
# When the sampler finds no new config, spaces up to this size are enumerated; larger ones are sampled at random, until
# `DRAWS` draws in a row were not new.
MOST_ENUMERATED = 200_000
DRAWS = 20_000


class Search:
    """Search of one space. It is deterministic: the same seed and the same tells give the same asks.

    Attributes:
        rejected: Number of rejected proposals, by reason: ``duplicate``, ``constraint``.
        reason: Reason of the last config.
        transfer: Number of prior trials, of other tasks, that the sampler uses.
        is_reckoned: Whether the family's analytical model provides prior means.
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
            space: Search space.
            default: A valid config.
            sampler: One of `samplers`, or the name of a sampler of Optuna or OptunaHub.
            seed: Seed of every random choice.
            starts: Valid configs that were good for similar tasks, the most promising first.
            features: Function that returns the features of a config, for samplers with a model.
            transfer: Prior trials, of other tasks of the same family.
            has_joules: Whether joules are minimised in addition to seconds.

        Raises:
            SpaceError: The sampler is unknown, or one of those configs is invalid.
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
        self._valid: dict[Index, bool] = {}  # cached results of the constraints
        self._moves = [(i, len(k.values), is_ordered(k)) for i, k in enumerate(space.knobs) if len(k.values) > 1]
        counts = tuple(len(knob.values) for knob in space.knobs)
        view = SpaceView(counts, self._is_open, self._names, self._describe, transfer)
        self.sampler_name = sampler
        self._sampler = AskingBoth(counts, sampler, seed) if has_joules else open_sampler(sampler, view, seed)
        self._rest = self._enumerate()
        self._exhausted = False

    def ask(self, under_way: Sequence[Config] = ()) -> dict[str, Value] | None:
        """Return the next config, never proposed or recorded before; `None` when none is left.

        Args:
            under_way: Configs under evaluation, which samplers take into account.
        """
        for position, index in enumerate(self._first):
            if index not in self._seen:
                self.reason = Reason(BY_DEFAULT if position == len(self._first) - 1 else BY_RECORD)
                return self._give(index)
        if self._exhausted:
            return None
        proposal, before = None, dict(self.rejected)
        if self._sampler is not None:
            proposal = self._nearest(self._settle(self._sampler.propose([self._index(config) for config in under_way])))
            self._sampler.settle(proposal)
        reason = getattr(self._sampler, "reason", None) or Reason(f"the sampler {self.sampler_name}")
        if proposal is None:
            proposal, reason = next(self._rest, None), Reason("one of those that are left")
        refused = {why: count - before[why] for why, count in self.rejected.items() if count > before[why]}
        self.reason = replace(reason, refused=refused)
        self._exhausted = proposal is None
        return self._give(proposal) if proposal is not None else None

    def tell(self, config: Config, seconds: float | None, cost: float = 0.0, joules: float | None = None) -> None:
        """Tell the sampler the outcome of a config, proposed or not, as when a search is resumed.

        Args:
            config: Value of every knob.
            seconds: Seconds a call; `None` if it failed, which counts as slower than any measured time.
            cost: Duration of the trial in seconds; 0 if unknown.
            joules: Energy of a call; `None` if unknown.

        Raises:
            SpaceError: The config does not belong to the space.
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
        """Return the first new and valid config on random walks of growing length from `wanted`; else `None`."""
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
        """Return the canonical config of the same program, with inactive knobs at their fixed values."""
        return self._index(self._space.settled(self._config(index))) if self._space.conditions else index

    def _step(self, index: list[int]) -> None:
        """Change one random knob in place: an ordered one by one position, any other to a random value."""
        draw = self._random.random  # the fastest method of the generator
        position, count, ordered = self._moves[int(draw() * len(self._moves))]
        if ordered:
            index[position] = min(max(index[position] + (1 if draw() < 0.5 else -1), 0), count - 1)
        else:
            index[position] = int(draw() * count)

    def _enumerate(self) -> Iterator[Index]:
        """Yield the new and valid configs in random order; for a huge space, random ones."""
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
        """Yield random numbers below `size`, until `DRAWS` in a row led to no new config."""
        fruitless, before = 0, -1
        while fruitless < DRAWS:
            fruitless = fruitless + 1 if len(self._seen) == before else 0
            before = len(self._seen)
            yield self._random.randrange(size)

    def _reason(self, index: Index) -> str | None:
        """Return the reason why a config must not be proposed; `None` if it may."""
        if index in self._seen:
            return "duplicate"
        valid = self._valid.get(index)
        if valid is None:
            valid = self._valid[index] = self._space.broken_constraint(self._config(index)) is None
        return None if valid else "constraint"

    def _is_open(self, index: Index) -> bool:
        """Return whether a config is canonical, valid and new."""
        return self._reason(index) is None and self._settle(index) == index

    def _describe(self, index: Index) -> tuple[float, ...]:
        """Return the features of a config, in the order of their names."""
        if index not in self._described:
            features = self._features(self._config(index))
            self._described[index] = tuple(features.get(name, 0.0) for name in self._names)
        return self._described[index]

    def _give(self, index: Index) -> dict[str, Value]:
        self._seen.add(index)
        return self._config(index)

    def _config(self, index: Index) -> dict[str, Value]:
        return {knob.name: knob.values[i] for knob, i in zip(self._space.knobs, index, strict=True)}

    def _index(self, config: Config) -> Index:
        return tuple(knob.values.index(config[knob.name]) for knob in self._space.knobs)

    def _unravel(self, number: int) -> Index:
        """Return the config at a position in the enumeration of all combinations, last knob fastest."""
        index = []
        for knob in reversed(self._space.knobs):
            number, i = divmod(number, len(knob.values))
            index.append(i)
        return tuple(reversed(index))
