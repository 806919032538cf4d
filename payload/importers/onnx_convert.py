"""The converter of ONNX models, a process of its own: torch-mlir brings an MLIR that must not meet ours.

``python -m payload.importers.onnx_convert MODEL FOLDER [NAME=SIZE ...]``
"""

import copy
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.core.errors import PayloadError
from autotune.core.host.tensor_file import TensorInFile, map_entries
from autotune.core.payload import Array
from autotune.core.plugs.imported import SEEDS, ImportedModel, ModelArgument, hash_model
from autotune.core.printable import one_line
from payload.importers.converter import run_converter, say_stage
from payload.importers.folder import (
    kernel_argument,
    order_back,
    random_inputs,
    versions_of,
    weight_argument,
    with_outputs,
    write_folder,
)
from payload.importers.linalg import ONNX_TO_TORCH, UnsupportedError, cannot_lower, lower
from payload.importers.linalg_blocks import put_blocks
from payload.importers.onnx_attributes import check_all
from payload.importers.onnx_blocks import HeldWeight, multiply_rows
from payload.importers.onnx_control import write_steps
from payload.importers.onnx_domains import every_node, graphs_of, use_standard_ops
from payload.importers.onnx_files import external_files, lying_in_files
from payload.importers.onnx_grids import OUTSIDE, grids_of
from payload.importers.onnx_nodes import dtype_of, facts_of, of
from payload.importers.onnx_oracle import ask_reference, inputs_of
from payload.importers.onnx_phases import write_phases
from payload.importers.onnx_plain import FIRST, define, name_shapes, rewrite_nodes, write_plainly
from payload.importers.onnx_pools import end_next_pool
from payload.importers.onnx_quantised import is_quantised, write_in_integers
from payload.importers.onnx_quantised_checks import OF_BLOCKS, check_numbers, check_scales
from payload.importers.onnx_runtime import ask_runtime
from payload.importers.onnx_sizes import fix_sizes
from payload.importers.onnx_types import check_results
from payload.importers.onnx_unsigned import widen_unsigned
from payload.importers.onnx_values import (
    check_tensors,
    fold_constants,
    give_settings_back,
    index_bounds,
    kernels_of,
    replace_all,
    take_weights,
    weights_of,
)
from payload.importers.onnx_volumes import write_planes

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

ENTRY = "main"
MOST_DEFINED = 16  # kinds of ops that are written as ONNX defines them
SHORT = ("int16", "uint16")
READ = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 32, 64)),
)
MOST_NAMED = 3  # nodes of those that cannot be lowered
DEPENDS = "the size of what it gives depends on data"
LOCATION_PREFIX = "node "  # what names of locations in torch-mlir begin with


def notes_of_blocks(graph: "GraphProto", held: Mapping[str, HeldWeight]) -> list[str]:
    """A note on the weights in blocks of a graph that are widened: how many there are, and the first ones."""
    kept = {weight.node for weight in held.values()}
    found = [node for node in graph.node if node.op_type in OF_BLOCKS and of(node, "block_size", 0)]
    found = [node for node in found if node.output[0] not in kept]
    if not found:
        return []
    named = ", ".join(one_line(node.name or node.output[0])[:50] for node in found[:MOST_NAMED])
    more = ", .." if len(found) > MOST_NAMED else ""
    return [f"weights in blocks are held and multiplied in f32, {len(found)} in all: {named}{more}"]


