"""Gaussian process regression over features of configs, with automatic relevance determination.

The kernel is Matern's of order 3/2 with a length scale for every feature (Rasmussen and Williams, 2006). Length scales
and noise maximise the posterior under a prior that scales with the number of features (Hvarfner, Hellsten and Nardi,
Vanilla Bayesian Optimization Performs Great in High Dimensions, ICML 2024), as there are few trials.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy  # submodules are loaded on first use, since they take memory

from autotune.core.host.scipy_memory import check_room

SPREAD_OF_WEIGHTS = 1.5  # prior standard deviation of the logarithm of a weight, an inverse squared length scale
NOISE, SPREAD_OF_NOISE = 1e-2, 1.0  # prior of the relative noise variance: median, standard deviation of its logarithm
USUAL, DOUBT = 0.2, 2.0  # prior standard deviation of the target, and its weight as a number of rows
LEAST_NOISE = 1e-9  # jitter on the kernel's diagonal, so that equal rows do not make it singular
STEPS = 12  # iterations of L-BFGS for the weights
MOST_WEIGHED = 100  # rows that weights are fitted to
LOGARITHMS = (-12.0, 4.0)  # bounds of the logarithms of weights and noise

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class GaussianProcess:
    """Fitted Gaussian processes, one for every column of the target, with a common kernel.

    Attributes:
        rows: Scaled features of the training rows, ``(n, d)``.
        mean: Mean of every feature, ``(d,)``.
        scale: Factor of every feature, ``(d,)``; 0 for a constant one.
        theta: Logarithms of the features' weights and of the noise, ``(d + 1,)``.
        factor: Lower Cholesky factor of the kernel matrix, ``(n, n)``.
        target: Standardized targets, ``(n, p)``.
        weights: Kernel's inverse times the target, ``(n, p)``.
        level: Means of the targets, ``(p,)``.
        spread: Standard deviations of the targets, ``(p,)``.
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
    ) -> "GaussianProcess":
        """Fit a process, with the weights of the highest posterior density.

        Args:
            features: Features of the training rows, ``(n, d)``.
            wanted: Targets, ``(n,)`` or ``(n, p)``; weights are fitted to the first column.
            others: Further rows for the standardization of features, ``(m, d)``.
            theta: Initial logarithms of weights and noise, such as those of an earlier fit; by default the prior means.
            is_weighing: Whether weights are fitted; else `theta` is used.
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
            subset = np.unique(np.linspace(0, len(rows) - 1, MOST_WEIGHED).astype(int))
            theta = likeliest(rows[subset], target[subset, 0], middle, theta)
        scale = plain * np.exp(theta[:-1] / 2)
        rows = (flat - mean) * scale
        kernel = matern(distances(rows, rows)) + (np.exp(theta[-1]) + LEAST_NOISE) * np.eye(len(rows))
        factor = scipy.linalg.cholesky(kernel, lower=True)
        weights = scipy.linalg.cho_solve((factor, True), target)
        return cls(rows, mean, scale, theta, factor, target, weights, level, spread)

    def expect(self, features: Numbers) -> tuple[Numbers, Numbers]:
        """Predict rows ``(m, d)``: posterior means and standard deviations, ``(m, p)`` each."""
        kernel = matern(distances((squashed(features) - self.mean) * self.scale, self.rows))
        explained = scipy.linalg.solve_triangular(self.factor, kernel.T, lower=True)
        deviation = np.sqrt(np.maximum(1 - (explained**2).sum(axis=0), 1e-12))
        return self.level + self.spread * (kernel @ self.weights), self.spread * deviation[:, None]

    @property
    def evidence(self) -> Numbers:
        """Log marginal likelihood of each column, ``(p,)``, up to a common constant, integrated over its scale."""
        squares = (self.target * self.weights).sum(axis=0) * self.spread**2
        log_squares = np.log(squares + DOUBT * USUAL**2)
        return np.asarray(-0.5 * (len(self.rows) - 1 + DOUBT) * log_squares, dtype=np.float64)

    @property
    def left_out(self) -> Numbers:
        """Leave-one-out predictions of every row, ``(n, p)``, with the weights fitted to all rows."""
        inverse = scipy.linalg.cho_solve((self.factor, True), np.eye(len(self.rows)))
        predicted = self.target - self.weights / np.diag(inverse)[:, None]
        return np.asarray(self.level + self.spread * predicted, dtype=np.float64)

    @property
    def importance(self) -> Numbers:
        """Share of each feature in the squared distances between the rows, ``(d,)``; zeros where all rows are equal."""
        variances = self.rows.var(axis=0)
        total = variances.sum()
        return np.asarray(variances / total if total else variances, dtype=np.float64)


def usual(varies: npt.NDArray[np.bool_]) -> Numbers:
    """Return the prior means of the logarithms: weights of 1 over the number of varying features, and `NOISE`."""
    return np.append(np.full(len(varies), -np.log(max(1, int(varies.sum())))), np.log(NOISE))


def likeliest(rows: Numbers, target: Numbers, middle: Numbers, start: Numbers) -> Numbers:
    """Return the logarithms of weights and noise with the highest posterior density, by L-BFGS-B.

    Args:
        rows: Standardized features, ``(n, d)``.
        target: Standardized targets, ``(n,)``.
        middle: Prior means of the logarithms, ``(d + 1,)``.
        start: Initial logarithms, ``(d + 1,)``.
    """
    if len(rows) < 3:
        return start
    used = np.flatnonzero(np.ptp(rows, axis=0) > 1e-9)
    squares = (rows[:, None, used] - rows[None, :, used]) ** 2
    which = np.append(used, len(middle) - 1)
    width = np.append(np.full(len(used), SPREAD_OF_WEIGHTS), SPREAD_OF_NOISE)

    def cost(theta: Numbers) -> tuple[float, Numbers]:
        """Return the negative log posterior density and its gradient."""
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
    best = scipy.optimize.minimize(cost, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS})
    theta = middle.copy()
    theta[which] = best.x
    return theta


def squashed(features: Numbers) -> Numbers:
    """Transform features by a signed ``log1p``: tile sizes of 256 and 512 are about as far apart as 2 and 4."""
    return np.asarray(np.sign(features) * np.log1p(np.abs(features)), dtype=np.float64)


def distances(a: Numbers, b: Numbers) -> Numbers:
    """Return the Euclidean distances of rows, ``(len(a), len(b))``."""
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2 * a @ b.T
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)), dtype=np.float64)


def matern(apart: Numbers) -> Numbers:
    """Return Matern's kernel of order 3/2: once differentiable, as times over tile sizes are hardly smoother."""
    scaled = np.sqrt(3.0) * apart
    return np.asarray((1 + scaled) * np.exp(-scaled), dtype=np.float64)
