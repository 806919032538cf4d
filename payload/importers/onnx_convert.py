"""Converter of ONNX models, run in a subprocess because torch-mlir brings its own MLIR, which cannot coexist with ours.

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
from payload.importers.onnx_blocks import BlockWeight, multiply_rows
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
MOST_DEFINED = 16  # op types that are expanded to their ONNX function definitions
SHORT = ("int16", "uint16")
READ = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 32, 64)),
)
MOST_NAMED = 3  # maximum number of names listed in a message
DEPENDS = "the size of what it gives depends on data"
LOCATION_PREFIX = "node "  # prefix of the location names passed to torch-mlir


def notes_of_blocks(graph: "GraphProto", block_weights: Mapping[str, BlockWeight]) -> list[str]:
    """Return a note on the block-quantized weights that are dequantized at import: their number and the first names."""
    kept_nodes = {weight.node for weight in block_weights.values()}
    widened = [node for node in graph.node if node.op_type in OF_BLOCKS and of(node, "block_size", 0)]
    widened = [node for node in widened if node.output[0] not in kept_nodes]
    if not widened:
        return []
    names = ", ".join(one_line(node.name or node.output[0])[:50] for node in widened[:MOST_NAMED])
    more = ", .." if len(widened) > MOST_NAMED else ""
    return [f"weights in blocks are held and multiplied in f32, {len(widened)} in all: {names}{more}"]


def convert(path: Path, folder: Path, sizes: Mapping[str, int]) -> None:
    """Convert a model and write the result to a folder.

    Raises:
        UnsupportedError: The file is not a model, or it cannot be imported.
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
    tensors = [tensor for tensor in graph.input if tensor.name not in weights]
    grids = grids_of(graph)
    inputs_of_model = [argument_of(tensor, bounds, grids) for tensor in tensors]
    kinds = {tensor.name: shape_and_dtype(tensor) for tensor in tensors}
    check_results(model, read.results)
    inputs = [random_inputs(inputs_of_model, kinds, seed) for seed in SEEDS]
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
    block_weights = {name: weight for name, weight in read.block_weights.items() if name in weights}
    arguments = {
        n: ModelArgument(n, "weight") if n in block_weights else weight_argument(n, array)
        for n, array in weights.items()
    }
    arguments |= {
        name: kernel_argument(arguments[name], weights[name].shape, groups)
        for name, groups in kernels_of(graph, weights).items()
    }
    arrange_kernels(graph, arguments)
    multiply_rows(graph, block_weights)
    fix_sizes(model, {}, arguments)
    in_arrays = {name: array for name, array in weights.items() if name not in block_weights}
    order, text = [tensor.name for tensor in graph.input], lowered(model, arguments, in_arrays)
    text, numbers = put_blocks(text, {order.index(name): weight for name, weight in block_weights.items()})
    weights, arguments = with_blocks(weights, arguments, block_weights, [order[number] for number in numbers])
    described = ImportedModel(
        arguments=(*inputs_of_model, *arguments.values()),
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
    block_weights: Mapping[str, BlockWeight],
    gone: Sequence[str],
) -> tuple[dict[str, Array], dict[str, ModelArgument]]:
    """Return weights and their arguments after block-quantized products were inserted.

    Args:
        weights: Values by name.
        arguments: Arguments by name, in order.
        block_weights: Block-quantized weights, by the name of their f32 input.
        gone: Names of f32 inputs that are replaced by their quantized parts, appended to the arguments; the other
            inputs of `block_weights` stay in f32.
    """
    stored = {f"{name}{end}": array for name in gone for end, array in block_weights[name].parts.items()}
    widened = {name: np.asarray(weights[name]) for name in block_weights.keys() - set(gone)}
    values = {name: array for name, array in weights.items() if name not in block_weights} | widened | stored
    remaining = {name: argument for name, argument in arguments.items() if name not in gone}
    remaining |= {name: weight_argument(name, array) for name, array in widened.items()}
    return values, remaining | {name: weight_argument(name, array) for name, array in stored.items()}


