"""A Gaussian process over features of configs, which learns which of them matter (Rasmussen and Williams, 2006).

The kernel is Matern's of order 3/2 over distances in which every feature has a weight of its own; weights and noise are
the likeliest under a prior by which all features together count alike, however many there are (Hvarfner, Hellsten and
Nardi, Vanilla Bayesian Optimization Performs Great in High Dimensions, ICML 2024): few trials cannot tell more.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy  # its parts take memory to load, and are when they are first used

from autotune.core.host.scipy_memory import check_room

SPREAD_OF_WEIGHTS = 1.5  # standard deviation of the logarithm of a feature's weight
NOISE, SPREAD_OF_NOISE = 1e-2, 1.0  # variance over that of what is learnt, and standard deviation of its logarithm
USUAL, DOUBT = 0.2, 2.0  # standard deviation of what is learnt, before it is seen, and how many rows that is worth
LEAST_NOISE = 1e-9  # besides, so that equal rows can be solved for
STEPS = 12  # of the search for the likeliest weights
MOST_WEIGHED = 100  # rows that weights are learnt from
LOGARITHMS = (-12.0, 4.0)  # bounds of the logarithms of weights and noise

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Process:
    """Gaussian processes that have seen some rows, one for every column that they should say; one kernel for all.

    Attributes:
        rows: Rows that were seen, scaled, ``(n, d)``.
        mean: Mean of every feature, ``(d,)``.
        scale: Number that every feature is multiplied with, ``(d,)``; 0 for one that never changed.
        theta: Logarithms of the features' weights and of the noise, ``(d + 1,)``.
        factor: Lower Cholesky factor of the kernel of the rows, ``(n, n)``.
        target: Wanted numbers, standardized, ``(n, p)``.
        weights: Kernel's inverse times the target, ``(n, p)``.
        level: Means of the wanted numbers, ``(p,)``.
        spread: Standard deviations of the wanted numbers, ``(p,)``.
    """

    rows: Numbers
    mean: Numbers
    scale: Numbers
    theta: Numbers
    factor: Numbers
    target: Numbers
    weights: Numbers
    level: Numbers
    spread: Numbers

    @classmethod
    def of(
        cls,
        features: Numbers,
        wanted: Numbers,
        others: Numbers | None = None,
        *,
        theta: Numbers | None = None,
        is_weighing: bool = True,
    ) -> "Process":
        """The likeliest process.

        Args:
            features: Row for everything that was measured, ``(n, d)``.
            wanted: Numbers that it should say of each, ``(n,)`` or ``(n, p)``; the first column teaches weights.
            others: Rows besides that features are scaled by, ``(m, d)``.
            theta: Logarithms that the search for weights begins with: those of a process that saw less.
            is_weighing: Whether weights are learnt; else they stay as they are.
        """
        check_room()
        flat = squashed(features)
        both = flat if others is None else np.vstack([flat, squashed(others)])
        mean, deviation = both.mean(axis=0), both.std(axis=0)
        varies = deviation > 1e-9
        plain = np.where(varies, 1 / np.where(varies, deviation, 1.0), 0.0)
        rows = (flat - mean) * plain
        columns = wanted.reshape(len(rows), -1)
        level = columns.mean(axis=0)
        squares = ((columns - level) ** 2).sum(axis=0)
        spread = np.sqrt((squares + DOUBT * USUAL**2) / (len(rows) + DOUBT))
        target = (columns - level) / spread
        middle = usual(varies)
        theta = middle if theta is None else theta
        if is_weighing:
            some = np.unique(np.linspace(0, len(rows) - 1, MOST_WEIGHED).astype(int))
            theta = likeliest(rows[some], target[some, 0], middle, theta)
        scale = plain * np.exp(theta[:-1] / 2)
        rows = (flat - mean) * scale
        kernel = matern(distances(rows, rows)) + (np.exp(theta[-1]) + LEAST_NOISE) * np.eye(len(rows))
        factor = scipy.linalg.cholesky(kernel, lower=True)
        weights = scipy.linalg.cho_solve((factor, True), target)
        return cls(rows, mean, scale, theta, factor, target, weights, level, spread)

    def expect(self, features: Numbers) -> tuple[Numbers, Numbers]:
        """What it says of rows ``(m, d)``, and the standard deviations of that, ``(m, p)`` each."""
        beside = matern(distances((squashed(features) - self.mean) * self.scale, self.rows))
        known = scipy.linalg.solve_triangular(self.factor, beside.T, lower=True)
        unsure = np.sqrt(np.maximum(1 - (known**2).sum(axis=0), 1e-12))
        return self.level + self.spread * (beside @ self.weights), self.spread * unsure[:, None]

    @property
    def evidence(self) -> Numbers:
        """Logarithm of how likely each column is, but for what is the same for all, ``(p,)``; for any size of them."""
        doubts = (self.target * self.weights).sum(axis=0) * self.spread**2
        log_doubts = np.log(doubts + DOUBT * USUAL**2)
        return np.asarray(-0.5 * (len(self.rows) - 1 + DOUBT) * log_doubts, dtype=np.float64)

    @property
    def left_out(self) -> Numbers:
        """What it would predict of every row had it not seen that one, ``(n, p)``; weights are those of all."""
        inverse = scipy.linalg.cho_solve((self.factor, True), np.eye(len(self.rows)))
        predicted = self.target - self.weights / np.diag(inverse)[:, None]
        return np.asarray(self.level + self.spread * predicted, dtype=np.float64)

    @property
    def importance(self) -> Numbers:
        """Share of each feature in the distances between the rows, ``(d,)``; zeros where all are alike."""
        variances = self.rows.var(axis=0)
        total = variances.sum()
        return np.asarray(variances / total if total else variances, dtype=np.float64)


def usual(varies: npt.NDArray[np.bool_]) -> Numbers:
    """Logarithms before anything was seen: two rows are one apart, over all features that vary together."""
    return np.append(np.full(len(varies), -np.log(max(1, int(varies.sum())))), np.log(NOISE))


def likeliest(rows: Numbers, target: Numbers, middle: Numbers, start: Numbers) -> Numbers:
    """Logarithms of weights and noise with the highest posterior density, from somewhere.

    Args:
        rows: Standardized features, ``(n, d)``.
        target: Standardized numbers, ``(n,)``.
        middle: Mean of their prior, ``(d + 1,)``.
        start: Logarithms to begin with, ``(d + 1,)``.
    """
    if len(rows) < 3:
        return start
    used = np.flatnonzero(np.ptp(rows, axis=0) > 1e-9)
    squares = (rows[:, None, used] - rows[None, :, used]) ** 2
    which = np.append(used, len(middle) - 1)
    width = np.append(np.full(len(used), SPREAD_OF_WEIGHTS), SPREAD_OF_NOISE)

    def cost(theta: Numbers) -> tuple[float, Numbers]:
        """Negative logarithm of the posterior density, and its slopes."""
        weights, noise = np.exp(theta[:-1]), float(np.exp(theta[-1]))
        scaled = np.sqrt(3.0 * np.maximum(squares @ weights, 0.0))
        fading = np.exp(-scaled)
        kernel = (1 + scaled) * fading + (noise + LEAST_NOISE) * np.eye(len(target))
        factor = scipy.linalg.cholesky(kernel, lower=True)
        inverse = scipy.linalg.cho_solve((factor, True), np.eye(len(target)))
        alpha = inverse @ target
        away = (theta - middle[which]) / width
        value = 0.5 * float(target @ alpha) + float(np.log(np.diag(factor)).sum()) + 0.5 * float(away @ away)
        pull = inverse - np.outer(alpha, alpha)
        slopes = -0.75 * np.einsum("ij,ijk->k", pull * fading, squares) * weights
        return value, np.append(slopes, 0.5 * noise * np.trace(pull)) + away / width

    begin = np.clip(start[which], *LOGARITHMS)
    bounds = [LOGARITHMS] * len(which)
    found = scipy.optimize.minimize(cost, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS})
    theta = middle.copy()
    theta[which] = found.x
    return theta


def squashed(features: Numbers) -> Numbers:
    """Features with their sizes as logarithms: tiles of 256 and 512 are as far apart as those of 2 and 4."""
    return np.asarray(np.sign(features) * np.log1p(np.abs(features)), dtype=np.float64)


def distances(a: Numbers, b: Numbers) -> Numbers:
    """Euclidean distances of rows, ``(len(a), len(b))``."""
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2 * a @ b.T
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)), dtype=np.float64)


def matern(apart: Numbers) -> Numbers:
    """Matern's kernel of order 3/2: once differentiable, as times over tile sizes are at best."""
    scaled = np.sqrt(3.0) * apart
    return np.asarray((1 + scaled) * np.exp(-scaled), dtype=np.float64)
