"""`Care`: the effort spent on measurements; reduced where ``AUTOTUNE_CARE=little`` is set in the environment.

Little care is for experiments and tests: runs take seconds instead of minutes, and times are less accurate.
"""

import os
from dataclasses import dataclass, replace

from autotune.core.errors import OptionError
from autotune.core.evaluator import Effort

VARIABLE = "AUTOTUNE_CARE"


@dataclass(frozen=True)
class Care:
    """Limits and repetitions of measurements.

    Attributes:
        most: Upper bound on the effort of any measurement; `None` for no bound.
        pairs: A/A comparisons at the start of a run.
        finalists: Configs of a task that are measured again.
        processes: Processes that finalists are compared in: memory layout differs between processes, and changes times
            by up to 1 %.
        sessions: Processes that time the whole, for the same reason.
    """

    most: Effort | None = None
    pairs: int = 4
    finalists: int = 8
    processes: int = 2
    sessions: int = 3

    def limit(self, effort: Effort) -> Effort:
        """Return the effort, bounded by `most`.

        Example:
            >>> LITTLE.limit(Effort(samples=30, seconds=0.1)).samples
            7
        """
        if self.most is None:
            return effort
        return replace(
            effort,
            samples=min(effort.samples, self.most.samples),
            seconds=min(effort.seconds, self.most.seconds),
            sample_seconds=min(effort.sample_seconds, self.most.sample_seconds),
        )


FULL = Care()
# One disturbed sample of seven does not change the median, and so few are never classified as noisy.
LITTLE = Care(Effort(samples=7, seconds=0.2, sample_seconds=1e-4), pairs=1, finalists=2, processes=1, sessions=1)
PROFILES = {"full": FULL, "little": LITTLE}


def chosen_care() -> Care:
    """Return the care that the environment selects; full by default.

    Raises:
        OptionError: The environment variable has an unknown value.
    """
    wanted = os.environ.get(VARIABLE) or "full"
    if wanted not in PROFILES:
        raise OptionError(
            f"{VARIABLE} must be {' or '.join(PROFILES)}, got {wanted!r:.100}; unset it to measure in full"
        )
    return PROFILES[wanted]
