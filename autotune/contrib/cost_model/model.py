"""Sampler with a learned cost model: proposes the candidate with the largest expected improvement a second.

The model is a Gaussian process over the features of a family (`gaussian_process`): footprints relative to caches, loads
per FMA, remainders. It models the error of a prior mean. Up to three priors, the transfer data of other tasks, the
family's analytical model, and a constant, are averaged by their posterior probabilities. A second process models the
cost of a trial. The acquisition value of a config is its expected improvement (Jones, Schonlau and Welch,
Efficient Global Optimization, 1998) over the predicted seconds to compile, verify and measure it.
"""

import random
from collections.abc import Sequence

import numpy as np
import scipy

from autotune.contrib.cost_model.gaussian_process import GaussianProcess, Numbers
from autotune.core.trial import Reason
from autotune.tuning.samplers.sampler import DELAY, FAILED_SECONDS, Index, PriorTrial, SpaceView

STARTUP = 2  # random configs before a model is fitted, where there is no prior
POOL, MOST_DRAFTS = 256, 400  # size of the candidate pool, and the size from which it is pruned by acquisition value
FIRST, FRESH = 2000, 32  # random draws for the pool, at first and for every proposal; most violate a constraint
PARENTS = 4  # best configs whose neighbours are candidates
POWER = 3.0  # exponent of the rate in `regret`
FAILED = 1.2  # regret of a failed config
MOST_REGRET = 0.999  # largest regret that is converted to a time
MOST_TRIALS = 300  # trials that are used: the best and the latest
REWEIGHED = 1.1  # growth of the number of trials after which the weights are fitted again
CHANCES = ((1.0,), (0.8, 0.2), (0.6, 0.3, 0.1))  # prior probabilities of the priors, by their number
LEAST_CHANCE = 0.01  # least probability that a config works
LEAST_COST = 0.02  # least seconds of a trial, since looking one up takes almost none


