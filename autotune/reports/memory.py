"""Memory that a bundle's program takes beside its weights, for whoever asks whether a model fits."""

from math import prod

from autotune.core.payload import DTYPES, Argument
from autotune.reports.format import size
from autotune.store.bundle import BundleFiles
from autotune.store.records import WeightRecord


def memory_beside_weights(bundle: BundleFiles) -> str:
    """What caches, panels, arena, inputs and results take, a sentence; empty where a program keeps no state."""
    arguments, manifest = bundle.payload.arguments, bundle.manifest
    kept = [argument for argument in arguments if argument.role == "state"]
    if not kept:
        return ""
    parts = {
        f"state ({', '.join(shaped(argument) for argument in kept)})": sum(argument.bytes for argument in kept),
        "panels of weights": sum(panel_bytes(weight, arguments) for weight in manifest.weights),
        "arena": manifest.buffers.peak_bytes if manifest.buffers is not None else 0,
        "inputs and results": sum(a.bytes for a in arguments if a.role in ("input", "output")),
    }
    weights = sum(argument.bytes for argument in arguments if argument.role == "weight")
    listed = ", ".join(f"{name} {size(count)}" for name, count in parts.items() if count)
    return f"beside {size(weights)} of weights, memory for {size(sum(parts.values()))}: {listed}"


def shaped(argument: Argument) -> str:
    """An argument with its sizes."""
    return f"{argument.name} {'x'.join(map(str, argument.shape))}"


def panel_bytes(weight: WeightRecord, arguments: tuple[Argument, ...]) -> int:
    """Bytes of a weight as a program reads it, besides the weight itself."""
    dtype = next(argument.dtype for argument in arguments if argument.name == weight.argument)
    return prod(weight.stored_shape) * DTYPES[weight.dtype(dtype)].itemsize
