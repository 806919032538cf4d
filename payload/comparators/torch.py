"""PyTorch as a comparator: torch.nn.functional, eager, traced and compiled; what is fastest here is what is compared.

torch.compile needs a C++ compiler, and takes a minute or two for a large model.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import Any

from autotune.core.comparator import Prepared
from autotune.core.errors import ComparatorError
from autotune.core.evaluator import Effort
from autotune.core.payload import Array, Payload
from autotune.worker.measure import measure_interleaved
from payload.comparators.torch_network import build_network

COMPILERS = ("g++", "clang++", "c++")  # which torch.compile looks for
TRIAL = Effort(samples=7, seconds=2.0, sample_seconds=3e-3)


@dataclass(frozen=True)
class Torch:
    """PyTorch, as the comparator ``torch``."""

    name: str = "torch"
    modules: tuple[str, ...] = ("torch",)
    extra: str = "torch"

    def version(self) -> str:
        """Version of PyTorch, the instructions its kernels use, and whether it has MKL and oneDNN."""
        import torch  # noqa: PLC0415 - comes with an extra

        backends = {"MKL": torch.backends.mkl, "oneDNN": torch.backends.mkldnn}
        present = [name for name, backend in backends.items() if backend.is_available()]
        return (
            f"torch {version('torch')}, {torch.backends.cpu.get_cpu_capability()}, {' and '.join(present) or 'no MKL'}"
        )

    def prepare(self, payload: Payload, inputs: Mapping[str, Array]) -> Prepared:
        """Build the network in every way there is, and keep the fastest.

        Raises:
            ComparatorError: The payload has no graph, or one with an op that is unknown here.
        """
        import torch  # noqa: PLC0415 - comes with an extra

        torch.set_num_threads(1)
        exported = payload.model.endswith(".pt2")
        network = torch.export.load(payload.model).module() if exported else build_network(payload, inputs)
        fed = tuple(torch.from_numpy(inputs[a.name]) for a in payload.arguments if a.role == "input")
        fed += tuple(torch.from_numpy(inputs[a.name].copy()) for a in payload.arguments if a.role == "state")
        ways, failures = [], []
        for how, make in variants(network, fed):
            try:
                ways.append(Prepared(warm(make, fed), as_arrays, how))
            except Exception as error:  # a compiler may fail in any way; the others still count
                failures.append(f"{how} failed: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
        if not ways:
            raise ComparatorError(f"torch must run {payload.name} in one way at least: {'; '.join(failures)}")
        return fastest(ways, failures)


TORCH = Torch()


Way = tuple[str, Callable[[], Callable[..., Any]]]


def variants(network: Any, fed: tuple[Any, ...]) -> Iterator[Way]:  # noqa: ANN401
    """The ways to run a network: a name, and what makes the callable."""
    import torch  # noqa: PLC0415

    yield "eager", lambda: torch.inference_mode()(network)
    yield "traced", lambda: torch.inference_mode()(torch.jit.freeze(torch.jit.trace(network, fed)))
    if any(shutil.which(compiler) for compiler in COMPILERS):
        torch.compiler.reset()  # it remembers other networks, and gives up after eight
        yield "compiled", partial(compile_network, network, freezing=True)
        yield "compiled with max-autotune", partial(compile_network, network, freezing=True, max_autotune=True)


def compile_network(network: Any, **options: bool) -> Callable[..., Any]:  # noqa: ANN401
    """A network compiled by torch.compile, with options of its inductor."""
    import torch  # noqa: PLC0415

    compiled: Callable[..., Any] = torch.inference_mode()(torch.compile(network, options=options))
    return compiled


def warm(make: Callable[[], Callable[..., Any]], fed: tuple[Any, ...]) -> Callable[[], Any]:
    """Make a callable and call it until it has compiled itself."""
    run = make()
    for _ in range(3):
        run(*fed)
    return lambda: run(*fed)


def as_arrays(outputs: Any) -> tuple[Array, ...]:  # noqa: ANN401
    """The outputs of a call: tensors, or one tensor."""
    return tuple(tensor.numpy() for tensor in (outputs if isinstance(outputs, tuple) else (outputs,)))


def fastest(ways: Sequence[Prepared], failures: Sequence[str]) -> Prepared:
    """The way that takes the least time, which also says what it was chosen from, and what failed."""
    samples = measure_interleaved([way.run for way in ways], TRIAL)
    seconds = [min(times.seconds) for times in samples]
    best = ways[seconds.index(min(seconds))]
    said = f"{best.how} (fastest of {', '.join(way.how for way in ways)})"
    return replace(best, how="; ".join([said, *failures]))