def convert(path: Path, folder: Path, sizes: Mapping[str, int]) -> None:
    """Read a model and write a folder.

    Raises:
        UnsupportedError: The file is no model, or one that cannot be imported.
    """
    say_stage(f"importing {path.name}: reading it")
    read = read_model(path, sizes)
    model, weights = read.model, dict(read.weights)
    graph = model.graph
    quantised = is_quantised(graph)
    in_real = write_in_integers(model, weights) if quantised else []
    while fold_constants(model, weights):
        fix_sizes(model, {}, weights)
    write_steps(model, weights)
    weights |= take_weights(graph)
    fix_sizes(model, {}, weights)
    check_all(graph)
    if rewrite_nodes(graph, FIRST):
        fix_sizes(model, {}, weights)
    while end_next_pool(model):
        fix_sizes(model, {}, weights)
    known = facts_of(graph)
    bounds = index_bounds(graph, known.shapes, known.kinds)
    asked = [tensor for tensor in graph.input if tensor.name not in weights]
    grids = grids_of(graph)
    given = [argument_of(tensor, bounds, grids) for tensor in asked]
    kinds = {tensor.name: shape_and_dtype(tensor) for tensor in asked}
    check_results(model, read.results)
    inputs = [random_inputs(given, kinds, seed) for seed in SEEDS]
    say_stage(f"importing {path.name}: computing what it gives, by ONNX's own reference")
    recorded = ask_reference(model, weights, inputs, wide=not quantised)
    say_stage(f"importing {path.name}: computing what it gives, by ONNX Runtime where that is installed")
    results, oracle = ask_runtime(path, model, weights, inputs, recorded)
    say_stage(f"importing {path.name}: converting it to linalg, by torch-mlir")
    widen_unsigned(model, weights)
    write_phases(model, weights)
    write_planes(model, weights)
    write_plainly(model)
    weights |= take_weights(graph)
    held = {name: weight for name, weight in read.held.items() if name in weights}
    arguments = {
        n: ModelArgument(n, "weight") if n in held else weight_argument(n, array) for n, array in weights.items()
    }
    arguments |= {
        name: kernel_argument(arguments[name], weights[name].shape, groups)
        for name, groups in kernels_of(graph, weights).items()
    }
    arrange_kernels(graph, arguments)
    multiply_rows(graph, held)
    fix_sizes(model, {}, arguments)
    in_arrays = {name: array for name, array in weights.items() if name not in held}
    order, text = [tensor.name for tensor in graph.input], lowered(model, arguments, in_arrays)
    text, numbers = put_blocks(text, {order.index(name): weight for name, weight in held.items()})
    weights, arguments = with_blocks(weights, arguments, held, [order[number] for number in numbers])
    described = ImportedModel(
        arguments=(*given, *arguments.values()),
        source=path.name,
        sha256=hash_model(path, external_files(path)),
        importer="onnx",
        oracle=oracle,
        versions=versions_of("torch-mlir", "onnx", "onnxruntime", "numpy"),
        notes=(*(f"{node} is computed in real numbers between its roundings" for node in in_real), *read.notes),
    )
    described = with_outputs(described, [output.name for output in graph.output])
    lying = {name: entry for name, entry in read.lying.items() if weights.get(name) is read.weights[name]}
    keep = partial(keep_model, path, sizes)
    write_folder(folder, text, described, weights, inputs=inputs, results=results, keep=keep, lying=lying, source=path)


def with_blocks(
    weights: Mapping[str, Array],
    arguments: Mapping[str, ModelArgument],
    held: Mapping[str, HeldWeight],
    gone: Sequence[str],
) -> tuple[dict[str, Array], dict[str, ModelArgument]]:
    """Weights and their arguments, once some of those in blocks were put in.

    Args:
        weights: Values by name.
        arguments: Argument of each, in order.
        held: Weights in blocks, by the name of what they are in f32.
        gone: Names of those whose parts follow behind all other arguments; the others stay in f32.
    """
    stored = {f"{name}{end}": array for name in gone for end, array in held[name].parts.items()}
    widened = {name: np.asarray(weights[name]) for name in held.keys() - set(gone)}
    values = {name: array for name, array in weights.items() if name not in held} | widened | stored
    kept = {name: argument for name, argument in arguments.items() if name not in gone}
    kept |= {name: weight_argument(name, array) for name, array in widened.items()}
    return values, kept | {name: weight_argument(name, array) for name, array in stored.items()}


@dataclass(frozen=True)
class ReadModel:
    """A model as it was read.

    Attributes:
        model: The model, in standard ops; weights are inputs of its graph.
        weights: Values of the weights, by name.
        lying: Positions of those that are in files beside the model's own.
        notes: Notes on what standard ops cannot say, a sentence each.
        held: Weights that stay in blocks, by the name of the input that they are in f32.
        results: Results as the file declares them.
    """

    model: "ModelProto"
    weights: Mapping[str, Array]
    lying: Mapping[str, TensorInFile]
    notes: list[str]
    held: "Mapping[str, HeldWeight]"
    results: "Sequence[ValueInfoProto]"


