"""Help formatters that group verbs and options, with one line each that fits 80 columns."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from autotune.cli.system_errors import ended_early
from autotune.cli.together import check_together
from autotune.core.errors import MachineError, OptionError

FIRST, ARGUMENTS = "Options", "Arguments"
LISTS = {"--against"}  # options whose value is a list of names, which may be empty


class GroupedVerbs(TyperGroup):
    """Command whose help lists its verbs by the heading with which they were registered (``rich_help_panel``)."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - click's, or typer's copy of it
        """Write the verbs, one section per heading."""
        sections: dict[str, list[tuple[str, str]]] = {}
        shown = {name: command for name, command in self.commands.items() if not command.hidden}
        widest = max(map(len, shown))
        for name, command in shown.items():
            heading = getattr(command, "rich_help_panel", None)
            line = command.get_short_help_str(limit=formatter.width - widest - 4)
            sections.setdefault(heading if isinstance(heading, str) else "Commands", []).append(
                (name.ljust(widest), line)
            )
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


class GroupedOptions(TyperCommand):
    """Verb whose help lists the common options first, and others under their own headings."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - click's, or typer's copy of it
        """Parse the arguments of the verb.

        Raises:
            OptionError: The value of an option or argument is empty, or an option would have no effect.
        """
        parsed, _, _ = self.make_parser(ctx).parse_args(list(args))
        for param in self.get_params(ctx):
            if param.opts[0] not in LISTS and is_empty(parsed.get(param.name)):
                raise OptionError(
                    f"{name_of(param)} must have a value, got an empty text, as of a variable that is not set; "
                    f"{'name one' if heading_of(param) == ARGUMENTS else 'leave it out'}"
                )
        rest = super().parse_args(ctx, args)
        check_together(ctx.info_name, {param.opts[0] for param in self.get_params(ctx) if param.name in parsed})
        return rest

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - click's, or typer's copy of it
        """Run the verb.

        Raises:
            MachineError: A file ends too early; typer takes an `EOFError` for the end of a prompt, an interrupt.
        """
        try:
            return super().invoke(ctx)
        except EOFError as error:
            raise MachineError(ended_early(error)) from error

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 - click's, or typer's copy of it
        """Return the words after the verb's name: ``PAYLOAD...`` for one or more, ``[NAME]...`` for any number."""
        return [piece.strip("{}").replace("}...", "...") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - click's, or typer's copy of it
        """Write arguments and options, one section per heading."""
        sections: dict[str, list[tuple[str, str]]] = {ARGUMENTS: [], FIRST: []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                name, text = record
                is_argument = heading_of(param) == ARGUMENTS
                row = (name.partition(" <")[0] if is_argument else name, text)  # without the type that click appends
                sections.setdefault(heading_of(param), []).append(row)
        help_line = [row for row in sections[FIRST] if "--help" in row[0]]
        sections[FIRST] = [row for row in sections[FIRST] if row not in help_line] + help_line
        for heading, rows in sections.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def is_empty(value: object) -> bool:
    """Return whether a value of the command line is an empty string, or a sequence that contains one."""
    return any(map(is_empty, value)) if isinstance(value, list | tuple) else value == ""


def name_of(param: Any) -> str:  # noqa: ANN401 - click's, or typer's copy of it
    """Return the name of a parameter on the command line, such as ``--store`` or ``BUNDLE``."""
    return str(param.metavar or param.name).upper() if heading_of(param) == ARGUMENTS else str(param.opts[0])


def heading_of(param: Any) -> str:  # noqa: ANN401 - click's, or typer's copy of it
    """Return the heading of a parameter in the help."""
    if param.param_type_name == "argument":
        return ARGUMENTS
    heading = getattr(param, "rich_help_panel", None)
    return heading if isinstance(heading, str) else FIRST


def versions() -> Iterator[str]:
    """Yield the versions for a bug report, one line each: this package, MLIR, Python and the system."""
    import platform

    from autotune.core.host.extras import DISTRIBUTION, version_of

    for name in (DISTRIBUTION, "xtc-mlir-python-bindings", "optuna", "numpy"):
        yield f"{name} {version_of(name) or 'is not installed'}"
    yield f"Python {platform.python_version()} on {platform.system()} {platform.release()}, {platform.machine()}"


def front(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", "-V", is_eager=True, help="Show versions and exit."),
) -> None:
    """Explore and autotune MLIR transform-dialect schedules."""
    if version:
        for line in versions():
            typer.echo(line)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit
