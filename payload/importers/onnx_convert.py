"""The converter of ONNX models, a process of its own: torch-mlir brings an MLIR that must not meet ours.

``python -m payload.importers.onnx_convert MODEL FOLDER [NAME=SIZE ...]``
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.core.imported import SEEDS, ImportedModel, ModelArgument
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
from payload.importers.onnx_oracle import ask_reference, to_array
from payload.importers.onnx_values import decompose_sums, fold_constants, kernels_of, places_of, weights_of

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto, ValueInfoProto

ENTRY = "main"


def convert(path: Path, folder: Path, sizes: Mapping[str, int]) -> None:
    """Read a model and write a folder.

    Raises:
        UnsupportedError: The file is no model, or one that cannot be imported.
    """
    model = read_model(path)
    fix_sizes(model, sizes)
    original = model.SerializeToString()
    graph = model.graph
    fold_constants(graph)
    fix_sizes(model, {})
    whole = copy.deepcopy(model)
    decompose_sums(graph)
    names, places = weights_of(graph), places_of(graph)
    values = {tensor.name: to_array(tensor) for tensor in graph.initializer if tensor.name in names}
    given = [argument_of(tensor, places) for tensor in graph.input]
    kinds = {tensor.name: shape_and_dtype(tensor) for tensor in graph.input}
    inputs = [random_inputs(given, kinds, seed) for seed in SEEDS]
    results, oracle = ask_reference(whole, inputs)
    weights = {name: weight_argument(name, values[name]) for name in names}
    weights |= {
        name: kernel_argument(weights[name], values[name].shape) for name in kernels_of(graph) if name in weights
    }
    text = to_linalg(lift(model, weights))
    described = ImportedModel(
        arguments=(*given, *weights.values()),
        source=path.name,
        sha256=sha256_of(path),
        importer="onnx",
        oracle=oracle,
        versions=versions_of("torch-mlir", "onnx", "numpy"),
        notes=() if oracle else ("its results could not be computed in ONNX; the plain lowering is the oracle",),
    )
    described = with_outputs(described, [output.name for output in graph.output])
    write_folder(folder, text, described, values, inputs=inputs, results=results, original=original)


def read_model(path: Path) -> "ModelProto":
    """Parse a file, without its weights first.

    Raises:
        UnsupportedError: The file is no ONNX model, or its weights take too much memory.
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
        onnx.checker.check_model(model, full_check=False)
    except UnsupportedError:
        raise
    except Exception as error:  # protobuf, checker and files each raise their own
        raise UnsupportedError(
            f"it is no valid ONNX model: {' '.join(str(error).split())[:200]}; export it again"
        ) from error
    return model


def bytes_of(tensor: "TensorProto") -> int:
    """Bytes of a tensor, wherever its data lie."""
    from onnx.helper import tensor_dtype_to_np_dtype  # noqa: PLC0415

    width = int(tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    return width * int(np.prod(tensor.dims, dtype=np.int64))


def fix_sizes(model: "ModelProto", sizes: Mapping[str, int]) -> None:
    """Put sizes in the place of names of dimensions, and infer all other shapes, in place.

    Raises:
        UnsupportedError: An input is left with a size that is not known.
    """
    from onnx import shape_inference  # noqa: PLC0415

    graph = model.graph
    held = {tensor.name for tensor in graph.initializer}
    inputs = [tensor for tensor in graph.input if tensor.name not in held]
    del graph.input[:]
    graph.input.extend(inputs)
    for tensor in [*graph.input, *graph.output]:
        for place, dim in enumerate(tensor.type.tensor_type.shape.dim):
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
            elif dim.dim_value < 1 and tensor in inputs:
                name = dim.dim_param or f"of dimension {place}"
                raise UnsupportedError(
                    f"input {tensor.name} must have fixed sizes, {name} is open; export it so, or give {name}=1"
                )
    for tensor in graph.output:
        tensor.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
    inferred = shape_inference.infer_shapes(model, data_prop=True)
    graph.CopyFrom(inferred.graph)


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


def lift(model: "ModelProto", weights: Mapping[str, ModelArgument]) -> "ModelProto":
    """The model with weights as inputs behind the others; its graph has the name of the payload's function."""
    from onnx import numpy_helper  # noqa: PLC0415
    from onnx.helper import make_node, make_tensor_value_info  # noqa: PLC0415

    graph = model.graph
    held = {tensor.name: tensor for tensor in graph.initializer}
    first = []
    for name, said in weights.items():
        if not said.order:
            graph.input.append(make_tensor_value_info(name, held[name].data_type, list(held[name].dims)))
            continue
        arranged, shape = f"{name}_arranged", f"{name}_shape"
        graph.input.append(make_tensor_value_info(arranged, held[name].data_type, list(said.shape)))
        sizes = np.array([held[name].dims[d] for d in said.order])
        graph.initializer.append(numpy_helper.from_array(sizes, shape))
        first.append(make_node("Reshape", [arranged, shape], [f"{name}_places"]))
        first.append(make_node("Transpose", [f"{name}_places"], [name], perm=KERNEL_BACK))
    nodes, kept = list(graph.node), [tensor for tensor in graph.initializer if tensor.name not in weights]
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(kept)
    graph.node.extend([*first, *nodes])
    graph.name = ENTRY
    fix_sizes(model, {})
    return model


def to_linalg(model: "ModelProto") -> str:
    """The text of a model.

    Raises:
        UnsupportedError: torch-mlir does not know an op.
    """
    from torch_mlir.dialects import torch as dialect  # noqa: PLC0415
    from torch_mlir.extras import onnx_importer  # noqa: PLC0415
    from torch_mlir.ir import Context  # noqa: PLC0415

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