def read_model(path: Path, sizes: Mapping[str, int]) -> ReadModel:
    """Parse a file, take its weights out, and write it in standard ops; weights in other files are mapped there.

    Args:
        path: File to read.
        sizes: Sizes of dimensions that the model leaves open, by name.

    Raises:
        UnsupportedError: The file is no ONNX model, or its weights are missing; or it holds an op that is neither
            standard nor defined here.
    """
    import onnx  # noqa: PLC0415 - comes with an extra

    try:
        model = onnx.load(path, load_external_data=False)
        check_names(model.graph, sizes)
        check_numbers(model.graph)
        check_tensors(model.graph)
        lying = lying_in_files(model.graph, weights_of(model.graph), path)
        weights = take_weights(model.graph, map_entries(lying))
        onnx.load_external_data_for_model(model, str(path.parent))
        check_scales(model.graph, weights)
        light = copy.deepcopy(model)  # what was taken out is given up with the whole alone
        held = use_standard_ops(light, sizes, weights)
        give_settings_back(light.graph, weights)
        checked = copy.deepcopy(light)
        for tensor in checked.graph.output:  # a loop's results have no shape before its steps are written out
            tensor.type.tensor_type.shape.SetInParent()
        onnx.checker.check_model(checked, full_check=False)
    except PayloadError as error:
        raise UnsupportedError(str(error)) from error
    except UnsupportedError:
        raise
    except Exception as error:  # protobuf, checker and files each raise their own
        raise UnsupportedError(
            f"it is no valid ONNX model: {' '.join(str(error).split())[:200]}; export it again"
        ) from error
    return ReadModel(light, weights, lying, notes_of_blocks(model.graph, held), held, model.graph.output)


def check_names(graph: "GraphProto", sizes: Mapping[str, int]) -> None:
    """Raise unless sizes are of dimensions that a model leaves open.

    Raises:
        UnsupportedError: A size is of another dimension.
    """
    dims = [dim for tensor in [*graph.input, *graph.output] for dim in tensor.type.tensor_type.shape.dim]
    left = sorted({dim.dim_param for dim in dims if dim.dim_param})
    unknown = [one_line(name)[:50] for name in sizes if name not in left]
    if unknown:
        known = ", ".join(one_line(name)[:50] for name in left[:MOST_NAMED]) + (", .." if left[MOST_NAMED:] else "")
        raise UnsupportedError(
            f"sizes must be of dimensions that it leaves open ({known or 'none'}), got {', '.join(unknown)}; "
            "leave them out"
        )


def keep_model(path: Path, sizes: Mapping[str, int], target: Path) -> None:
    """Write a model to another file, its weights in the file, at the sizes it was imported at."""
    import onnx  # noqa: PLC0415

    model = onnx.load(path, load_external_data=False)
    if not sizes and not any(map(onnx.external_data_helper.uses_external_data, model.graph.initializer)):
        shutil.copyfile(path, target)
        return
    onnx.load_external_data_for_model(model, str(path.parent))
    for tensor in [*model.graph.input, *model.graph.output]:
        for dim in tensor.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    onnx.save(model, target)


