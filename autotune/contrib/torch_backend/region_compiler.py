"""Compilation of a region of a graph: export, import in a separate process, scheduling, code generation, caching.

This module is only imported to compile a program, since importing it takes longer than loading a cached program.
"""

import re
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_flatten, tree_map

from autotune.bundles.call import compile_candidate, compile_default
from autotune.bundles.candidates import recorded_candidate
from autotune.compiler.lowering.program import PACKED_ENTRY, CompiledProgram
from autotune.compiler.tasks.payload_folder import read_description
from autotune.contrib.torch_backend.cached_programs import CachedProgram, ProgramArgument, write_program
from autotune.contrib.torch_backend.options import BackendOptions, check_store, unwritable
from autotune.contrib.torch_backend.regions import GraphRegion, allowed_error, warn_once
from autotune.core.errors import OptionError, PayloadError, RefusedModelError
from autotune.core.host.files import why_refused
from autotune.core.host.machine import this_machine
from autotune.core.listener import SILENT, NoteKeeper
from autotune.core.payload import Array, Payload
from autotune.core.plugs.imported import ImportedModel
from autotune.registry import family_for
from autotune.store.bundle import read_bundle
from autotune.tuning.half_results import family_as_typed
from autotune.worker.loading.importing import import_model
from autotune.worker.loading.reading import open_payload

WEIGHT = re.compile(r"p_w(\d+)(.*)")  # name by `to_exported`, and the importer's suffix for a derived weight
PREFIX = {"weight": "p_", "constant": "b_", "": ""}
METADATA_BYTES = 1 << 20  # bytes of a saved program besides its weights
SAVING = threading.Lock()  # PyTorch refuses to save a program while another thread does
RANK = {"weight": 0, "constant": 1, "": 2}  # parameters, buffers, then inputs, as `torch.export` orders them


def make_program(
    region: GraphRegion, tensors: Sequence[torch.Tensor | None], options: BackendOptions, key: str
) -> CachedProgram:
    """Compile the program of a region and cache it under its key; arguments and errors are those of `program_of`."""
    program = to_exported(region, tensors)
    with tempfile.TemporaryDirectory(prefix="autotune-") as scratch:
        folder = options.folder / f"{key}-search" if options.trials else Path(scratch)
        check_store(folder)
        try:
            if not (folder / "model").is_dir():
                source = folder / "region.pt2"  # beside the folder, which may refer to the weights in it
                check_room(folder, program)
                with SAVING:
                    torch.export.save(program, source)
                import_region(source, folder / "model")
                if not read_description(folder / "model").original:
                    source.unlink()
            return compile_region(region, folder, options, key)
        except OSError as error:
            raise unwritable(folder, why_refused(error)) from error


def import_region(source: Path, folder: Path) -> None:
    """Import the file of a region into a folder.

    Raises:
        PayloadError: The region cannot be imported; the message does not name the temporary file.
    """
    try:
        import_model(str(source), folder)
    except PayloadError as error:
        raise type(error)(str(error).replace(str(source), "it")) from error


def check_room(folder: Path, program: ExportedProgram) -> None:
    """Check that a folder has space for a program, since PyTorch aborts the process if it cannot write all of it.

    Raises:
        OptionError: There is not enough space.
    """
    needed = METADATA_BYTES + sum(tensor.numel() * tensor.element_size() for tensor in program.state_dict.values())
    if (free := shutil.disk_usage(folder).free) < needed:
        raise OptionError(
            f"{folder} must have room for {needed} bytes of a program, {free} are free; "
            "make room there, or name another folder by the option store and the variable TMPDIR"
        )


def compile_region(region: GraphRegion, path: Path, options: BackendOptions, key: str) -> CachedProgram:
    """Compile an imported region, after a search if the options request trials, and cache it.

    Raises:
        AutotuneError: The program does not compile, or the search fails.
    """
    payload, model = open_payload(str(path / "model")), read_description(path / "model")
    if options.trials:
        from autotune.tuning.front import tune  # heavy: samplers

        bundle = path / "bundle"
        tune(payload, store=options.folder / "trials.journal", bundle=bundle, listener=SILENT, **options.search)
        files = read_bundle(bundle)
        program = compile_candidate(files.payload, recorded_candidate(files))
    else:
        choose = family_for if options.error == 0 else family_as_typed
        keeper = NoteKeeper()
        program = compile_default(payload, this_machine(options.threads), choose, keeper)
        for note in keeper.notes:
            warn_once(f"backend autotune: {note}")
    arguments, constants = arguments_of(region, payload, model, program)
    return write_program(
        options.folder / key,
        arguments,
        program.weights,
        PACKED_ENTRY,
        program.object_code(),
        constants,
        searched=options.trials,
        error=allowed_error(options.error, region.results),
    )


