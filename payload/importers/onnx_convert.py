"""The converter of ONNX models, a process of its own: torch-mlir brings an MLIR that must not meet ours.

``python -m payload.importers.onnx_convert MODEL FOLDER [NAME=SIZE ...]``
"""

import copy
import shutil
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.core.imported import SEEDS, ImportedModel, ModelArgument
from autotune.core.payload import Array
from payload.importers.converter import run_converter
from payload.importers.folder import (
    KERNEL_BACK,
    MOST_WEIGHT_BYTES,
    kernel_argument,
    random_inputs,
    sha256_of,
    versions_of,
    weight_argument,
    with_outputs,
    write_folder,
)
from payload.importers.linalg import ONNX_TO_TORCH, UnsupportedError, lower
from payload.importers.onnx_domains import use_standard_ops
from payload.importers.onnx_oracle import ask_reference
from payload.importers.onnx_plain import define, name_shapes, write_plainly
from payload.importers.onnx_scan import decompose_sums
from payload.importers.onnx_sizes import fix_sizes
from payload.importers.onnx_values import (
    fold_constants,
    give_settings_back,
    kernels_of,
    places_of,
    replace_all,
    take_weights,
)

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

ENTRY = "main"
MOST_DEFINED = 16  # kinds of ops that are written as ONNX defines them


def convert(path: Path, folder: Path, sizes: Mapping[str, int]) -> None:
    """Read a model and write a folder.

    Raises:
        UnsupportedError: The file is no model, or one that cannot be imported.
    """
    model, weights = read_model(path, sizes)
    graph = model.graph
    fold_constants(model, weights)
    weights |= take_weights(graph)
    fix_sizes(model, {}, weights)
    places = places_of(graph, weights)
    asked = [tensor for tensor in graph.input if tensor.name not in weights]
    given = [argument_of(tensor, places) for tensor in asked]
    kinds = {tensor.name: shape_and_dtype(tensor) for tensor in asked}
    inputs = [random_inputs(given, kinds, seed) for seed in SEEDS]
    results, oracle = ask_reference(model, weights, inputs)
    write_plainly(model)
    decompose_sums(model)
    weights |= take_weights(graph)
    said = {name: weight_argument(name, array) for name, array in weights.items()}
    said |= {name: kernel_argument(said[name], weights[name].shape) for name in kernels_of(graph, weights)}
    arrange_kernels(graph, said)
    fix_sizes(model, {}, said)
    text = lowered(model, said)
    described = ImportedModel(
        arguments=(*given, *said.values()),
        source=path.name,
        sha256=sha256_of(path),
        importer="onnx",
        oracle=oracle,
        versions=versions_of("torch-mlir", "onnx", "numpy"),
        notes=() if oracle else ("its results could not be computed in ONNX; the plain lowering is the oracle",),
    )
    described = with_outputs(described, [output.name for output in graph.output])
    keep = partial(keep_model, path, sizes)
    write_folder(folder, text, described, weights, inputs=inputs, results=results, keep=keep)


def read_model(path: Path, sizes: Mapping[str, int]) -> "tuple[ModelProto, dict[str, Array]]":
    """Parse a file, take its weights out, as arrays they are in memory once, and write it in standard ops.

    Args:
        path: File to read.
        sizes: Sizes of dimensions that the model leaves open, by name.

    Raises:
        UnsupportedError: The file is no ONNX model, or its weights take too much memory, or are missing; or it holds an
            op that is neither standard nor defined here.
    """
    import onnx  # noqa: PLC0415 - comes with an extra

    try:
        model = onnx.load(path, load_external_data=False)
        held = sum(bytes_of(tensor) for tensor in model.graph.initializer)
        if held > MOST_WEIGHT_BYTES:
            raise UnsupportedError(
                f"its weights must take at most {MOST_WEIGHT_BYTES / 2**30:g} GiB, they take {held / 2**30:.1f} GiB; "
                "export fewer layers"
            )
        onnx.load_external_data_for_model(model, str(path.parent))
        weights = take_weights(model.graph)
        light = copy.deepcopy(model)  # what was taken out is given up with the whole alone
        use_standard_ops(light, sizes, weights)
        give_settings_back(light.graph, weights)
        onnx.checker.check_model(light, full_check=False)
    except UnsupportedError:
        raise
    except Exception as error:  # protobuf, checker and files each raise their own
        raise UnsupportedError(
            f"it is no valid ONNX model: {' '.join(str(error).split())[:200]}; export it again"
        ) from error
    return light, weights


