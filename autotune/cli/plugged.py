"""Extension of verbs by options of plug-ins, and of `report` by their sections."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Annotated, Any, get_args

import typer

from autotune.core.plugs.verb import Arguments, PageSection, VerbOption, option


def with_options(function: Callable[..., object], options: Sequence[VerbOption]) -> Callable[..., object]:
    """Return a verb with the parameters of plug-ins; the first plug-in that accepts a call runs instead of the verb.

    Args:
        function: Function of the verb, in typer's form.
        options: Options that plug-ins add to it.
    """
    if not options:
        return function
    added = {parameter.name: parameter for option in options for parameter in option.parameters}
    # A folder of sizes is no payload; a chip's name is no file of a machine.
    by_value_first = sorted(options, key=lambda option: (bool(option.parameters), not option.first))

    @wraps(function)
    def run(**arguments: Any) -> None:  # noqa: ANN401 - whatever the verb takes
        taker = next((option for option in by_value_first if option.takes(arguments)), None)
        if taker is not None:
            check_alone(taker, options, arguments)
            check_effect(taker, [*inspect.signature(function).parameters.values(), *added.values()], arguments)
            others = added.keys() - {parameter.name for parameter in taker.parameters}
            taker.run({name: value for name, value in arguments.items() if name not in others})
        else:
            check_supported(options, arguments)
            function(**{name: value for name, value in arguments.items() if name not in added})

    return signed(run, [*inspect.signature(function).parameters.values(), *added.values()])


def check_supported(options: Sequence[VerbOption], arguments: Arguments) -> None:
    """Refuse options of plug-ins of which none runs because its first option is missing.

    Raises:
        BadParameter: Such an option is given.
    """
    for plugged in options:
        if flag := first_set(plugged.parameters, arguments):
            first = flag_of(plugged.parameters[0])
            raise typer.BadParameter(f"{flag} must go with {first}, which is missing; add it, or drop {flag}")


def check_alone(taker: VerbOption, options: Sequence[VerbOption], arguments: Arguments) -> None:
    """Check that no options of other plug-ins are given, which the one that runs would ignore.

    Raises:
        BadParameter: Such an option is given.
    """
    others = [each for option in options for each in option.parameters if each not in taker.parameters]
    if flag := first_set(others, arguments):
        raise typer.BadParameter(f"{flag} runs something else than the other options ask for; drop one of them")


def check_effect(taker: VerbOption, parameters: Sequence[inspect.Parameter], arguments: Arguments) -> None:
    """Refuse options that have no effect where a plug-in runs.

    Args:
        taker: Plug-in that runs instead of the verb.
        parameters: Parameters of the verb and of its plug-ins.
        arguments: Arguments of the call.

    Raises:
        BadParameter: Such an option is given.
    """
    if flag := first_set([each for each in parameters if each.name in taker.ignores], arguments):
        beside = first_set(taker.parameters, arguments) or "what is named"
        raise typer.BadParameter(f"{flag} has no effect beside {beside}; drop one of them")


def first_set(parameters: Sequence[inspect.Parameter], arguments: Arguments) -> str:
    """Return the flag of the first parameter whose value is not its default; empty if there is none."""
    return next((flag_of(each) for each in parameters if arguments[each.name] != each.default), "")


def flag_of(parameter: inspect.Parameter) -> str:
    """Return the command-line flag of a parameter."""
    (info,) = get_args(parameter.annotation)[1:]
    names = [name for name in (info.default, *(info.param_decls or ())) if isinstance(name, str)]
    return next((name for name in names if name.startswith("--")), f"--{parameter.name.replace('_', '-')}")


def with_sections(function: Callable[..., object], sections: Mapping[str, PageSection]) -> Callable[..., object]:
    """Return `report` with an option for each section of a plug-in; requested ones are passed as ``more``.

    Args:
        function: Function of the verb, in typer's form except for ``more``.
        sections: Sections by the names of their options.
    """

    @wraps(function)
    def run(**arguments: Any) -> None:  # noqa: ANN401 - whatever the verb takes
        more = [section.make for name, section in sections.items() if arguments.pop(name)]
        function(**arguments, more=more)

    own = [each for each in inspect.signature(function).parameters.values() if each.name != "more"]
    return signed(
        run,
        [
            *own,
            *(
                option(name, Annotated[bool, typer.Option(f"--{name}", help=section.help)], False)
                for name, section in sections.items()
            ),
        ],
    )


def signed(function: Callable[..., object], parameters: Sequence[inspect.Parameter]) -> Callable[..., object]:
    """Set the signature of a function that typer reads, with keyword-only parameters; return the function."""
    signature = inspect.Signature([each.replace(kind=each.KEYWORD_ONLY) for each in parameters])
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()} | {"return": None}
    return function
