"""`RegressOptions`: options of a regression check, from which the command and `Bundle.regress` derive theirs."""

from dataclasses import dataclass

from autotune.core.options import check_real
from autotune.core.verb_options import option, options_of

LEAST_FACTOR = 1.001  # smallest slowdown that might be detectable
PATIENCE, QUICK_PATIENCE, MOST_PATIENCE = 150.0, 30.0, 86400.0  # seconds


@dataclass(frozen=True, kw_only=True)
class RegressOptions:
    """Options of a check; `autotune regress --help` describes each.

    Raises:
        OptionError: An option is out of its range.
    """

    factor: float = option(1.05, "Slowdown that the check must detect.")
    quick: bool = option(False, "End within two minutes; what is left out is inconclusive.")
    patience: float | None = option(
        None,
        f"Seconds to wait, and look again, before an alarm; by default {PATIENCE:g}, --quick {QUICK_PATIENCE:g}.",
    )
    update: bool = option(False, "Accept what is measured as the new record, and write the history.")

    def __post_init__(self) -> None:
        check_real("factor", self.factor, LEAST_FACTOR, 100.0, example=1.05)
        if self.patience is not None:
            check_real("patience", self.patience, 0.0, MOST_PATIENCE, example=60)

    @property
    def wait(self) -> float:
        """Total pause for one bundle in seconds; 0 for no second look."""
        if self.patience is not None:
            return self.patience
        return QUICK_PATIENCE if self.quick else PATIENCE


REGRESS_OPTIONS = options_of(RegressOptions)
READ_ONLY = tuple(each for each in REGRESS_OPTIONS if each[0].name != "update")  # of a check that writes nothing
