"""What a plug-in adds to the command line: verbs of its own, and options of the verbs that there are."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.core.payload import Payload

HEADINGS = ("Find schedules", "Understand them", "Compare", "Keep and check", "Machines")  # of `autotune --help`
LAB = "lab"  # the group of verbs for those who record spaces and run machines
Arguments = Mapping[str, Any]  # of a verb by parameter


@dataclass(frozen=True)
class Verb:
    """A verb of the command line: an entry point of ``autotune.verbs`` by its name.

    Attributes:
        function: What typer makes the verb of: its signature gives arguments and options, its docstring the help.
        heading: Heading that help lists it below; one of `HEADINGS`.
        line: What help says of it, in a line that is whole at 80 columns.
        after: Verb that it is listed behind; empty where it is the last of its heading.
        group: Group that it belongs to, such as `LAB`: ``autotune lab NAME``; empty for a verb of its own.
        instead: What is typed instead of it now, behind ``autotune``: help leaves it out, and it says so where it runs.
    """

    function: Callable[..., object]
    heading: str
    line: str
    after: str = ""
    group: str = ""
    instead: str = ""


@dataclass(frozen=True)
class VerbOption:
    """An option that a plug-in adds to a verb: an entry point of ``autotune.options``.

    Attributes:
        verb: Name of the verb.
        parameters: Parameters in typer's form, keyword-only, which the verb gets and passes on; may be none, where the
            plug-in takes over some values of an option that the verb has.
        takes: Whether the plug-in runs instead of the verb, given all arguments.
        run: Runs instead.
        first: Whether it is asked before plug-ins with the same option that take any value of it.
    """

    verb: str
    parameters: tuple[inspect.Parameter, ...]
    takes: Callable[[Arguments], bool]
    run: Callable[[Arguments], None]
    first: bool = False


@dataclass(frozen=True)
class ShownStage:
    """Something else for `show` to print of a payload with its schedules: an entry point of ``autotune.stages``.

    Attributes:
        describe: Gives the text of a `Payload`, its module with tasks tagged, the `Candidate`, each task with its
            schedule, and the `Machine`.
        after: Stage that it is listed behind.
    """

    describe: Callable[..., str]
    after: str


@dataclass(frozen=True)
class PayloadStage:
    """Something else for `show` to print of a payload before it is scheduled: an entry point of its group.

    Attributes:
        describe: Gives the text of a `Payload`, and a line for stderr.
        differ: Gives what differs between two stages, this one and ``payload``, and a line for stderr.
        after: Stage that it is listed behind.
    """

    describe: Callable[[Payload], tuple[str, str]]
    differ: Callable[[Payload, str, str], tuple[str, str]]
    after: str


@dataclass(frozen=True)
class PageSection:
    """A section that `report` writes of a bundle where its option is given: an entry point of ``autotune.sections``.

    Attributes:
        help: What help says of the option, which is the entry point's name.
        make: Gives the `Section` of a bundle's folder; it stands behind that of the tasks.
    """

    help: str
    make: Callable[[Path], Any]


@dataclass(frozen=True)
class Listing:
    """What a plug-in has by name, for the verb `list`: an entry point of ``autotune.lists`` by its kind.

    Attributes:
        lines: Gives a line for each name; `None` where the names are those of a group of entry points that the plug-in
            opened, ``autotune.KIND``.
    """

    lines: Callable[[], dict[str, str]] | None = None


@dataclass(frozen=True)
class MachineFact:
    """What a plug-in knows of this machine, a line of `doctor`: an entry point of ``autotune.facts`` by its label.

    Attributes:
        describe: Gives the line: what there is, or what is missing and what brings it.
    """

    describe: Callable[[], str]


def option(name: str, annotation: object, default: object) -> inspect.Parameter:
    """A parameter of `VerbOption`.

    Args:
        name: Name of the parameter.
        annotation: What typer reads: ``Annotated[str, typer.Option(...)]``.
        default: Value where the option is not given.
    """
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
