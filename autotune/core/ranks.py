"""Mann-Whitney U test: whether values of one sample tend to be larger than those of another, for any distribution.

Same results as `scipy.stats.mannwhitneyu`, without the second and more that loading it adds to each command that
compares, and at a twentieth of its cost a call.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np
import numpy.typing as npt
import scipy  # submodules are loaded on first use

from autotune.core.host.scipy_memory import check_room

MOST_EXACT = 8  # size of the smaller sample up to which p is exact; beyond, U is close to normally distributed

Values = Sequence[float] | npt.NDArray[np.float64]


def chance_of_ranks(a: Values, b: Values) -> float:
    """Return the two-sided p-value: exact for small samples without ties, else by the normal approximation.

    Args:
        a: Values of one sample, without NaN; at least one.
        b: Values of the other sample, likewise.

    >>> round(chance_of_ranks([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]), 3)
    0.1
    """
    _, inverse, counts = np.unique(np.concatenate([a, b]), return_inverse=True, return_counts=True)
    m, n = len(a), len(b)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    u = float(ranks[inverse[:m]].sum()) - m * (m + 1) / 2
    u = max(u, m * n - u)
    if min(m, n) <= MOST_EXACT and len(counts) == m + n:
        ways = ways_to_rank(min(m, n), max(m, n))
        return float(min(1.0, 2 * ways[int(u) :].sum() / ways.sum()))
    ties = float((counts.astype(float) ** 3 - counts).sum())
    deviation = sqrt(m * n / 12 * (m + n + 1 - ties / ((m + n) * (m + n - 1))))
    if deviation == 0.0:  # all values are equal
        return 1.0
    check_room()
    return float(min(1.0, 2 * scipy.special.ndtr((m * n / 2 + 0.5 - u) / deviation)))


def ways_to_rank(m: int, n: int) -> npt.NDArray[np.float64]:
    """Return the number of orderings of m and n values that give each U from 0 to m * n.

    >>> ways_to_rank(2, 2)
    array([1., 1., 2., 1., 1.])
    """
    ways = np.zeros((m + 1, m * n + 1))
    ways[:, 0] = 1.0
    # Recurrence on the largest value: one of the m values, which exceeds all `others`, or one of the others.
    for others in range(1, n + 1):
        for values in range(1, m + 1):
            ways[values, others:] += ways[values - 1, :-others]
    counts: npt.NDArray[np.float64] = ways[m]
    return counts
