"""`Care`: how carefully programs are measured. In full, unless ``AUTOTUNE_CARE=little`` is in the environment.

Little care is for trying things out, and for tests: minutes become seconds, and figures coarse.
"""

import os
from dataclasses import dataclass, replace

from autotune.core.errors import OptionError
from autotune.core.evaluator import Effort

VARIABLE = "AUTOTUNE_CARE"


@dataclass(frozen=True)
class Care:
    """How carefully programs are measured.

    Attributes:
        most: What a measurement takes at most, whatever it asks for; `None` for all that it asks for.
        pairs: A/A comparisons at the start of a run.
        finalists: Configs of a task that are measured again.
        processes: Processes that finalists race in: where memory lies in one makes one up to 1 % faster.
        sessions: Processes that time the whole, for the same reason.
    """

    most: Effort | None = None
    pairs: int = 4
    finalists: int = 8
    processes: int = 2
    sessions: int = 3

    def limit(self, effort: Effort) -> Effort:
        """What a measurement that asks for an effort takes.

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
# One sample of seven that is disturbed moves no median, and so few are never called noisy.
LITTLE = Care(Effort(samples=7, seconds=0.2, sample_seconds=1e-4), pairs=1, finalists=2, processes=1, sessions=1)
PROFILES = {"full": FULL, "little": LITTLE}


def chosen_care() -> Care:
    """The care that the environment asks for; full care where it does not.

    Raises:
        OptionError: The environment asks for something else.
    """
    wanted = os.environ.get(VARIABLE) or "full"
    if wanted not in PROFILES:
        raise OptionError(
            f"{VARIABLE} must be {' or '.join(PROFILES)}, got {wanted!r:.100}; unset it to measure in full"
        )
    return PROFILES[wanted]
