"""A sampler that learns a cost model: many configs are drafted, and the one that promises most is tried.

The model is a Gaussian process (Rasmussen and Williams, 2006) over what a family knows of a config: footprints against
caches, loads an FMA, leftovers. It says how slow a config should be, and how sure that is: the draft that would be the
fastest if luck had it is tried (lower confidence bound; Srinivas et al., ICML 2010). What was measured of other tasks
makes a process of its own, of which this one learns the error.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy  # scipy.linalg takes memory to load, and is when it is first used

from autotune.core.room import check_room
from autotune.tuning.sampler import FAILED_SECONDS, Index, Lesson, Terrain

STARTUP = 4  # random configs before anything is modelled, without lessons
POOL = 256  # drafts
FIRST, FRESH = 2000, 32  # combinations drawn for them, at first and for every proposal; most break a law
PARENTS = 4  # best configs whose neighbours are drafted
OPTIMISM = 2.0  # standard deviations below what is expected
CLIP = 1.5  # logarithm of a time over the best, beyond which all is equally bad
FAILED = 2 * CLIP  # what counts as that where there is no time
LENGTHS = (0.5, 1.0, 2.0, 4.0)  # of the kernel, in root mean squares of a feature's spread
NOISES = (1e-3, 3e-2)  # variances, of times as far as they vary
MOST_TRIALS = 300  # learnt from: the best and the latest

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Process:
    """A Gaussian process that has seen some rows.

    Attributes:
        rows: Rows that were seen, scaled, ``(n, d)``.
        mean: Mean of every feature, ``(d,)``.
        scale: What every feature is multiplied with, ``(d,)``; 0 for one that never changed.
        length: Length scale of the kernel.
        factor: Lower Cholesky factor of the kernel of the rows, ``(n, n)``.
        weights: Kernel's inverse times the wanted numbers, ``(n,)``.
        level: Mean of the wanted numbers.
        spread: Standard deviation of the wanted numbers.
    """

    rows: Numbers
    mean: Numbers
    scale: Numbers
    length: float
    factor: Numbers
    weights: Numbers
    level: float
    spread: float

    @classmethod
    def of(cls, features: Numbers, wanted: Numbers, others: Numbers | None = None) -> "Process":
        """The likeliest process of those with `LENGTHS` and `NOISES`.

        Args:
            features: A row for everything that was measured, ``(n, d)``.
            wanted: What it should say of each, ``(n,)``.
            others: Rows besides that features are scaled by, ``(m, d)``.
        """
        flat = squashed(features)
        spread_of = flat if others is None else np.vstack([flat, squashed(others)])
        mean, deviation = spread_of.mean(axis=0), spread_of.std(axis=0)
        varies = deviation > 1e-9
        scale = np.where(varies, 1 / np.where(varies, deviation, 1.0), 0.0) / np.sqrt(max(1, int(varies.sum())))
        rows = (flat - mean) * scale
        level, spread = float(wanted.mean()), float(wanted.std()) + 1e-6
        target, apart = (wanted - level) / spread, distances(rows, rows)
        found: list[tuple[float, float, Numbers, Numbers]] = []
        check_room()
        for length in LENGTHS:
            kernel = matern(apart, length)
            for noise in NOISES:
                factor = scipy.linalg.cholesky(kernel + noise * np.eye(len(rows)), lower=True)
                weights = scipy.linalg.cho_solve((factor, True), target)
                likelihood = -0.5 * float(target @ weights) - float(np.log(np.diag(factor)).sum())
                found.append((likelihood, length, factor, weights))
        _, length, factor, weights = max(found, key=lambda each: each[0])
        return cls(rows, mean, scale, length, factor, weights, level, spread)

    def expect(self, features: Numbers) -> tuple[Numbers, Numbers]:
        """What it says of rows ``(m, d)``, and the standard deviation of that, ``(m,)`` each."""
        beside = matern(distances((squashed(features) - self.mean) * self.scale, self.rows), self.length)
        known = scipy.linalg.cho_solve((self.factor, True), beside.T)
        unsure = np.sqrt(np.maximum(1 - np.einsum("mn,nm->m", beside, known), 1e-12))
        return self.level + self.spread * (beside @ self.weights), self.spread * unsure


def squashed(features: Numbers) -> Numbers:
    """Features with their sizes as logarithms: tiles of 256 and 512 are as far apart as those of 2 and 4."""
    return np.asarray(np.sign(features) * np.log1p(np.abs(features)), dtype=np.float64)


def distances(a: Numbers, b: Numbers) -> Numbers:
    """Euclidean distances of rows, ``(len(a), len(b))``."""
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2 * a @ b.T
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)), dtype=np.float64)


def matern(apart: Numbers, length: float) -> Numbers:
    """Matern's kernel of order 3/2: once differentiable, as times over tile sizes are at best."""
    scaled = np.sqrt(3.0) / length * apart
    return np.asarray((1 + scaled) * np.exp(-scaled), dtype=np.float64)


