"""Output forms of `autotune emit`."""

from collections.abc import Callable, Sequence
from pathlib import Path

from autotune.bundles.emit import KINDS, emit_bundle
from autotune.contrib.emit.c_library import write_c
from autotune.contrib.emit.c_source import SharedLibrary
from autotune.contrib.emit.cmake_package import write_cmake
from autotune.contrib.emit.onnx_model import write_onnx
from autotune.contrib.emit.variants import best_first, compile_sizes, compile_variants, level_of_sizes
from autotune.contrib.emit.weights import weights_of, weights_of_sizes
from autotune.contrib.emit.wheel import write_wheel
from autotune.core.c_names import c_name
from autotune.core.errors import BundleError
from autotune.registry import any_size_reader
from autotune.store.bundle import read_bundle
from autotune.worker.loading.reading import open_payload

FORMS: dict[str, Callable[[SharedLibrary, Path], list[Path]]] = {
    "c": write_c,
    "cmake": write_cmake,
    "wheel": write_wheel,
    "onnx": write_onnx,
}


def emit_as(
    bundles: Sequence[Path],
    form: str,
    output: Path,
    targets: tuple[str, ...] = (),
    weights: Path | None = None,
    payload: str | None = None,
) -> list[Path]:
    """Write the programs of bundles in a form.

    Args:
        bundles: Folders of bundles of one payload.
        form: One of `FORMS`, or of `KINDS` for the program alone.
        output: Folder to write to; created if missing.
        targets: Levels of x86-64; empty for those of the bundles.
        weights: Safetensors file of the weights.
        payload: File or folder of the payload, if the bundle does not find it.

    Returns:
        Files that were written.

    Raises:
        BundleError: A bundle is rejected, does not compile, or cannot be linked.
        MachineError: A target is unknown.
    """
    folders = list(filter(any_size_reader().is_one, bundles))
    if form in KINDS and folders:
        raise BundleError(f"--as {form} must be given one size, {folders[0]} holds a model of any size; use --as c")
    if form in KINDS and len(bundles) == 1 and not targets and weights is None:
        return emit_bundle(bundles[0], form, output)
    if form not in FORMS:
        raise BundleError(
            f"--as must be one of {', '.join((*FORMS, *KINDS))}, the last {len(KINDS)} of one bundle without --target "
            f"and --weights; got {form!r:.80}"
        )
    if folders:
        if len(bundles) > 1 or payload is not None:
            raise BundleError(
                f"a model of any size must be emitted alone, got {folders[0]} with another bundle or --payload; "
                "leave those out"
            )
        library = any_size_library(folders[0], output, targets, weights)
    else:
        library = one_size_library(bundles, output, targets, weights, payload)
    written = FORMS[form](library, output)
    return [*written, library.weights.path] if library.weights and weights is None else written


def one_size_library(
    bundles: Sequence[Path], output: Path, targets: tuple[str, ...], weights: Path | None, payload: str | None
) -> SharedLibrary:
    """Build the library of bundles; arguments are those of `emit_as`."""
    named = open_payload(payload) if payload is not None else None
    files = [read_bundle(folder, named) for folder in bundles]
    output.mkdir(parents=True, exist_ok=True)
    stem = c_name(files[0].payload.entry)
    values = weights_of(files[0], weights, output, stem)
    return SharedLibrary(files[0].payload, compile_variants(files, targets), values)


def any_size_library(
    folder: Path, output: Path, targets: tuple[str, ...] = (), weights: Path | None = None
) -> SharedLibrary:
    """Build the library of a model of any size; arguments are those of `emit_as`.

    Raises:
        BundleError: The model has states, or results whose size does not follow the open dimensions.
        MachineError: A target is unknown.
    """
    reader = any_size_reader()
    model = reader.read(folder, None)
    tuned = level_of_sizes(model)
    levels = best_first(targets, (tuned.name,))
    payload = model.programs[0].payload
    if any(len(dim.results) != len(payload.outputs) for dim in model.dims):
        raise BundleError(f"sizes of results must be those of open dimensions, not all of {folder} are; emit one size")
    if any(argument.role == "state" for argument in payload.arguments):
        raise BundleError(f"a model of any size must have no state, {folder} has one; emit one size")
    output.mkdir(parents=True, exist_ok=True)
    values = weights_of_sizes(model, weights, output, c_name(payload.entry))
    like = model.programs[0].machine
    sized = tuple(model if level is tuned else reader.read(folder, level.machine(like)) for level in levels)
    pairs = zip(sized, levels, strict=True)
    codes = [code for each, level in pairs for code in compile_sizes(each, level, tuned=level is tuned)]
    return SharedLibrary(payload, tuple(codes), values, sized)