def shape_and_dtype(tensor: "ValueInfoProto") -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of a graph's input.

    Raises:
        UnsupportedError: The input is no tensor, or one of a type that programs do not read.
    """
    from onnx import TensorProto  # noqa: PLC0415 - comes with an extra

    kind = tensor.type.tensor_type
    if not kind.elem_type:
        raise UnsupportedError(f"input {tensor.name} must be a tensor, it is none; export the model without it")
    dtype = dtype_of(kind.elem_type)
    if dtype.name in SHORT:
        raise UnsupportedError(f"input {tensor.name} must not hold integers of 16 bits, it does; cast it in the model")
    if dtype.name not in READ:
        what = TensorProto.DataType.Name(kind.elem_type).lower()
        raise UnsupportedError(
            f"input {tensor.name} must hold numbers that programs read, it is of {what}; cast it before"
        )
    return tuple(dim.dim_value for dim in kind.shape.dim), dtype


def argument_of(tensor: "ValueInfoProto", bounds: Mapping[str, int], grids: Collection[str] = ()) -> ModelArgument:
    """An input: integers are indices where they are used as such, bytes any else, and others 0 and 1.

    Coordinates in images lie outside of them, too.
    """
    _, dtype = shape_and_dtype(tensor)
    if dtype.kind in "iu" and dtype.itemsize == 1 and tensor.name not in bounds:
        ends = np.iinfo(dtype)
        return ModelArgument(tensor.name, "input", float(ends.min), float(ends.max) + 1)
    if dtype.kind in "iub":
        return ModelArgument(tensor.name, "input", 0, bounds.get(tensor.name, 2))
    if tensor.name in grids:
        return ModelArgument(tensor.name, "input", -OUTSIDE, OUTSIDE)
    return ModelArgument(tensor.name, "input")


def arrange_kernels(graph: "GraphProto", arguments: Mapping[str, ModelArgument]) -> None:
    """Let weights that are stored otherwise be inputs of that shape, and their uses read them from there, in place.

    The graph gets the name of the payload's function.
    """
    from onnx import numpy_helper  # noqa: PLC0415
    from onnx.helper import make_node, make_tensor_value_info  # noqa: PLC0415

    inputs, first = [], []
    for tensor in graph.input:
        argument = arguments.get(tensor.name)
        if argument is None or not argument.order:
            inputs.append(tensor)
            continue
        name, shape, kind = tensor.name, f"{tensor.name}_shape", tensor.type.tensor_type
        inputs.append(make_tensor_value_info(f"{name}_arranged", kind.elem_type, list(argument.shape)))
        whole = [dim.dim_value for dim in kind.shape.dim]
        parts = argument.split or whole
        graph.initializer.append(numpy_helper.from_array(np.array([parts[d] for d in argument.order]), shape))
        first.append(make_node("Reshape", [f"{name}_arranged", shape], [f"{name}_places"]))
        transposed = f"{name}_parts" if argument.split else name
        first.append(make_node("Transpose", [f"{name}_places"], [transposed], perm=order_back(argument.order)))
        if argument.split:
            graph.initializer.append(numpy_helper.from_array(np.array(whole), f"{name}_whole"))
            first.append(make_node("Reshape", [transposed, f"{name}_whole"], [name]))
    replace_all(graph.input, inputs)
    replace_all(graph.node, [*first, *graph.node])
    graph.name = ENTRY


def lowered(model: "ModelProto", arguments: Collection[str], weights: Mapping[str, Array]) -> str:
    """The text of a model; an op that torch-mlir does not know is written as ONNX defines it, where it does.

    Args:
        model: The model.
        arguments: Names of all its weights.
        weights: Values of those that are held as arrays.

    Raises:
        UnsupportedError: Neither knows an op.
    """
    for _ in range(MOST_DEFINED):
        try:
            text = to_linalg(model, weights)
        except UnsupportedError as error:
            guilty = guilty_node(model.graph, error)
            ops = {error.op.removeprefix("onnx."), guilty.op_type if guilty is not None else ""}
            is_written = any(define(model, op) for op in ops if op) or write_steps(model, {}, arguments, both=True)
            if not is_written:
                raise refusal_of(model, guilty, error) from error
            fix_sizes(model, {}, arguments)
            name_shapes(model.graph)
            fold_constants(model, {})
            fix_sizes(model, {}, arguments)
            write_steps(model, {}, arguments)
        else:
            check_sizes(model, text)
            return text
    return to_linalg(model, weights)


def guilty_node(graph: "GraphProto", error: UnsupportedError) -> "NodeProto | None":
    """The node that an error is about, where it says its location."""
    number = error.location.removeprefix(LOCATION_PREFIX)
    return graph.node[int(number)] if number.isdigit() and int(number) < len(graph.node) else None


def refusal_of(model: "ModelProto", guilty: "NodeProto | None", error: UnsupportedError) -> UnsupportedError:
    """The error, said of the user's nodes: of the one that it names, else of those that cannot be lowered alone."""
    open_ended = open_ended_node(model.graph)
    if open_ended is not None and guilty in (None, open_ended):
        return cannot_lower(open_ended.doc_string, DEPENDS)
    if guilty is not None:
        return cannot_lower(guilty.doc_string, error.why)
    alone = lowered_alone(model)
    if not alone:
        return error
    whats = list(dict.fromkeys(node.doc_string for node, _ in alone))
    more = f" and {len(whats) - MOST_NAMED} more" if len(whats) > MOST_NAMED else ""
    return cannot_lower(", ".join(whats[:MOST_NAMED]) + more, alone[0][1].why or str(alone[0][1]))