def arguments_of(
    region: GraphRegion, payload: Payload, model: ImportedModel, program: CompiledProgram
) -> tuple[list[ProgramArgument], dict[str, Array]]:
    """Return the arguments of a program in order, and the values of constants by name.

    Raises:
        RefusedModelError: The payload has other results than the region, or holds a value derived from a weight, which
            would be stale when the weight changes.
    """
    inputs = iter([number for number, kind in enumerate(region.kinds) if not kind])
    weights = [number for number, kind in enumerate(region.kinds) if kind == "weight"]
    results = iter(range(len(region.results)))
    values = payload.make_inputs(0)
    arguments, constants = [], dict[str, Array]()
    for argument, imported in zip(payload.arguments, model.arguments, strict=True):
        shape, dtype, weight_match = argument.shape, argument.dtype, WEIGHT.fullmatch(imported.name)
        if argument.role == "output":
            arguments.append(ProgramArgument("output", next(results), shape, dtype))
        elif argument.role == "input":
            arguments.append(ProgramArgument("input", next(inputs), shape, dtype, accepts=argument.accepts))
        elif weight_match is not None and weight_match[2]:
            raise RefusedModelError(f"a weight must be read as it is, {imported.name} is made of one")
        elif weight_match is not None:
            number = weights[int(weight_match[1])]
            arguments.append(
                ProgramArgument("weight", number, shape, dtype, order=imported.order, split=imported.split)
            )
        else:
            constants[argument.name] = values[argument.name]
            arguments.append(ProgramArgument("constant", len(constants) - 1, shape, dtype, name=argument.name))
    check_types(region, arguments)
    for number, weight in enumerate(program.weights):
        panel = weight.argument(payload.arguments[weight.source])
        arguments.append(ProgramArgument("panels", number, panel.shape, panel.dtype))
    return arguments, constants


def check_types(region: GraphRegion, arguments: Sequence[ProgramArgument]) -> None:
    """Check that the arguments of a program have the same sizes in bytes as PyTorch's tensors.

    Raises:
        RefusedModelError: An argument has another size.
    """
    tensors: Mapping[str, Sequence[torch.Tensor]] = {
        "output": region.results,
        "input": (inputs := [node.meta["val"] for node in region.placeholders]),
        "weight": inputs,
    }
    for each in arguments:
        if each.source not in tensors:
            continue
        like = tensors[each.source][each.number]
        if each.bytes != like.numel() * like.element_size():
            raise RefusedModelError(
                f"a tensor of {like.numel()} {like.dtype} must stay one, it is {each.shape} {each.dtype}"
            )


def to_exported(region: GraphRegion, tensors: Sequence[torch.Tensor | None]) -> ExportedProgram:
    """Convert a region to an exported program with weights as parameters ``w0, w1, ..`` and constants as buffers.

    Args:
        region: The region.
        tensors: Tensor of each placeholder; `None` for varying inputs.
    """
    graph, copies, specs = Graph(), {}, []
    mode = FakeTensorMode()  # a separate one: Dynamo's has guards on the user's names
    state: dict[str, torch.Tensor] = {}
    examples = []
    placeholders = list(zip(region.placeholders, region.kinds, tensors, strict=True))
    counts = dict.fromkeys(RANK, 0)
    for node, kind, tensor in sorted(placeholders, key=lambda each: RANK[each[1]]):
        number, counts[kind] = counts[kind], counts[kind] + 1
        name = {"weight": f"w{number}", "constant": f"c{number}", "": f"x{number}"}[kind]
        copies[node] = copy = graph.placeholder(PREFIX[kind] + name)
        copy.meta["val"] = like(mode, node.meta["val"])
        argument = TensorArgument(copy.name)
        plain = tensor.detach().contiguous() if tensor is not None else None
        if kind == "weight":
            state[name] = nn.Parameter(plain, requires_grad=False)
            specs.append(InputSpec(InputKind.PARAMETER, argument, name))
        elif kind == "constant":
            state[name] = plain
            specs.append(InputSpec(InputKind.BUFFER, argument, name, persistent=True))
        else:
            examples.append(example_of(node, plain))
            specs.append(InputSpec(InputKind.USER_INPUT, argument, None))
    for node in region.graph.nodes:
        if node.op == "call_function":
            copies[node] = graph.node_copy(node, copies.__getitem__)
            copies[node].meta = {"val": tree_map(partial(like, mode), node.meta["val"])}
    results = tuple(copies[node] for node in region.graph.output_node().args[0])
    graph.output(results)
    output_specs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in results]
    in_spec, out_spec = tree_flatten((tuple(examples), {}))[1], tree_flatten(results)[1]
    calls = [ModuleCallEntry("", ModuleCallSignature([], [], in_spec, out_spec))]
    return ExportedProgram(
        GraphModule(nn.Module(), graph),
        graph,
        ExportGraphSignature(specs, output_specs),
        state,
        {},
        calls,
        (tuple(examples), {}),
        {},
    )


def example_of(node: Node, tensor: torch.Tensor | None) -> torch.Tensor:
    """Return an example input of a program: the integers if they are known, else zeros."""
    value = node.meta["val"]
    if tensor is not None and not value.is_floating_point():
        return tensor.clone()
    return torch.zeros(tuple(value.shape), dtype=value.dtype, device="cpu")


def like(mode: FakeTensorMode, value: Any) -> Any:  # noqa: ANN401 - results of a node
    """Convert a tensor to a fake tensor of the same sizes, strides and element type; keep other values."""
    if not isinstance(value, torch.Tensor):
        return value
    with mode:
        return torch.empty_strided(tuple(map(int, value.shape)), tuple(map(int, value.stride())), dtype=value.dtype)