class CostModel:
    """Sampler with a Gaussian process as cost model; see `Sampler` for its methods."""

    def __init__(self, view: SpaceView, seed: int) -> None:
        """Initialize the sampler for a space.

        Args:
            view: View of the space.
            seed: Seed of every random choice.
        """
        self.view = view
        self.random = random.Random(f"model {seed}")
        self.seconds: dict[Index, float] = {}
        self.costs: dict[Index, float] = {}
        self.pool: dict[Index, None] = {}  # candidates, in the order they were added
        self.draws = FIRST
        self.under_way: Sequence[Index] = ()
        self.reason = Reason("a random draw")
        self.before = learnt(view.names, view.transfer)
        self.delay_column = view.names.index(DELAY) if DELAY in view.names else None
        self.least: float | None = None  # least delay of the analytical model among the first candidates
        self.known_means: dict[Index, Numbers] = {}
        # priors, the most probable first
        self.order = np.arange(1 + (self.delay_column is not None) + (self.before is not None))
        self.theta: Numbers | None = None
        self.weighed = 0.0  # number of trials at the last fit of the weights
        self.failing: Numbers | None = None  # weights of the process that predicts failures

    def propose(self, under_way: Sequence[Index] = ()) -> Index:
        """Return the candidate with the largest acquisition value; random ones at first, where there is no prior."""
        self.under_way = under_way
        self.draft()
        drafts = list(self.pool)
        self.reason = Reason("a random draw", drafted=len(drafts))
        if not drafts:
            return tuple(self.random.randrange(count) for count in self.view.counts)
        if len(self.order) == 1 and len(self.seconds) < STARTUP:
            return self.random.choice(drafts)
        expected, unsure = self.expect(drafts)
        acquisition = self.acquisition(drafts, expected, unsure)
        chosen = int(np.argmax(acquisition))
        if len(drafts) > MOST_DRAFTS:
            self.pool = dict.fromkeys(drafts[position] for position in sorted(np.argsort(-acquisition)[:POOL].tolist()))
        self.reason = self.reason_for(float(expected[chosen]), float(unsure[chosen]), len(drafts))
        return drafts[chosen]

    def settle(self, index: Index | None) -> None:
        """Remove the config that will be tried from the pool."""
        if index is not None:
            self.pool.pop(index, None)

    def learn(self, index: Index, seconds: float, cost: float = 0.0) -> None:
        """Record the time and cost of a config."""
        self.seconds[index] = seconds
        if cost > 0:
            self.costs[index] = max(cost, LEAST_COST)
        self.pool.pop(index, None)

    def draft(self) -> None:
        """Add candidates to the pool: random configs, and neighbours of the best ones."""
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
        """Add a config to the pool, unless it violates a constraint or is known."""
        if index not in self.seconds and index not in self.pool and self.view.is_open(index):
            self.pool[index] = None

    def acquisition(self, drafts: Sequence[Index], expected: Numbers, unsure: Numbers) -> Numbers:
        """Return the logarithms of the acquisition values: expected improvement a second of predicted cost.

        They are weighted by the probability that a config works (Gelbart, Snoek and Adams, Bayesian Optimization with
        Unknown Constraints, UAI 2014).
        """
        gain = np.log(unsure) + log_improvement(-expected / unsure)
        return gain + np.log(self.working(drafts)) - self.log_cost(drafts)

    def working(self, drafts: Sequence[Index]) -> Numbers:
        """Predict the probabilities that configs do not fail; ones before any did."""
        seen = self.remembered()
        failed = np.array([self.seconds[index] >= FAILED_SECONDS for index in seen], dtype=np.float64)
        if not failed.any() or failed.all():
            return np.ones(len(drafts))
        rows = self.features(drafts)
        process = GaussianProcess.of(self.features(seen), failed, rows, theta=self.failing)
        self.failing = process.theta
        return np.clip(1 - process.expect(rows)[0][:, 0], LEAST_CHANCE, 1.0)

    def expect(self, drafts: Sequence[Index]) -> tuple[Numbers, Numbers]:
        """Predict the regret of configs: means and standard deviations of the mixture over the priors.

        Configs under evaluation count with the mean error so far (the constant liar of Ginsbourger et al., Kriging Is
        Well-Suited to Parallelize Optimization, 2010), which reduces the uncertainty around them.
        """
        prior_means, chances = (
            self.prior_means(drafts)[:, self.order],
            np.array(CHANCES[len(self.order) - 1])[self.order],
        )
        right = [seconds for seconds in self.seconds.values() if seconds < FAILED_SECONDS]
        if not right:
            return prior_means @ chances, np.ones(len(drafts))
        seen, rows = self.remembered(), self.features(drafts)
        times = np.array([self.seconds[index] for index in seen])
        regrets = np.where(times < FAILED_SECONDS, regret(np.log(times / min(right))), FAILED)
        wanted = regrets[:, None] - self.prior_means(seen)[:, self.order]
        lies = np.repeat(wanted.mean(axis=0)[None], len(self.under_way), axis=0)
        both = self.features([*seen, *self.under_way])
        weighing = len(seen) >= REWEIGHED * self.weighed
        process = GaussianProcess.of(both, np.concatenate([wanted, lies]), rows, theta=self.theta, is_weighing=weighing)
        self.theta, self.weighed = process.theta, len(seen) if weighing else self.weighed
        error, unsure = process.expect(rows)
        likely = process.evidence + np.log(chances)
        shares = np.exp(likely - likely.max())
        shares /= shares.sum()
        means = prior_means + error
        mean = means @ shares
        self.order = self.order[np.argsort(-shares, kind="stable")]
        return mean, np.sqrt((unsure**2 + (means - mean[:, None]) ** 2) @ shares)

    def remembered(self) -> list[Index]:
        """Return the configs that the model is fitted to: the best and the latest."""
        ranked = sorted(self.seconds, key=self.seconds.__getitem__)
        selected = {*list(self.seconds)[-MOST_TRIALS // 2 :], *ranked[: MOST_TRIALS // 2]}
        return [index for index in self.seconds if index in selected]

    def log_cost(self, drafts: Sequence[Index]) -> Numbers:
        """Predict the logarithms of the trials' seconds; zeros before any cost is known."""
        if not self.costs:
            return np.zeros(len(drafts))
        seen, rows = list(self.costs)[-MOST_TRIALS:], self.features(drafts)
        wanted = np.log([self.costs[index] for index in seen])
        return GaussianProcess.of(self.features(seen), wanted, rows, is_weighing=False).expect(rows)[0][:, 0]

    def features(self, indices: Sequence[Index]) -> Numbers:
        """Features of configs, a row each."""
        return np.array([self.view.describe(index) for index in indices])

    def prior_means(self, indices: Sequence[Index]) -> Numbers:
        """Return the prior means of the regret of configs, with a column for each prior.

        The priors are the analytical model corrected by transfer data, the analytical model, and a constant.
        """
        if new := [index for index in indices if index not in self.known_means]:
            rows = self.features(new)
            columns = [np.zeros(len(new))]
            plain = self.by_arithmetic(rows)
            if self.delay_column is not None:
                columns.insert(0, plain)
            if self.before is not None:
                columns.insert(0, plain + self.before.expect(rows)[0][:, 0])
            self.known_means |= zip(new, np.array(columns).T, strict=True)
        return np.array([self.known_means[index] for index in indices])

    def by_arithmetic(self, rows: Numbers) -> Numbers:
        """Return the regrets that the family's analytical model predicts; zeros where there is none."""
        if self.delay_column is None:
            return np.zeros(len(rows))
        if self.least is None:
            self.least = float(rows[:, self.delay_column].min())
        return lost_by_delay(rows[:, self.delay_column] - self.least)

    def reason_for(self, expected: float, unsure: float, drafted: int) -> Reason:
        """Return the reason of a proposal, with the predicted seconds a call if a time has been measured."""
        best = min(self.seconds.values(), default=FAILED_SECONDS)
        if best >= FAILED_SECONDS:
            return Reason("the cost model", drafted=drafted)
        shares = np.minimum([expected, expected - unsure, expected + unsure], MOST_REGRET)
        middle, low, high = (best * np.exp(-np.log(1 - shares) / POWER)).tolist()
        return Reason("the cost model", middle, low, high, drafted)


def regret(excess: Numbers) -> Numbers:
    """Return the regret ``1 - (best / time) ** POWER`` from the natural logarithms of times over the best time.

    It resolves times close to the best one, and saturates at 1 for slow ones.
    """
    return np.asarray(1 - np.exp(-POWER * excess), dtype=np.float64)


def lost_by_delay(delay: Numbers) -> Numbers:
    """Return the regret from the binary logarithms of times over the least, the analytical model's delays."""
    return regret(np.log(2) * np.maximum(delay, 0.0))


def log_improvement(far: Numbers) -> Numbers:
    """Return ``log E[max(0, far + Z)]`` of a standard normal Z, the logarithm of a scaled expected improvement.

    Below -5 standard deviations the formula cancels numerically, and its asymptote is used.
    """
    density = np.exp(-0.5 * far**2) / np.sqrt(2 * np.pi)
    near = np.log(np.maximum(density + far * scipy.special.ndtr(far), 1e-300))
    below = -0.5 * far**2 - 0.5 * np.log(2 * np.pi) - 2 * np.log(np.maximum(-far, 1.0))
    return np.asarray(np.where(far > -5, near, below), dtype=np.float64)


def learnt(names: Sequence[str], transfer: Sequence[PriorTrial]) -> GaussianProcess | None:
    """Fit a Gaussian process to the analytical model's error on transfer data; return `None` without any."""
    if not transfer:
        return None
    rows = np.array([[prior.features.get(name, 0.0) for name in names] for prior in transfer])
    excess = np.array([prior.excess for prior in transfer])
    wanted = np.where(np.isfinite(excess), regret(excess), FAILED)
    if DELAY in names:
        wanted = wanted - lost_by_delay(rows[:, names.index(DELAY)] - [prior.least for prior in transfer])
    return GaussianProcess.of(rows, wanted)
