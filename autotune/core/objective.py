"""`Objective`: what a search minimises: seconds of a call alone, or seconds and joules."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.core.errors import OptionError
from autotune.core.evaluator import Effort
from autotune.core.options import check_real

SECONDS, BOTH = "seconds", "seconds,joules"
HALF = 0.5  # the share of joules in a choice that nobody asked another of


@dataclass(frozen=True)
class Objective:
    """What is minimised.

    Attributes:
        names: ``seconds`` or ``seconds,joules``.
        weight: Share of joules in the choice from the front, from 0 for seconds alone to 1 for joules alone.
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
        """Whether energy is measured."""
        return self.names == BOTH

    @property
    def identity(self) -> dict[str, str]:
        """What tells sweeps with energy from those without, which have no joules to look up."""
        return {"objective": self.names} if self.has_joules else {}

    def effort(self, effort: Effort) -> Effort:
        """An effort that measures what is minimised."""
        return replace(effort, has_joules=True) if self.has_joules else effort

    def scores(self, values: Sequence[tuple[float, float | None]]) -> list[float]:
        """What is least for the config to choose: seconds and joules multiplied, each to its share.

        Args:
            values: Seconds and joules of each config; where those of one are not known, seconds alone decide.

        Example:
            >>> Objective(BOTH, 0.5).scores([(4.0, 9.0), (1.0, 1.0)])
            [6.0, 1.0]
        """
        if not self.has_joules or any(joules is None for _, joules in values):
            return [seconds for seconds, _ in values]
        return [float(seconds ** (1 - self.weight) * (joules or 0.0) ** self.weight) for seconds, joules in values]


PLAIN = Objective()
