"""`TuneOptions`: the options of a sweep, defined once.

    TuneOptions --options--> options of `autotune tune`          --signature--> keywords of `autotune.tune`
                --command--> the command line in a manifest      --parse_command--> TuneOptions, for `replay --retune`

A field's metadata describes the option on the command line; `TuneOptions.__post_init__` validates the values.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, dataclass
from typing import Any

from autotune.core import verb_options
from autotune.core.errors import OptionError
from autotune.core.host.cores import MOST_THREADS, check_jobs
from autotune.core.objective import SECONDS, Objective
from autotune.core.options import (
    LEAST_TIMEOUT,
    MOST_COUNT,
    MOST_SECONDS,
    check_real,
    check_seed,
    check_whole,
    read_real,
    read_whole,
)
from autotune.core.verb_options import Option, option, options_of
from autotune.registry import RIVALS, registered

DEFAULT_SAMPLER = "auto"
LEAST_ERROR = 2.0**-24  # smallest error budget other than 0: the unit roundoff of f32
MOST_ERROR = 1.0  # largest error budget: 100 % of the largest value
SEARCH, ROUNDING = "What is searched, and how", "What may be rounded, what is minimised"
BY_MODELS = ("trials", "seed", "sampler", "timeout")  # options of a search without measurements
CODE_FILE = ".py:"  # in the name of a family that is defined in a Python file


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """Options of a sweep; `autotune tune --help` describes each.

    Raises:
        OptionError: An option is out of its range, or two exclude each other.
    """

    trials: int = option(100, "Candidates to run over all tasks of a payload, those in the store counted in.")
    seconds: float | None = option(None, "Stop searching a payload this long after its first trial.")
    seed: int = option(0, "Seed of the sampler and of the input data.")
    schedule: str = option(
        "",
        "A transform script of your own, whose open knobs are searched; by default that of the payload's file.",
        metavar="FILE",
    )
    threads: int = option(1, "Threads that programs may use, of a core each.", metavar="N")
    jobs: int = option(1, "Candidates worked on at once, of a core each; one at a time measures.", metavar="N")
    sampler: str = option(
        DEFAULT_SAMPLER,
        "auto (a cost model), tpe, model, random, cmaes, grid, or by name: GPSampler, optunahub:samplers/..",
        group=SEARCH,
    )
    baseline: str = option("passes", "Pipeline that speed-ups are quoted against; see `list`.", group=SEARCH)
    timeout: float = option(60.0, "Seconds one candidate may take to compile, verify and measure.", group=SEARCH)
    task: str = option(
        "*",
        "Tasks that a script of one op is for; see `show --stage tasks`.",
        metavar="TAG|GLOB",
        group=SEARCH,
    )
    family: str = option(
        "",
        "Family of schedules to search; see `show --stage tasks`.",
        metavar="NAME|FILE.py:NAME",
        group=SEARCH,
    )
    beside: tuple[str, ...] = option(
        (),
        "Another family, which competes for the tasks that it covers.",
        metavar="NAME|FILE.py:NAME",
        group=SEARCH,
    )
    backends: tuple[str, ...] = option(
        (),
        "Another compiler that competes for tasks, verified and timed alike; see `list`.",
        flag="--backend",
        metavar="NAME[:ARGUMENT]",
        group=SEARCH,
        needs=RIVALS,
    )
    rules: str = option(
        "",
        "Rewrite rules in PDL besides ours, or none; see `list rules`.",
        metavar="FILE|none",
        group=SEARCH,
    )
    exact: bool = option(False, "Leave out rewrite rules that change rounding.", group=SEARCH)
    cold: bool = option(False, "Ignore what bundles and spaces below tuned/ record.", group=SEARCH)
    anew: bool = option(False, "Measure finalists and the whole again, and replace a faster bundle, too.", group=SEARCH)
    error: float | None = option(
        None,
        "What outputs may be off, of the largest of each; tasks may then round operands. By default 0, or, where all "
        "outputs are bf16 or f16, a step of that.",
        group=ROUNDING,
    )
    agreement: float = option(
        0.0, "Least share of output rows whose argmax must stay; tasks may then round operands.", group=ROUNDING
    )
    objective: str = option(
        SECONDS,
        "What is minimised; joules where RAPL is readable.",
        metavar="seconds|seconds,joules",
        group=ROUNDING,
    )
    weight: float = option(0.5, "Share of joules in the choice, from 0 to 1.", group=ROUNDING)

    def __post_init__(self) -> None:
        check_whole("trials", self.trials, 1, MOST_COUNT)
        if self.seconds is not None:
            check_real("seconds", self.seconds, 0.0, MOST_SECONDS, example=60)
        check_seed(self.seed)
        check_real("timeout", self.timeout, LEAST_TIMEOUT, MOST_SECONDS, example=60)
        check_whole("threads", self.threads, 1, MOST_THREADS)
        check_jobs(self.jobs, self.threads)
        if self.error is not None:
            check_real("error", self.error, 0.0, MOST_ERROR, example=0.01)
        if self.error and self.error < LEAST_ERROR:
            raise OptionError(
                f"error must be 0 or at least {LEAST_ERROR:.2g}, what f32 itself rounds by, got {self.error:g}; "
                "0 computes everything in f32"
            )
        check_real("agreement", self.agreement, 0.0, 1.0, example=0.99)
        Objective(self.objective, self.weight)
        if self.family and self.schedule:
            raise OptionError("family and schedule are two ways to schedule, got both; give one")
        if self.schedule and (self.error or self.agreement):
            raise OptionError("error and agreement choose among families, schedule is a script; give one")

    @property
    def goal(self) -> Objective:
        """Objectives of the search."""
        return Objective(self.objective, self.weight)

    @property
    def of_measuring(self) -> tuple[str, ...]:
        """Flags of the given options that apply only to a search with measurements."""
        return tuple(
            shown.flag
            for each, shown in command_options()
            if each.name not in BY_MODELS and getattr(self, each.name) != each.default
        )

    @property
    def code_files(self) -> tuple[str, ...]:
        """Options, with their values, that load a file of code or a library."""
        families = [("--family", self.family), *(("--beside", name) for name in self.beside)]
        files = [f"{flag} {name}" for flag, name in families if CODE_FILE in name]
        return (*files, *(f"--backend {spec}" for spec in self.backends if ":" in spec))

    def command(self, payload: str) -> list[str]:
        """Return the command line of a run with these options, without store and bundle."""
        words = ["autotune", "tune", payload]
        for each, shown in command_options():
            value = getattr(self, each.name)
            if isinstance(value, tuple):
                words += [word for item in value for word in (shown.flag, item)]
            elif isinstance(value, bool):
                words += [shown.flag] if value else []
            elif value != each.default or each.name in ("trials", "seed", "sampler", "baseline"):
                words += [shown.flag, f"{value:g}" if isinstance(value, float) else str(value)]
        return words


def command_options() -> Iterator[Option]:
    """Return the available fields of `TuneOptions`, each with its presentation on the command line."""
    return (option for option in options_of(TuneOptions) if not option[1].needs or registered(option[1].needs))


def parse_command(words: Sequence[str]) -> TuneOptions:
    """Parse a recorded command line.

    Args:
        words: Command from `TuneOptions.command`, of this version or an older one.

    Raises:
        OptionError: The command is not `tune`, or has an unknown option.
    """
    if list(words[:2]) != ["autotune", "tune"]:
        raise OptionError(f"a recorded command must be one of `autotune tune`, got {' '.join(words[:2])!r:.60}")
    by_flag = {shown.flag: each for each, shown in command_options()}
    rest, values = list(words[3:]), dict[str, Any]()
    while rest:
        flag = rest.pop(0)
        each = by_flag.get(flag)
        if each is None or (each.type is not bool and not rest):
            raise OptionError(f"options of a recorded command must be those of `tune`, got {flag!r:.60}")
        if each.type is bool:
            values[each.name] = True
        elif isinstance(each.default, tuple):
            values[each.name] = (*values.get(each.name, ()), rest.pop(0))
        else:
            values[each.name] = read_value(each, rest.pop(0))
    return TuneOptions(**values)


def read_value(each: "Field[Any]", text: str) -> object:
    """Parse the value of an option.

    Raises:
        OptionError: The text is no valid value.
    """
    try:
        if each.type is int:
            return read_whole(text)
        return read_real(text) if each.type in (float, float | None) else text
    except ValueError as error:
        raise OptionError(f"{each.name} {error}") from error


def options_given(arguments: Mapping[str, object]) -> TuneOptions:
    """Build options from the arguments of the command `tune`, ignoring those that are no options.

    Raises:
        OptionError: An option is out of its range, or two exclude each other.
    """
    return verb_options.options_given(TuneOptions, command_options(), arguments)


def options_from(words: Mapping[str, object]) -> TuneOptions:
    """Build options from the keyword arguments of `at.tune`.

    Raises:
        TypeError: A name is no option.
        OptionError: An option is out of its range, or two exclude each other.
    """
    return verb_options.options_from(TuneOptions, tuple(command_options()), words, "tune")