def open_ended_node(graph: "GraphProto") -> "NodeProto | None":
    """The first node that gives a tensor of a size that is not known, though those of all that it reads are."""
    shapes = facts_of(graph).shapes
    for node in graph.node:
        if any(name not in shapes for name in node.output if name):
            return node if all(name in shapes for name in node.input if name) else None
    return None


def check_sizes(model: "ModelProto", text: str) -> None:
    """Refuse a text whose function gives tensors of sizes that are not known.

    Raises:
        UnsupportedError: Such a size is not known; the error names the node that it comes from.
    """
    head = next((line for line in text.splitlines() if f"@{ENTRY}(" in line), "")
    if "?" in head:
        node = open_ended_node(model.graph)
        raise cannot_lower(node.doc_string if node is not None else "its result", DEPENDS)


def lowered_alone(model: "ModelProto") -> "list[tuple[NodeProto, UnsupportedError]]":
    """Nodes of a model that cannot be lowered as models of one node, each with what is wrong with it."""
    from onnx import helper  # noqa: PLC0415

    graph, found = model.graph, list[tuple["NodeProto", UnsupportedError]]()
    typed = {value.name: value for value in [*graph.input, *graph.value_info, *graph.output]}
    held = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        read = list(dict.fromkeys(inputs_of(node)))
        inputs = [typed[name] for name in read if name in typed and name not in held]
        outputs = [typed.get(name) or helper.make_empty_tensor_value_info(name) for name in node.output if name]
        single = helper.make_graph([node], ENTRY, inputs, outputs, [held[name] for name in read if name in held])
        try:
            to_linalg(helper.make_model(single, opset_imports=model.opset_import, ir_version=model.ir_version), {})
        except UnsupportedError as error:
            found.append((node, error))
    return found


def name_locations(node: "NodeProto", name: str) -> None:
    """Give a node, and all in graphs inside it, a name by which torch-mlir's errors tell where they are; in place."""
    for each in (node, *(inner for graph in graphs_of(node) for inner in every_node(graph))):
        each.name = name


def to_linalg(model: "ModelProto", weights: Mapping[str, Array]) -> str:
    """The text of a model.

    Args:
        model: The model.
        weights: Values of inputs that are weights, by name.

    Raises:
        UnsupportedError: torch-mlir does not know an op.
    """
    from torch_mlir.dialects import torch as dialect  # noqa: PLC0415
    from torch_mlir.extras import onnx_importer  # noqa: PLC0415
    from torch_mlir.ir import Context  # noqa: PLC0415

    for number, node in enumerate(model.graph.node):
        name_locations(node, f"{LOCATION_PREFIX}{number}")
    context = Context()
    dialect.register_dialect(context)
    info = onnx_importer.ModelInfo(model)
    try:
        module = info.create_module(context=context)
        onnx_importer.NodeImporter.define_function(info.main_graph, module.operation).import_all()
    except onnx_importer.OnnxImportError as error:
        raise UnsupportedError(f"torch-mlir cannot read it: {' '.join(str(error).split())[:200]}") from error
    numbered = enumerate(tensor.name for tensor in model.graph.input)
    return lower(module, ONNX_TO_TORCH, {number: weights[name] for number, name in numbered if name in weights})


if __name__ == "__main__":
    run_converter(convert)
