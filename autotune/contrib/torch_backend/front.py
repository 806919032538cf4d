"""``autotune.torch``: programs of `torch.export` as functions on tensors."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from autotune.contrib.torch_backend.backend import compile_graph
from autotune.contrib.torch_backend.options import read_options

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def compile(program: "ExportedProgram", **options: Any) -> Callable[..., Any]:  # noqa: ANN401
    """Compile an exported program to a function that is called as the program's module is.

    Args:
        program: The program, whose weights are shared and not copied.
        **options: Options of the backend, such as ``trials=100``; those of `BackendOptions`.

    Returns:
        A function of the model's arguments; gradients are not computed.

    Raises:
        OptionError: An option is unknown or out of its range.
    """
    read_options(options)
    module = torch.compile(program.module(), backend=compile_graph, options=options)

    def call(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the model has them
        with torch.no_grad():
            return module(*arguments, **named)

    return call
