"""Verbs with the options that plug-ins add to them."""

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from autotune.core.plugs.verb import VerbOption


def with_options(function: Callable[..., object], options: Sequence[VerbOption]) -> Callable[..., object]:
    """A verb's function that takes the parameters of plug-ins too, and lets the first run that takes a call.

    Args:
        function: The verb's own, in typer's form.
        options: What plug-ins add to it.
    """
    if not options:
        return function
    added = {parameter.name: parameter for option in options for parameter in option.parameters}

    @wraps(function)
    def run(**arguments: Any) -> None:  # noqa: ANN401 - whatever the verb takes
        taker = next((option for option in options if option.takes(arguments)), None)
        if taker is not None:
            taker.run(arguments)
        else:
            function(**{name: value for name, value in arguments.items() if name not in added})

    own = [each.replace(kind=each.KEYWORD_ONLY) for each in inspect.signature(function).parameters.values()]
    signature = inspect.Signature([*own, *added.values()])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()} | {"return": None}
    return run
