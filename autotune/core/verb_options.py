"""Options of a verb, listed once: fields of a frozen dataclass, from which the command line and Python both derive.

    options_of(model) --cli.options.with_options--> options of `autotune VERB`
                      --with_keywords-------------> keywords of the function in Python
                      --options_from, options_given--> the dataclass, whose `__post_init__` checks

A field's metadata says how it looks on the command line.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, TypeVar

M = TypeVar("M")
F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True)
class CommandOption:
    """How an option looks on the command line.

    Attributes:
        help: What it is, for `--help`.
        flag: The option, with its dashes.
        metavar: What stands for its value; empty for the kind of value.
        group: Heading that it stands below; empty for the first one.
        needs: Group of entry points without any of which there is no such option; empty for none.
    """

    help: str
    flag: str = ""
    metavar: str = ""
    group: str = ""
    needs: str = ""


Option = tuple["Field[Any]", CommandOption]


def option(default: object, text: str, **shown: str) -> Any:  # noqa: ANN401
    """A field of a model of options, with how it looks on the command line: attributes of `CommandOption`."""
    return field(default=default, metadata={"option": CommandOption(text, **shown)})


def options_of(model: type) -> tuple[Option, ...]:
    """Fields of a model that are options, and how each looks on the command line."""
    found = [(each, each.metadata["option"]) for each in fields(model) if "option" in each.metadata]
    return tuple((each, replace(shown, flag=shown.flag or f"--{each.name}")) for each, shown in found)


def with_keywords(options: Iterable[Option]) -> Callable[[F], F]:
    """Show options as keywords of a function that takes ``**options``, and explain them in its docstring.

    Args:
        options: Options of a model; those that the function has as parameters of its own stay as they are.
    """
    all_options = tuple(options)

    def shown(function: F) -> F:
        own = inspect.signature(function)
        kept = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        keywords = [
            inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type)
            for each, _ in all_options
            if each.name not in own.parameters
        ]
        lines = "\n".join(f"    {each.name}: {shown.help}" for each, shown in all_options)
        function.__signature__ = own.replace(parameters=[*kept, *keywords])  # type: ignore[attr-defined]
        function.__doc__ = f"{inspect.getdoc(function)}\n\nOptions:\n{lines}\n"
        return function

    return shown


def options_given(model: type[M], options: Iterable[Option], arguments: Mapping[str, object]) -> M:
    """Options among the arguments of a verb, of which some are no options.

    Args:
        model: The model.
        options: Options of the model that there are here.
        arguments: Arguments of the verb by name; `None` where one is not given.

    Raises:
        OptionError: An option is out of its range, or two exclude each other.
    """
    names = [each.name for each, _ in options]
    return model(**{name: value for name in names if (value := arguments.get(name)) is not None})


def options_from(model: type[M], options: Iterable[Option], words: Mapping[str, object], verb: str) -> M:
    """Options by name, as a call from Python gives them: a list or a name alone where there may be several.

    Args:
        model: The model.
        options: Options of the model that there are here.
        words: Options by name.
        verb: Name of the function that was called.

    Raises:
        TypeError: There is no option of a name.
        OptionError: An option is out of its range, or two exclude each other.
    """
    known = {each.name: each for each, _ in options}
    if unknown := words.keys() - known.keys():
        raise TypeError(f"{verb}() got an unexpected keyword argument {min(unknown)!r}; options are {', '.join(known)}")
    return model(**{name: as_given(known[name], value) for name, value in words.items()})


def as_given(each: "Field[Any]", value: object) -> object:
    """A value as its field keeps it: a tuple where there may be several."""
    if value is None or each.type not in (tuple[str, ...], tuple[str, ...] | None):
        return value
    return (value,) if isinstance(value, str) else tuple(value)  # type: ignore[arg-type]
