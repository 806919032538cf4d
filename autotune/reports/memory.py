"""Memory use of a bundle's program besides its weights."""

from math import prod

from autotune.core.payload import DTYPES, Argument
from autotune.reports.format import size
from autotune.store.bundle import BundleFiles
from autotune.store.records import WeightRecord


def memory_beside_weights(bundle: BundleFiles) -> str:
    """Return a sentence on the memory for states, panels, arena, inputs and results; empty without states."""
    arguments, manifest = bundle.payload.arguments, bundle.manifest
    states = [argument for argument in arguments if argument.role == "state"]
    if not states:
        return ""
    parts = {
        f"state ({', '.join(shaped(argument) for argument in states)})": sum(argument.bytes for argument in states),
        "panels of weights": sum(panel_bytes(weight, arguments) for weight in manifest.weights),
        "arena": manifest.buffers.peak_bytes if manifest.buffers is not None else 0,
        "inputs and results": sum(a.bytes for a in arguments if a.role in ("input", "output")),
    }
    weights = sum(argument.bytes for argument in arguments if argument.role == "weight")
    listed = ", ".join(f"{name} {size(count)}" for name, count in parts.items() if count)
    return f"beside {size(weights)} of weights, memory for {size(sum(parts.values()))}: {listed}"


def shaped(argument: Argument) -> str:
    """Format an argument's name and shape."""
    return f"{argument.name} {'x'.join(map(str, argument.shape))}"


def panel_bytes(weight: WeightRecord, arguments: tuple[Argument, ...]) -> int:
    """Return the bytes of a packed weight."""
    dtype = next(argument.dtype for argument in arguments if argument.name == weight.argument)
    return prod(weight.stored_shape) * DTYPES[weight.dtype(dtype)].itemsize
