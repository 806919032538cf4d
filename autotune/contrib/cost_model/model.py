"""A sampler that learns a cost model: of many drafts, that with the largest expected improvement a second is tried.

The model is a Gaussian process over what a family knows of a config: footprints against caches, loads an FMA, leftovers
(`gaussian_process`). It learns what is wrong with what was believed beforehand: that recorded spaces of other
tasks are right, or the family's arithmetic, or neither; what is measured says whom to trust. Another process says what
a trial costs: a config is worth the improvement that may be expected of it (Jones, Schonlau and Welch, Efficient Global
Optimization, 1998) over the seconds that compiling, verifying and measuring it should take.
"""

import random
from collections.abc import Sequence

import numpy as np
import scipy

from autotune.contrib.cost_model.gaussian_process import Numbers, Process
from autotune.core.trial import Reason
from autotune.tuning.samplers.sampler import DELAY, FAILED_SECONDS, Index, PriorTrial, SpaceView

STARTUP = 2  # random configs before anything is modelled, where there is no prior
POOL, MOST_DRAFTS = 256, 400  # drafts; of more than most, those with the largest expected improvement stay
FIRST, FRESH = 2000, 32  # combinations drawn for them, at first and for every proposal; most break a constraint
PARENTS = 4  # best configs whose neighbours are drafted
POWER = 3.0  # of a rate, of which `regret` is a share
FAILED = 1.2  # regret where there is no time
MOST_REGRET = 0.999  # that is recorded as a time
MOST_TRIALS = 300  # learnt from: the best and the latest
REWEIGHED = 1.1  # times as many trials as when weights were learnt last: they are learnt again
CHANCES = ((1.0,), (0.8, 0.2), (0.6, 0.3, 0.1))  # that each prior is right, by how many there are
LEAST_CHANCE = 0.01  # that a config works
LEAST_COST = 0.02  # seconds of a trial: looking one up takes hardly any


