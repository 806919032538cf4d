"""Extensions of the command line by plug-ins: commands, and options, stages and sections of existing commands."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.core.payload import Payload

HEADINGS = ("Find schedules", "Understand them", "Compare", "Keep and check", "Machines")  # of `autotune --help`
LAB = "lab"  # group of commands for recording spaces and operating machines
Arguments = Mapping[str, Any]  # arguments of a command, by parameter


@dataclass(frozen=True)
class Verb:
    """A command of the command line: an entry point of ``autotune.verbs`` by its name.

    Attributes:
        function: Function that typer turns into the command: its signature defines arguments and options, its
            docstring the help.
        heading: Heading of the help that lists it; one of `HEADINGS`.
        line: Summary in the help, which fits a line of 80 columns.
        after: Command that it is listed after; empty where it is the last of its heading.
        group: Group that it belongs to, such as `LAB`: ``autotune lab NAME``; empty for a top-level command.
        instead: Replacement of a deprecated command, after ``autotune``: the help omits it, and it prints a notice.
    """

    function: Callable[..., object]
    heading: str
    line: str
    after: str = ""
    group: str = ""
    instead: str = ""


@dataclass(frozen=True)
class VerbOption:
    """An option that a plug-in adds to a command: an entry point of ``autotune.options``.

    Attributes:
        verb: Name of the command.
        parameters: Keyword-only parameters in typer's form, which are added to the command; may be empty, where the
            plug-in handles some values of an existing option.
        takes: Predicate on all arguments that returns whether the plug-in runs instead of the command.
        run: Function that runs instead of the command.
        first: Whether it has priority over plug-ins that take any value of the same option.
        ignores: Parameters of the command, and of it, that have no effect where it runs: they are refused beside it.
    """

    verb: str
    parameters: tuple[inspect.Parameter, ...]
    takes: Callable[[Arguments], bool]
    run: Callable[[Arguments], None]
    first: bool = False
    ignores: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownStage:
    """A stage of a payload with its schedules that `show` can print: an entry point of ``autotune.stages``.

    Attributes:
        describe: Function from a `Payload`, its module with tasks tagged, the `Candidate`, each task with its schedule,
            and the `Machine` to the text.
        after: Stage that it is listed after.
    """

    describe: Callable[..., str]
    after: str


@dataclass(frozen=True)
class PayloadStage:
    """A stage of a payload before scheduling that `show` can print: an entry point of its group.

    Attributes:
        describe: Function from a `Payload` to the text, and a line for stderr.
        differ: Function that returns the difference between two stages, this one and ``payload``, and a line for
            stderr.
        after: Stage that it is listed after.
    """

    describe: Callable[[Payload], tuple[str, str]]
    differ: Callable[[Payload, str, str], tuple[str, str]]
    after: str


@dataclass(frozen=True)
class PageSection:
    """An optional section of a bundle's `report`: an entry point of ``autotune.sections``.

    Attributes:
        help: Help of the option that selects it, which has the entry point's name.
        make: Function from a bundle's folder to its `Section`, which follows that of the tasks.
    """

    help: str
    make: Callable[[Path], Any]


@dataclass(frozen=True)
class Listing:
    """Names that a plug-in provides, for the command `list`: an entry point of ``autotune.lists`` by their kind.

    Attributes:
        lines: Function that returns a line for each name; `None` where the names are those of an entry-point group of
            the plug-in, ``autotune.KIND``.
    """

    lines: Callable[[], dict[str, str]] | None = None


@dataclass(frozen=True)
class MachineFact:
    """A line on this machine in the output of `doctor`: an entry point of ``autotune.facts`` by its label.

    Attributes:
        describe: Function that returns the line: what is available, or what is missing and how to install it.
    """

    describe: Callable[[], str]


def option(name: str, annotation: object, default: object) -> inspect.Parameter:
    """Return a parameter for `VerbOption`.

    Args:
        name: Name of the parameter.
        annotation: Annotation for typer: ``Annotated[str, typer.Option(...)]``.
        default: Default value.
    """
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
