"""Options of a command, defined once as fields of a frozen dataclass, for the command line and for Python.

    options_of(model) --cli.options.with_options--> options of `autotune VERB`
                      --with_keywords-------------> keywords of the function in Python
                      --options_from, options_given--> the dataclass, whose `__post_init__` checks

A field's metadata describes the option on the command line.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, TypeVar

M = TypeVar("M")
F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True)
class CommandOption:
    """Presentation of an option on the command line.

    Attributes:
        help: Help text for `--help`.
        flag: Name of the option, with its dashes.
        metavar: Placeholder of its value; empty for the default one of its type.
        group: Heading in the help that lists it; empty for the first one.
        needs: Group of entry points, without any of which the option is not offered; empty for none.
    """

    help: str
    flag: str = ""
    metavar: str = ""
    group: str = ""
    needs: str = ""


Option = tuple["Field[Any]", CommandOption]


def option(default: object, text: str, **shown: str) -> Any:  # noqa: ANN401
    """Return a dataclass field that is an option; `shown` are attributes of its `CommandOption`."""
    return field(default=default, metadata={"option": CommandOption(text, **shown)})


def options_of(model: type) -> tuple[Option, ...]:
    """Return the fields of a model that are options, each with its presentation on the command line."""
    options = [(each, each.metadata["option"]) for each in fields(model) if "option" in each.metadata]
    return tuple((each, replace(shown, flag=shown.flag or f"--{each.name}")) for each, shown in options)


def with_keywords(options: Iterable[Option]) -> Callable[[F], F]:
    """Add options to the signature of a function that takes ``**options``, and their help to its docstring.

    Args:
        options: Options of a model; those that are already parameters of the function are not added.
    """
    all_options = tuple(options)

    def shown(function: F) -> F:
        own = inspect.signature(function)
        declared = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        keywords = [
            inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type)
            for each, _ in all_options
            if each.name not in own.parameters
        ]
        lines = "\n".join(f"    {each.name}: {shown.help}" for each, shown in all_options)
        function.__signature__ = own.replace(parameters=[*declared, *keywords])  # type: ignore[attr-defined]
        function.__doc__ = f"{inspect.getdoc(function)}\n\nOptions:\n{lines}\n"
        return function

    return shown


def options_given(model: type[M], options: Iterable[Option], arguments: Mapping[str, object]) -> M:
    """Build a model from the arguments of a command, ignoring those that are no options.

    Args:
        model: Dataclass of the options.
        options: Options of the model that are available.
        arguments: Arguments of the command by name; `None` where one is not given.

    Raises:
        OptionError: An option is out of its range, or two exclude each other.
    """
    names = [each.name for each, _ in options]
    return model(**{name: value for name in names if (value := arguments.get(name)) is not None})


def options_from(model: type[M], options: Iterable[Option], words: Mapping[str, object], verb: str) -> M:
    """Build a model from keyword arguments of Python; where several values are allowed, a list or a single name.

    Args:
        model: Dataclass of the options.
        options: Options of the model that are available.
        words: Options by name.
        verb: Name of the called function, for messages.

    Raises:
        TypeError: A name is no option.
        OptionError: An option is out of its range, or two exclude each other.
    """
    known = {each.name: each for each, _ in options}
    if unknown := words.keys() - known.keys():
        raise TypeError(f"{verb}() got an unexpected keyword argument {min(unknown)!r}; options are {', '.join(known)}")
    return model(**{name: as_field_value(known[name], value) for name, value in words.items()})


def as_field_value(each: "Field[Any]", value: object) -> object:
    """Convert a value to the type of its field: a tuple where several values are allowed."""
    if value is None or each.type not in (tuple[str, ...], tuple[str, ...] | None):
        return value
    return (value,) if isinstance(value, str) else tuple(value)  # type: ignore[arg-type]