class CostModel:
    """Learns from features of configs. See `Sampler` for what its methods are called with."""

    def __init__(self, view: SpaceView, seed: int) -> None:
        """Sample a space.

        Args:
            view: View of the space.
            seed: Seed of every random choice.
        """
        self.view = view
        self.random = random.Random(f"model {seed}")
        self.seconds: dict[Index, float] = {}
        self.costs: dict[Index, float] = {}
        self.pool: dict[Index, None] = {}  # in the order they were drafted
        self.draws = FIRST
        self.under_way: Sequence[Index] = ()
        self.reason = Reason("a random draw")
        self.before = learnt(view.names, view.transfer)
        self.delay_column = view.names.index(DELAY) if DELAY in view.names else None
        self.least: float | None = None  # of what arithmetic says of the first drafts
        self.believed: dict[Index, Numbers] = {}
        # of priors, likeliest first
        self.order = np.arange(1 + (self.delay_column is not None) + (self.before is not None))
        self.theta: Numbers | None = None
        self.weighed = 0.0  # trials that weights were learnt from
        self.failing: Numbers | None = None  # weights by which failures are recognised

    def propose(self, under_way: Sequence[Index] = ()) -> Index:
        """The draft with the largest expected improvement; a random one at first, where there is no prior."""
        self.under_way = under_way
        self.draft()
        drafts = list(self.pool)
        self.reason = Reason("a random draw", drafted=len(drafts))
        if not drafts:
            return tuple(self.random.randrange(count) for count in self.view.counts)
        if len(self.order) == 1 and len(self.seconds) < STARTUP:
            return self.random.choice(drafts)
        expected, unsure = self.expect(drafts)
        promise = self.promise(drafts, expected, unsure)
        chosen = int(np.argmax(promise))
        if len(drafts) > MOST_DRAFTS:
            self.pool = dict.fromkeys(drafts[position] for position in sorted(np.argsort(-promise)[:POOL].tolist()))
        self.reason = self.reason_for(float(expected[chosen]), float(unsure[chosen]), len(drafts))
        return drafts[chosen]

    def settle(self, index: Index | None) -> None:
        """Draft it no more."""
        if index is not None:
            self.pool.pop(index, None)

    def learn(self, index: Index, seconds: float, cost: float = 0.0) -> None:
        """Remember a config."""
        self.seconds[index] = seconds
        if cost > 0:
            self.costs[index] = max(cost, LEAST_COST)
        self.pool.pop(index, None)

    def draft(self) -> None:
        """Fill the pool: random configs, and neighbours of the best."""
        draws, self.draws = self.draws, FRESH
        for _ in range(draws):
            self.add(tuple(self.random.randrange(count) for count in self.view.counts))
            if len(self.pool) >= POOL:
                break
        for parent in sorted(self.seconds, key=self.seconds.__getitem__)[:PARENTS]:
            for index, count in enumerate(self.view.counts):
                for value in range(count):
                    self.add((*parent[:index], value, *parent[index + 1 :]))

    def add(self, index: Index) -> None:
        """Draft a config, unless it breaks a constraint or is known."""
        if index not in self.seconds and index not in self.pool and self.view.is_open(index):
            self.pool[index] = None

    def promise(self, drafts: Sequence[Index], expected: Numbers, unsure: Numbers) -> Numbers:
        """Logarithms of the improvement that may be expected of configs, a second that trying them should take.

        By the chance that they work at all (Gelbart, Snoek and Adams, Bayesian Optimization with Unknown Constraints,
        UAI 2014).
        """
        gain = np.log(unsure) + log_improvement(-expected / unsure)
        return gain + np.log(self.working(drafts)) - self.log_cost(drafts)

    def working(self, drafts: Sequence[Index]) -> Numbers:
        """Chances that configs do not fail, by those that did; ones before any did."""
        seen = self.remembered()
        failed = np.array([self.seconds[index] >= FAILED_SECONDS for index in seen], dtype=np.float64)
        if not failed.any() or failed.all():
            return np.ones(len(drafts))
        rows = self.features(drafts)
        process = Process.of(self.features(seen), failed, rows, theta=self.failing)
        self.failing = process.theta
        return np.clip(1 - process.expect(rows)[0][:, 0], LEAST_CHANCE, 1.0)

    def expect(self, drafts: Sequence[Index]) -> tuple[Numbers, Numbers]:
        """What configs should lose, and the standard deviation of that.

        What is under way counts as if it had turned out as others did on average (the constant liar of Ginsbourger et
        al., Kriging Is Well-Suited to Parallelize Optimization, 2010): nothing is to be learnt beside it.
        """
        beliefs, chances = self.beliefs(drafts)[:, self.order], np.array(CHANCES[len(self.order) - 1])[self.order]
        right = [seconds for seconds in self.seconds.values() if seconds < FAILED_SECONDS]
        if not right:
            return beliefs @ chances, np.ones(len(drafts))
        seen, rows = self.remembered(), self.features(drafts)
        times = np.array([self.seconds[index] for index in seen])
        found = np.where(times < FAILED_SECONDS, regret(np.log(times / min(right))), FAILED)
        wanted = found[:, None] - self.beliefs(seen)[:, self.order]
        lies = np.repeat(wanted.mean(axis=0)[None], len(self.under_way), axis=0)
        both = self.features([*seen, *self.under_way])
        weighing = len(seen) >= REWEIGHED * self.weighed
        process = Process.of(both, np.concatenate([wanted, lies]), rows, theta=self.theta, is_weighing=weighing)
        self.theta, self.weighed = process.theta, len(seen) if weighing else self.weighed
        error, unsure = process.expect(rows)
        likely = process.evidence + np.log(chances)
        shares = np.exp(likely - likely.max())
        shares /= shares.sum()
        means = beliefs + error
        mean = means @ shares
        self.order = self.order[np.argsort(-shares, kind="stable")]
        return mean, np.sqrt((unsure**2 + (means - mean[:, None]) ** 2) @ shares)

    def remembered(self) -> list[Index]:
        """Configs that are learnt from."""
        ranked = sorted(self.seconds, key=self.seconds.__getitem__)
        kept = {*list(self.seconds)[-MOST_TRIALS // 2 :], *ranked[: MOST_TRIALS // 2]}
        return [index for index in self.seconds if index in kept]

    def log_cost(self, drafts: Sequence[Index]) -> Numbers:
        """Logarithms of the seconds that trials should take; zeros before any cost is known."""
        if not self.costs:
            return np.zeros(len(drafts))
        seen, rows = list(self.costs)[-MOST_TRIALS:], self.features(drafts)
        wanted = np.log([self.costs[index] for index in seen])
        return Process.of(self.features(seen), wanted, rows, is_weighing=False).expect(rows)[0][:, 0]

    def features(self, indices: Sequence[Index]) -> Numbers:
        """Features of configs, a row each."""
        return np.array([self.view.describe(index) for index in indices])

    def beliefs(self, indices: Sequence[Index]) -> Numbers:
        """Regret of configs that is expected before anything was measured of this task: a column for each prior.

        Recorded spaces, which say what arithmetic gets wrong; arithmetic; and that there is nothing to tell them apart.
        """
        if new := [index for index in indices if index not in self.believed]:
            rows = self.features(new)
            columns = [np.zeros(len(new))]
            plain = self.by_arithmetic(rows)
            if self.delay_column is not None:
                columns.insert(0, plain)
            if self.before is not None:
                columns.insert(0, plain + self.before.expect(rows)[0][:, 0])
            self.believed |= zip(new, np.array(columns).T, strict=True)
        return np.array([self.believed[index] for index in indices])

    def by_arithmetic(self, rows: Numbers) -> Numbers:
        """What the family's arithmetic lets expect of rows of features; zeros where it says nothing."""
        if self.delay_column is None:
            return np.zeros(len(rows))
        if self.least is None:
            self.least = float(rows[:, self.delay_column].min())
        return lost_by_delay(rows[:, self.delay_column] - self.least)

    def reason_for(self, expected: float, unsure: float, drafted: int) -> Reason:
        """Why a draft was chosen, in seconds a call; without a time to compare with there are none."""
        best = min(self.seconds.values(), default=FAILED_SECONDS)
        if best >= FAILED_SECONDS:
            return Reason("the cost model", drafted=drafted)
        shares = np.minimum([expected, expected - unsure, expected + unsure], MOST_REGRET)
        middle, low, high = (best * np.exp(-np.log(1 - shares) / POWER)).tolist()
        return Reason("the cost model", middle, low, high, drafted)


def regret(excess: Numbers) -> Numbers:
    """Regret: share of the best's rate, to the power of `POWER`, by logarithms of times over the best's.

    Times near the best are distinguished, and all far from it are alike.
    """
    return np.asarray(1 - np.exp(-POWER * excess), dtype=np.float64)


def lost_by_delay(delay: Numbers) -> Numbers:
    """Regret by binary logarithms of times over the least, as the analytical model has them."""
    return regret(np.log(2) * np.maximum(delay, 0.0))


def log_improvement(far: Numbers) -> Numbers:
    """Logarithm of the expected improvement on what a normal variable is so many standard deviations better than.

    Far below, where the difference of two small numbers is none, by its asymptote.
    """
    density = np.exp(-0.5 * far**2) / np.sqrt(2 * np.pi)
    near = np.log(np.maximum(density + far * scipy.special.ndtr(far), 1e-300))
    below = -0.5 * far**2 - 0.5 * np.log(2 * np.pi) - 2 * np.log(np.maximum(-far, 1.0))
    return np.asarray(np.where(far > -5, near, below), dtype=np.float64)


def learnt(names: Sequence[str], transfer: Sequence[PriorTrial]) -> Process | None:
    """A Gaussian process of the analytical model's error on transfer data; `None` without any."""
    if not transfer:
        return None
    rows = np.array([[prior.features.get(name, 0.0) for name in names] for prior in transfer])
    excess = np.array([prior.excess for prior in transfer])
    wanted = np.where(np.isfinite(excess), regret(excess), FAILED)
    if DELAY in names:
        wanted = wanted - lost_by_delay(rows[:, names.index(DELAY)] - [prior.least for prior in transfer])
    return Process.of(rows, wanted)