@dataclass(frozen=True)
class ReadModel:
    """Model as read from the file.

    Attributes:
        model: Model in standard ops; weights are inputs of its graph.
        weights: Values of the weights, by name.
        lying: File locations of the weights that are external data, by name.
        notes: Notes on what standard ops cannot express, one sentence each.
        block_weights: Weights that stay block-quantized, by the name of their f32 input.
        results: Results as declared in the file.
    """

    model: "ModelProto"
    weights: Mapping[str, Array]
    lying: Mapping[str, TensorInFile]
    notes: list[str]
    block_weights: "Mapping[str, BlockWeight]"
    results: "Sequence[ValueInfoProto]"


def read_model(path: Path, sizes: Mapping[str, int]) -> ReadModel:
    """Parse a file, extract its weights, and rewrite it in standard ops; external weights are memory-mapped.

    Args:
        path: File to read.
        sizes: Sizes of symbolic dimensions, by name.

    Raises:
        UnsupportedError: The file is not an ONNX model, its weights are missing, or it contains an op that is neither
            standard nor rewritten here.
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
        light = copy.deepcopy(model)  # protobuf frees the extracted weights only together with the original message
        block_weights = use_standard_ops(light, sizes, weights)
        give_settings_back(light.graph, weights)
        checked = copy.deepcopy(light)
        for tensor in checked.graph.output:  # results of a loop have no shape before the loop is unrolled
            tensor.type.tensor_type.shape.SetInParent()
        onnx.checker.check_model(checked, full_check=False)
    except PayloadError as error:
        raise UnsupportedError(str(error)) from error
    except UnsupportedError:
        raise
    except Exception as error:  # protobuf, the checker and file access have unrelated exception types
        raise UnsupportedError(
            f"it is no valid ONNX model: {' '.join(str(error).split())[:200]}; export it again"
        ) from error
    return ReadModel(
        light, weights, lying, notes_of_blocks(model.graph, block_weights), block_weights, model.graph.output
    )


def check_names(graph: "GraphProto", sizes: Mapping[str, int]) -> None:
    """Raise unless all given sizes are of symbolic dimensions of the model.

    Raises:
        UnsupportedError: The model has no symbolic dimension of this name.
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
    """Write the model with its weights embedded, and its symbolic dimensions set to the sizes of the import."""
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
    """Return shape and dtype of a graph's input.

    Raises:
        UnsupportedError: The input is not a tensor, or its element type is not supported for inputs.
    """
    from onnx import TensorProto  # noqa: PLC0415 - comes with an extra

    kind = tensor.type.tensor_type
    if not kind.elem_type:
        raise UnsupportedError(f"input {tensor.name} must be a tensor, it is none; export the model without it")
    dtype = dtype_of(kind.elem_type)
    if dtype.name in SHORT:
        raise UnsupportedError(f"input {tensor.name} must not hold integers of 16 bits, it does; cast it in the model")
    if dtype.name not in READ:
        type_name = TensorProto.DataType.Name(kind.elem_type).lower()
        raise UnsupportedError(
            f"input {tensor.name} must hold numbers that programs read, it is of {type_name}; cast it before"
        )
    return tuple(dim.dim_value for dim in kind.shape.dim), dtype


