"""From a region of a graph to its program: exported, imported in a process of its own, scheduled, compiled, kept.

Imported when a program is made, and not where all are kept: what it imports takes longer than to load a kept one.
"""

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from autotune.bundles.call import compile_candidate
from autotune.bundles.candidates import recorded_candidate
from autotune.compiler.lowering.program import PACKED_ENTRY, Program
from autotune.compiler.tasks.payload_folder import read_description
from autotune.contrib.torch_backend.exported import to_exported
from autotune.contrib.torch_backend.kept import Kept, KeptArgument, KeptPanels, keep
from autotune.contrib.torch_backend.options import BackendOptions
from autotune.contrib.torch_backend.programs import GraphRegion
from autotune.core.errors import PayloadError
from autotune.core.host.machine import this_machine
from autotune.core.listener import SILENT
from autotune.core.payload import Array, Payload
from autotune.core.plugs.imported import ImportedModel, ModelArgument
from autotune.store.bundle import read_bundle
from autotune.tuning.default_program import default_candidate
from autotune.worker.loading.importing import import_model
from autotune.worker.loading.reading import open_payload, partition

WEIGHT = re.compile(r"p_w(\d+)")  # what `exported` calls weights


def make_program(
    region: GraphRegion, tensors: Sequence[torch.Tensor | None], options: BackendOptions, key: str
) -> Kept:
    """Make the program of a region, and keep it under its key; arguments and errors are those of `program_of`."""
    program = to_exported(region, tensors)
    with tempfile.TemporaryDirectory(prefix="autotune-") as scratch:
        place = options.folder / f"{key}-search" if options.trials else Path(scratch)
        place.mkdir(parents=True, exist_ok=True)
        if not (place / "model").is_dir():
            torch.export.save(program, Path(scratch) / "region.pt2")
            import_model(str(Path(scratch) / "region.pt2"), place / "model")
        return compile_region(region, place, options, key)


def compile_region(region: GraphRegion, place: Path, options: BackendOptions, key: str) -> Kept:
    """Compile what was imported into a folder, after a search if one is asked for, and keep it.

    Raises:
        AutotuneError: The program does not compile, or the search fails.
    """
    payload, model = open_payload(str(place / "model")), read_description(place / "model")
    if options.trials:
        from autotune.tuning.front import tune  # heavy: samplers

        bundle = place / "bundle"
        tune(payload, store=options.folder / "trials.journal", bundle=bundle, listener=SILENT, **options.search)
        files = read_bundle(bundle)
        program = compile_candidate(files.payload, recorded_candidate(files))
    else:
        program = compile_candidate(payload, default_candidate(partition(payload), this_machine(options.threads)))
    arguments, constants = arguments_of(region, payload, model, program)
    panels = [KeptPanels(**asdict(weight)) for weight in program.weights]
    return keep(
        options.folder / key,
        arguments,
        panels,
        PACKED_ENTRY,
        program.object_code(),
        constants,
        searched=options.trials,
        error=options.error,
    )


def arguments_of(
    region: GraphRegion, payload: Payload, model: ImportedModel, program: Program
) -> tuple[list[KeptArgument], dict[str, Array]]:
    """What a program is given, in order, and values of constants, by name.

    Raises:
        PayloadError: The payload gives other results than the region.
    """
    inputs = iter([number for number, held in enumerate(region.held) if not held])
    weights = [number for number, held in enumerate(region.held) if held == "weight"]
    results = iter(range(len(region.results)))
    values = payload.make_inputs(0)
    found, constants = [], dict[str, Array]()
    for argument, said in zip(payload.arguments, model.arguments, strict=True):
        shape, kind, named = argument.shape, argument.dtype, WEIGHT.fullmatch(said.name)
        if argument.role == "output":
            found.append(KeptArgument("output", next(results), shape, kind))
        elif argument.role == "input":
            found.append(KeptArgument("input", next(inputs), shape, kind, accepts=argument.accepts))
        elif named is not None:
            found.append(KeptArgument("weight", weights[int(named[1])], shape, kind, order=order_of(said)))
        else:
            constants[argument.name] = values[argument.name]
            found.append(KeptArgument("constant", len(constants) - 1, shape, kind, name=argument.name))
    check_types(region, found)
    for number, weight in enumerate(program.weights):
        added = weight.argument(payload.arguments[weight.source])
        found.append(KeptArgument("panels", number, added.shape, added.dtype))
    return found, constants


def order_of(said: ModelArgument) -> tuple[int, ...]:
    """Order of the dimensions of a weight in a program."""
    return said.order


def check_types(region: GraphRegion, arguments: Sequence[KeptArgument]) -> None:
    """Refuse a program that reads or writes other element types, or another number of elements, than PyTorch has.

    Raises:
        PayloadError: An argument is such.
    """
    places: Mapping[str, Sequence[torch.Tensor]] = {
        "output": region.results,
        "input": (given := [node.meta["val"] for node in region.placeholders]),
        "weight": given,
    }
    for each in arguments:
        if each.source not in places:
            continue
        like = places[each.source][each.number]
        if each.bytes != like.numel() * like.element_size():
            raise PayloadError(
                f"a tensor of {like.numel()} {like.dtype} must stay one, it is {each.shape} {each.dtype}"
            )
