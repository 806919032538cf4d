"""Arguments and options shared by several verbs, and their parsers."""

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

import typer

from autotune.core.host.cores import MOST_THREADS
from autotune.core.options import check_whole, read_real, read_whole
from autotune.core.verb_options import Option

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


def reader(read: Callable[[str], T], name: str) -> Callable[[str], T]:
    """Return a typer parser that reports invalid text in one line.

    Args:
        read: Function that parses a text, or raises ValueError.
        name: Type of the option, as shown by help.
    """

    def parse(text: str) -> T:
        try:
            return read(str(text))  # defaults are passed unparsed
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    parse.__name__ = name
    return parse


whole, real = reader(read_whole, "INTEGER"), reader(read_real, "FLOAT")


def count_of(name: str) -> Callable[[str], int]:
    """Return a parser of an option that is a number of cores.

    Args:
        name: Name of the option in messages.
    """

    def read(text: str) -> int:
        count = read_whole(text)
        check_whole(name, count, 1, MOST_THREADS)
        return count

    return reader(read, "INTEGER")


threads = count_of("threads")


def read_names(text: str) -> tuple[str, ...]:
    """Parse comma-separated names."""
    return tuple(filter(None, text.split(",")))


STORES = "File of trials, or a database URL."
PARSERS: dict[object, Callable[[str], object]] = {
    int: whole,
    float: real,
    float | None: real,
    tuple[str, ...] | None: reader(read_names, "NAMES"),
}
SHOWN_AS: dict[object, object] = {tuple[str, ...] | None: str | None}  # else typer expects several words


def with_options(options: Iterable[Option]) -> Callable[[F], F]:
    """Return a decorator that adds options after the first parameter of a verb with ``**words``.

    Args:
        options: Options to add, with the fields that they set.
    """

    def given(verb: F) -> F:
        first, *rest = inspect.signature(verb).parameters.values()
        parameters = [first, *map(parameter_of, options)]
        parameters += [p.replace(kind=p.KEYWORD_ONLY) for p in rest if p.kind is not p.VAR_KEYWORD]
        verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        verb.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
        return verb

    return given


def parameter_of(option: Option) -> inspect.Parameter:
    """Return the parameter from which typer creates an option; it is repeatable if its default is a tuple."""
    each, shown = option
    parser = PARSERS.get(each.type)
    option_type: Any = list[str] | None if isinstance(each.default, tuple) else SHOWN_AS.get(each.type, each.type)
    described = typer.Option(
        shown.flag,
        help=shown.help,
        metavar=shown.metavar or None,
        rich_help_panel=shown.group or None,
        parser=parser,
    )
    default = None if isinstance(each.default, tuple) else each.default
    annotation = Annotated[option_type, described]
    return inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


Payloads = Annotated[
    list[str],
    typer.Argument(
        metavar="PAYLOAD", help="nano, gpt2,seq=64, matmul,m=512,n=512,k=512, a path to an .mlir file; see `list`."
    ),
]
StorePath = Annotated[
    str | None,
    typer.Option("--store", metavar="PATH", help=STORES),
]
FileFamily = Annotated[
    str, typer.Option("--family", metavar="FILE.py:NAME", help="Family of a file that it was tuned with.")
]
Threads = Annotated[
    int, typer.Option(parser=threads, metavar="N", help="Threads that programs may use, of a core each.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
RuleFile = Annotated[
    str,
    typer.Option(
        "--rules",
        metavar="FILE|none",
        help="Rewrite rules in PDL besides ours, or none; see `list rules`.",
    ),
]
Exact = Annotated[
    bool,
    typer.Option("--exact", help="Leave out rewrite rules that change rounding."),
]