def argument_of(tensor: "ValueInfoProto", bounds: Mapping[str, int], grids: Collection[str] = ()) -> ModelArgument:
    """Return the argument of an input with its value range.

    Integers used as indices range over the indexed dimension; other 8-bit integers take all values, and other integers
    are 0 or 1. Sampling coordinates in `grids` may lie outside of the image.
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
    """Declare rearranged weights as inputs of their stored shape and restore the original layout, in place.

    The graph is named after the payload's function.
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
    """Lower a model to linalg; an op unknown to torch-mlir is expanded to its ONNX function definition if it has one.

    Args:
        model: Model to lower, rewritten in place.
        arguments: Names of all its weights.
        weights: Values of those weights that are arrays.

    Raises:
        UnsupportedError: An op has neither a lowering nor a definition.
    """
    for _ in range(MOST_DEFINED):
        try:
            text = to_linalg(model, weights)
        except UnsupportedError as error:
            failing_node = guilty_node(model.graph, error)
            ops = {error.op.removeprefix("onnx."), failing_node.op_type if failing_node is not None else ""}
            is_written = any(define(model, op) for op in ops if op) or write_steps(model, {}, arguments, both=True)
            if not is_written:
                raise refusal_of(model, failing_node, error) from error
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
    """Return the node that an error refers to, if it has a location."""
    number = error.location.removeprefix(LOCATION_PREFIX)
    return graph.node[int(number)] if number.isdigit() and int(number) < len(graph.node) else None


def refusal_of(model: "ModelProto", guilty: "NodeProto | None", error: UnsupportedError) -> UnsupportedError:
    """Return the error in terms of the user's nodes: the failing node, else all nodes that fail to lower alone."""
    open_ended = open_ended_node(model.graph)
    if open_ended is not None and guilty in (None, open_ended):
        return cannot_lower(open_ended.doc_string, DEPENDS)
    if guilty is not None:
        return cannot_lower(guilty.doc_string, error.why)
    failures = lowered_alone(model)
    if not failures:
        return error
    names = list(dict.fromkeys(node.doc_string for node, _ in failures))
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return cannot_lower(", ".join(names[:MOST_NAMED]) + more, failures[0][1].why or str(failures[0][1]))


def open_ended_node(graph: "GraphProto") -> "NodeProto | None":
    """Return the first node whose input shapes are all known but that has a result of unknown shape."""
    shapes = facts_of(graph).shapes
    for node in graph.node:
        if any(name not in shapes for name in node.output if name):
            return node if all(name in shapes for name in node.input if name) else None
    return None


def check_sizes(model: "ModelProto", text: str) -> None:
    """Raise if the function's signature has a dynamic size.

    Raises:
        UnsupportedError: A size is dynamic; the message names the node that causes it.
    """
    head = next((line for line in text.splitlines() if f"@{ENTRY}(" in line), "")
    if "?" in head:
        node = open_ended_node(model.graph)
        raise cannot_lower(node.doc_string if node is not None else "its result", DEPENDS)


def lowered_alone(model: "ModelProto") -> "list[tuple[NodeProto, UnsupportedError]]":
    """Return the nodes that fail to lower as models of one node, each with its error."""
    from onnx import helper  # noqa: PLC0415

    graph, failures = model.graph, list[tuple["NodeProto", UnsupportedError]]()
    typed = {value.name: value for value in [*graph.input, *graph.value_info, *graph.output]}
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        read = list(dict.fromkeys(inputs_of(node)))
        inputs = [typed[name] for name in read if name in typed and name not in initializers]
        outputs = [typed.get(name) or helper.make_empty_tensor_value_info(name) for name in node.output if name]
        single = helper.make_graph(
            [node], ENTRY, inputs, outputs, [initializers[name] for name in read if name in initializers]
        )
        try:
            to_linalg(helper.make_model(single, opset_imports=model.opset_import, ir_version=model.ir_version), {})
        except UnsupportedError as error:
            failures.append((node, error))
    return failures


def name_locations(node: "NodeProto", name: str) -> None:
    """Name a node and all nodes of its subgraphs, in place; torch-mlir's errors have the name as location."""
    for each in (node, *(inner for graph in graphs_of(node) for inner in every_node(graph))):
        each.name = name


def to_linalg(model: "ModelProto", weights: Mapping[str, Array]) -> str:
    """Lower a model to linalg with torch-mlir.

    Args:
        model: Model to lower.
        weights: Values of the inputs that are weights, by name.

    Raises:
        UnsupportedError: torch-mlir does not support an op.
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