class CostModel:
    """Learns from features of configs. See `Sampler` for what its methods are called with."""

    def __init__(self, terrain: Terrain, seed: int) -> None:
        """Sample a space.

        Args:
            terrain: The space.
            seed: Seed of every random choice.
        """
        self.terrain = terrain
        self.random = random.Random(f"model {seed}")
        self.told: dict[Index, float] = {}
        self.pool: dict[Index, None] = {}  # in the order they were drafted
        self.before = learnt(terrain.names, terrain.lessons)
        self.draws = FIRST
        self.prior: dict[Index, float] = {}  # what lessons let expect
        self.under_way: Sequence[Index] = ()

    def propose(self, under_way: Sequence[Index] = ()) -> Index:
        """The draft that promises most; a random one at first."""
        self.under_way = under_way
        self.draft()
        drafts = list(self.pool)
        if not drafts:
            return tuple(self.random.randrange(count) for count in self.terrain.counts)
        if self.before is None and len(self.told) < STARTUP:
            return self.random.choice(drafts)
        return drafts[int(np.argmin(self.promise(drafts)))]

    def settle(self, index: Index | None) -> None:
        """Draft it no more."""
        if index is not None:
            self.pool.pop(index, None)

    def learn(self, index: Index, seconds: float) -> None:
        """Remember a config."""
        self.told[index] = seconds
        self.pool.pop(index, None)

    def draft(self) -> None:
        """Fill the pool: random configs, and neighbours of the best."""
        draws, self.draws = self.draws, FRESH
        for _ in range(draws):
            self.add(tuple(self.random.randrange(count) for count in self.terrain.counts))
            if len(self.pool) >= POOL:
                break
        for parent in sorted(self.told, key=self.told.__getitem__)[:PARENTS]:
            for place, count in enumerate(self.terrain.counts):
                for value in range(count):
                    self.add((*parent[:place], value, *parent[place + 1 :]))

    def add(self, index: Index) -> None:
        """Draft a config, unless it breaks a law or is known."""
        if index not in self.told and index not in self.pool and self.terrain.is_open(index):
            self.pool[index] = None

    def promise(self, drafts: Sequence[Index]) -> Numbers:
        """How slow configs would be with luck: logarithms of a time over the best so far, the lower the better.

        What is under way counts as if it had turned out as others did on average (the constant liar of Ginsbourger et
        al., Kriging Is Well-Suited to Parallelize Optimization, 2010): nothing is to be learnt beside it.
        """
        expected = self.expected(drafts)
        right = [seconds for seconds in self.told.values() if seconds < FAILED_SECONDS]
        if not right:
            return expected
        latest = list(self.told)[-MOST_TRIALS // 2 :]
        kept = {*latest, *sorted(self.told, key=self.told.__getitem__)[: MOST_TRIALS // 2]}
        seen = [index for index in self.told if index in kept]
        times = np.array([self.told[index] for index in seen])
        excess = np.where(times < FAILED_SECONDS, np.minimum(np.log(times / min(right)), CLIP), FAILED)
        wanted = excess - self.expected(seen)
        rows = self.features(drafts)
        lies = np.full(len(self.under_way), wanted.mean())
        seen_rows = self.features([*seen, *self.under_way])
        error, unsure = Process.of(seen_rows, np.concatenate([wanted, lies]), rows).expect(rows)
        return expected + error - OPTIMISM * unsure

    def features(self, indices: Sequence[Index]) -> Numbers:
        """Features of configs, a row each."""
        return np.array([self.terrain.describe(index) for index in indices])

    def expected(self, indices: Sequence[Index]) -> Numbers:
        """What lessons let expect of configs; zeros without any."""
        if self.before is None:
            return np.zeros(len(indices))
        if new := [index for index in indices if index not in self.prior]:
            self.prior |= zip(new, map(float, self.before.expect(self.features(new))[0]), strict=True)
        return np.array([self.prior[index] for index in indices])


def learnt(names: Sequence[str], lessons: Sequence[Lesson]) -> Process | None:
    """A process of lessons; `None` without any."""
    if not lessons:
        return None
    rows = np.array([[lesson.features.get(name, 0.0) for name in names] for lesson in lessons])
    return Process.of(rows, np.array([min(lesson.excess, CLIP) for lesson in lessons]))
