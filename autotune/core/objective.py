"""`Objective`: the objectives of a search: seconds a call, or seconds and joules a call."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.core.errors import OptionError
from autotune.core.evaluator import Effort
from autotune.core.options import check_real

SECONDS, BOTH = "seconds", "seconds,joules"
HALF = 0.5  # default share of joules in the choice


@dataclass(frozen=True)
class Objective:
    """The quantities that a search minimises.

    Attributes:
        names: ``seconds`` or ``seconds,joules``.
        weight: Weight of joules in the choice from the Pareto front, from 0 (seconds alone) to 1 (joules alone).
    """

    names: str = SECONDS
    weight: float = HALF

    def __post_init__(self) -> None:
        if self.names not in (SECONDS, BOTH):
            raise OptionError(f"objective must be {SECONDS} or {BOTH}, got {self.names!r:.60}")
        check_real("weight", self.weight, 0.0, 1.0, example=HALF)
        if self.weight != HALF and self.names == SECONDS:
            raise OptionError(f"weight must go with objective {BOTH}, seconds alone have none; add it, or drop weight")

    @property
    def has_joules(self) -> bool:
        """Whether joules are an objective."""
        return self.names == BOTH

    @property
    def identity(self) -> dict[str, str]:
        """Entry that distinguishes sweeps with energy from those without; empty for seconds alone."""
        return {"objective": self.names} if self.has_joules else {}

    def effort(self, effort: Effort) -> Effort:
        """Return the effort, with energy measured where it is an objective."""
        return replace(effort, has_joules=True) if self.has_joules else effort

    def scores(self, values: Sequence[tuple[float, float | None]]) -> list[float]:
        """Return the score of each config, lower is better: the weighted geometric mean of seconds and joules.

        Args:
            values: Seconds and joules of each config; where the joules of any are unknown, scores are seconds alone.

        Example:
            >>> Objective(BOTH, 0.5).scores([(4.0, 9.0), (1.0, 1.0)])
            [6.0, 1.0]
        """
        if not self.has_joules or any(joules is None for _, joules in values):
            return [seconds for seconds, _ in values]
        return [float(seconds ** (1 - self.weight) * (joules or 0.0) ** self.weight) for seconds, joules in values]


PLAIN = Objective()