def keep_model(path: Path, sizes: Mapping[str, int], target: Path) -> None:
    """Write a model to another place, its weights in the file, at the sizes it was imported at."""
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


def bytes_of(tensor: "TensorProto") -> int:
    """Bytes of a tensor, wherever its data lie."""
    from onnx.helper import tensor_dtype_to_np_dtype  # noqa: PLC0415

    width = int(tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    return width * int(np.prod(tensor.dims, dtype=np.int64))


def shape_and_dtype(tensor: "ValueInfoProto") -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of a graph's input."""
    from onnx.helper import tensor_dtype_to_np_dtype  # noqa: PLC0415

    kind = tensor.type.tensor_type
    return tuple(dim.dim_value for dim in kind.shape.dim), np.dtype(tensor_dtype_to_np_dtype(kind.elem_type))


def argument_of(tensor: "ValueInfoProto", places: Mapping[str, int]) -> ModelArgument:
    """An input: whole numbers are places of a tensor where they are taken as such, else 0 and 1."""
    _, dtype = shape_and_dtype(tensor)
    if dtype.kind in "iub":
        return ModelArgument(tensor.name, "input", 0, places.get(tensor.name, 2))
    return ModelArgument(tensor.name, "input")


def arrange_kernels(graph: "GraphProto", said: Mapping[str, ModelArgument]) -> None:
    """Let weights that are stored otherwise be inputs of that shape, and their readers read them from there, in place.

    The graph gets the name of the payload's function.
    """
    from onnx import numpy_helper  # noqa: PLC0415
    from onnx.helper import make_node, make_tensor_value_info  # noqa: PLC0415

    inputs, first = [], []
    for tensor in graph.input:
        argument = said.get(tensor.name)
        if argument is None or not argument.order:
            inputs.append(tensor)
            continue
        name, shape, kind = tensor.name, f"{tensor.name}_shape", tensor.type.tensor_type
        inputs.append(make_tensor_value_info(f"{name}_arranged", kind.elem_type, list(argument.shape)))
        sizes = np.array([kind.shape.dim[d].dim_value for d in argument.order])
        graph.initializer.append(numpy_helper.from_array(sizes, shape))
        first.append(make_node("Reshape", [f"{name}_arranged", shape], [f"{name}_places"]))
        first.append(make_node("Transpose", [f"{name}_places"], [name], perm=KERNEL_BACK[len(argument.order)]))
    replace_all(graph.input, inputs)
    replace_all(graph.node, [*first, *graph.node])
    graph.name = ENTRY


def lowered(model: "ModelProto", arguments: Collection[str]) -> str:
    """The text of a model; an op that torch-mlir does not know is written as ONNX defines it, where it does.

    Raises:
        UnsupportedError: Neither knows an op.
    """
    for _ in range(MOST_DEFINED):
        try:
            return to_linalg(model)
        except UnsupportedError as error:
            if not define(model, error.op.removeprefix("onnx.")):
                raise
            fix_sizes(model, {}, arguments)
            name_shapes(model.graph)
            fold_constants(model, {})
            fix_sizes(model, {}, arguments)
    return to_linalg(model)


def to_linalg(model: "ModelProto") -> str:
    """The text of a model.

    Raises:
        UnsupportedError: torch-mlir does not know an op.
    """
    from torch_mlir.dialects import torch as dialect  # noqa: PLC0415
    from torch_mlir.extras import onnx_importer  # noqa: PLC0415
    from torch_mlir.ir import Context  # noqa: PLC0415

    for node in model.graph.node:  # what torch-mlir calls them where it cannot lower one
        node.name = f"{node.op_type} {node.name}".strip().replace('"', "")
    context = Context()
    dialect.register_dialect(context)
    info = onnx_importer.ModelInfo(model)
    try:
        module = info.create_module(context=context)
        onnx_importer.NodeImporter.define_function(info.main_graph, module.operation).import_all()
    except onnx_importer.OnnxImportError as error:
        raise UnsupportedError(f"torch-mlir cannot read it: {' '.join(str(error).split())[:200]}") from error
    return lower(module, ONNX_TO_TORCH)


if __name__ == "__main__":
    run_converter(convert)
