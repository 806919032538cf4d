"""`CompareOptions`: options of a comparison, from which the command and `autotune.compare` derive theirs."""

from dataclasses import dataclass

from autotune.core.errors import OptionError
from autotune.core.host.cores import MOST_THREADS
from autotune.core.options import check_real, check_seed, check_whole
from autotune.core.verb_options import option, options_of
from autotune.tuning.options import MOST_ERROR

NO_BASELINE = "none"
QUICK, BEST = RIVALS = ("quick", "best")


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options of a comparison; `autotune compare --help` describes each.

    Raises:
        OptionError: An option is out of its range.
    """

    against: tuple[str, ...] | None = option(
        None, "Libraries, such as numpy,onnxruntime; all by default.", metavar="NAMES"
    )
    baseline: str | None = option("passes", "Pipeline of the first row, or none; see `list`.")
    seed: int = option(0, "Seed of the input data.")
    threads: int = option(1, "Threads that programs may use, of a core each.", metavar="N")
    rivals: str = option(
        QUICK, "best: also ways of libraries that tune themselves for minutes.", metavar="|".join(RIVALS)
    )
    error: float = option(0.0, "What outputs may be off, of the largest of each; rows that round join.")

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_whole("threads", self.threads, 1, MOST_THREADS)
        check_real("error", self.error, 0.0, MOST_ERROR, example=0.01)
        if self.rivals not in RIVALS:
            raise OptionError(f"rivals must be one of {', '.join(RIVALS)}, got {self.rivals!r:.50}; try {QUICK}")

    @property
    def pipeline(self) -> str | None:
        """Name of the baseline's pass pipeline; `None` for no baseline row."""
        return None if self.baseline == NO_BASELINE else self.baseline

    @property
    def is_thorough(self) -> bool:
        """Whether library variants that take minutes to prepare are included."""
        return self.rivals == BEST


COMPARE_OPTIONS = options_of(CompareOptions)
