"""PyTorch as a comparator: torch.nn.functional, eager, traced and compiled; the fastest variant is compared.

torch.compile needs a C++ compiler, and takes a minute or two for a large model.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import Any

from autotune.core.errors import ComparatorError
from autotune.core.host.cores import own_cores
from autotune.core.payload import Array, Payload
from autotune.core.plugs.comparator import LibraryVariant, Prepared
from payload.comparators.torch_network import build_network
from payload.programs import call_arguments, load_program

COMPILERS = ("g++", "clang++", "c++")  # C++ compilers that torch.compile looks for
ANYWHERE = ("eager", "traced")
BY_COMPILER = ("compiled", "compiled with max-autotune")
TUNED = ("compiled with max-autotune",)  # takes minutes to prepare


@dataclass(frozen=True)
class Torch:
    """PyTorch, as the comparator ``torch``, run in one of its ways."""

    name: str = "torch"
    modules: tuple[str, ...] = ("torch",)
    extra: str = "torch"
    way: str = "eager"
    precision: str = "highest"

    def network(self, payload: Payload, inputs: Mapping[str, Array]) -> tuple[Any, tuple[Any, ...]]:
        """Return the module that computes a payload, and its input tensors."""
        import torch  # noqa: PLC0415 - comes with an extra

        program = load_program(payload.model) if payload.model.endswith(".pt2") else None
        fed = tuple(torch.from_numpy(inputs[a.name]) for a in payload.arguments if a.role == "input")
        fed += tuple(torch.from_numpy(inputs[a.name].copy()) for a in payload.arguments if a.role == "state")
        if program is None:
            return build_network(payload, inputs), fed
        return program.module(), call_arguments(program, fed)

    def variants(self) -> tuple[LibraryVariant, ...]:
        """Return the available variants; the compiled ones need a C++ compiler."""
        ways = ANYWHERE + (BY_COMPILER if any(map(shutil.which, COMPILERS)) else ())
        return tuple(LibraryVariant(way, replace(self, way=way), is_slow=way in TUNED) for way in ways)

    def version(self) -> str:
        """Return the version of PyTorch, its instruction set, and whether MKL and oneDNN are available."""
        import torch  # noqa: PLC0415 - comes with an extra

        backends = {"MKL": torch.backends.mkl, "oneDNN": torch.backends.mkldnn}
        present = [name for name, backend in backends.items() if backend.is_available()]
        return (
            f"torch {version('torch')}, {torch.backends.cpu.get_cpu_capability()}, {' and '.join(present) or 'no MKL'}"
        )

    def prepare(self, payload: Payload, inputs: Mapping[str, Array]) -> Prepared:
        """Build the network and call it until just-in-time compilation has finished.

        Raises:
            ComparatorError: The payload has no graph, or its graph has an unknown op, or this version of PyTorch lacks
                the variant.
        """
        import torch  # noqa: PLC0415 - comes with an extra

        torch.set_num_threads(own_cores())
        torch.set_float32_matmul_precision(self.precision)  # process-wide: an earlier comparator may have changed it
        network, fed = self.network(payload, inputs)
        return Prepared(warm(MAKERS[self.way], network, fed), as_arrays, self.way)


@dataclass(frozen=True)
class TorchMedium(Torch):
    """PyTorch that may multiply f32 in bfloat16, as the comparator ``torch_medium``."""

    name: str = "torch_medium"
    rounded_to: str = "what set_float32_matmul_precision('medium') allows"
    precision: str = "medium"


@dataclass(frozen=True)
class TorchBfloat16(Torch):
    """PyTorch with weights and activations in bfloat16, as the comparator ``torch_bf16``.

    Inputs and outputs of a call are f32.
    """

    name: str = "torch_bf16"
    rounded_to: str = "bfloat16"

    def network(self, payload: Payload, inputs: Mapping[str, Array]) -> tuple[Any, tuple[Any, ...]]:
        """Return the module with weights in bfloat16, and its input tensors.

        Raises:
            ComparatorError: The payload is a program of torch.export, whose types are fixed, or has states.
        """
        if payload.model.endswith(".pt2") or any(argument.role == "state" for argument in payload.arguments):
            raise ComparatorError(
                f"torch_bf16 must have a graph without states to convert, {payload.name} has none; compare torch_medium"
            )
        network, fed = super().network(payload, inputs)
        return in_bfloat16(network), fed


TORCH, TORCH_MEDIUM, TORCH_BF16 = Torch(), TorchMedium(), TorchBfloat16()


def in_bfloat16(network: Any) -> Any:  # noqa: ANN401 - torch is an extra
    """Wrap a module to compute in bfloat16: inputs are converted in the call, and results converted back to f32."""
    import torch  # noqa: PLC0415 - comes with an extra

    class Rounded(torch.nn.Module):  # type: ignore[misc]
        """Module with converted inputs and outputs."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = network.to(torch.bfloat16)

        def forward(self, *fed: Any) -> Any:  # noqa: ANN401
            """Compute the module."""
            result = self.inner(*(x.to(torch.bfloat16) if x.is_floating_point() else x for x in fed))
            return tuple(y.float() for y in result) if isinstance(result, tuple) else result.float()

    return Rounded().eval()


def trace_network(network: Any, fed: tuple[Any, ...]) -> Callable[..., Any]:  # noqa: ANN401
    """Trace and freeze a network with TorchScript.

    Raises:
        ComparatorError: This version of PyTorch lacks TorchScript.
    """
    import torch  # noqa: PLC0415

    if not hasattr(torch.jit, "trace"):
        raise ComparatorError(f"torch must have TorchScript to trace, {version('torch')} has none")
    traced = torch.jit.trace(network, fed).eval()  # freezing requires eval mode, which a loaded program is never in
    frozen: Callable[..., Any] = torch.jit.freeze(traced)
    return frozen


def compile_network(network: Any, fed: tuple[Any, ...], **options: bool) -> Callable[..., Any]:  # noqa: ANN401
    """Compile a network with torch.compile, with options of the inductor."""
    import torch  # noqa: PLC0415

    torch.compiler.reset()  # its cache counts the networks of other cases, and it stops compiling after eight
    compiled: Callable[..., Any] = torch.compile(network, options=options)
    return compiled


MAKERS: dict[str, Callable[[Any, tuple[Any, ...]], Callable[..., Any]]] = {
    "eager": lambda network, fed: network,
    "traced": trace_network,
    "compiled": partial(compile_network, freezing=True),
    "compiled with max-autotune": partial(compile_network, freezing=True, max_autotune=True),
}


def warm(
    make: Callable[[Any, tuple[Any, ...]], Callable[..., Any]],
    network: Any,  # noqa: ANN401
    fed: tuple[Any, ...],
) -> Callable[[], Any]:
    """Create a callable from a network and call it until just-in-time compilation has finished."""
    import torch  # noqa: PLC0415

    run = torch.inference_mode()(make(network, fed))
    for _ in range(3):
        run(*fed)
    return lambda: run(*fed)


def as_arrays(outputs: Any) -> tuple[Array, ...]:  # noqa: ANN401
    """Convert the outputs of a call, one tensor or a tuple, to arrays."""
    return tuple(tensor.numpy() for tensor in (outputs if isinstance(outputs, tuple) else (outputs,)))
