"""Converter of exported PyTorch programs, run in a subprocess because torch-mlir's own MLIR cannot coexist with ours.

``python -m payload.importers.pt2_convert PROGRAM FOLDER``
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.core.host.tensor_file import hash_file
from autotune.core.payload import Array
from autotune.core.plugs.imported import SEEDS, ImportedModel, ModelArgument
from payload.importers import pt2_indices, pt2_order, pt2_special
from payload.importers.converter import run_converter, say_stage
from payload.importers.folder import (
    kernel_argument,
    random_inputs,
    versions_of,
    weight_argument,
    with_outputs,
    write_folder,
)
from payload.importers.linalg import UnsupportedError
from payload.importers.pt2_attention import attention
from payload.importers.pt2_bags import embedding_bag
from payload.importers.pt2_decompose import decompose
from payload.importers.pt2_distances import distances
from payload.importers.pt2_division import compare_with_real, divide, is_equal, remainder_towards_zero, with_tensor
from payload.importers.pt2_eager import check_program
from payload.importers.pt2_encoder import encoder_layer
from payload.importers.pt2_examples import whole_examples
from payload.importers.pt2_fold import fold
from payload.importers.pt2_gelu import gelu, has_sign, inverse_of_erf, power, with_sign
from payload.importers.pt2_joined import joined_of_some, split_into_some
from payload.importers.pt2_linalg import to_linalg
from payload.importers.pt2_origins import drop_settings
from payload.importers.pt2_phases import write_phases
from payload.importers.pt2_pools import largest_of_windows, with_batches
from payload.importers.pt2_recurrent import recurrent_layer
from payload.importers.pt2_resize import cubically, linearly
from payload.importers.pt2_scan import multiply_along, sum_along
from payload.importers.pt2_shifts import guard_shifts
from payload.importers.pt2_sizes import at_sizes, check_counted
from payload.importers.pt2_softmax import write_guards
from payload.importers.pt2_unsigned import widen_bytes
from payload.importers.pt2_values import (
    arrange_kernel,
    compute,
    fold_constants,
    index_bounds,
    kernels_of,
    to_numpy,
)
from payload.importers.pt2_views import as_strided, pad_with_one, rolled, with_diagonal
from payload.importers.pt2_volumes import convolve_planes, has_volumes
from payload.programs import ProgramFile, is_byte

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Graph

BYTES = 256  # number of values of u8
UNSUPPORTED = ("int16", "uint16", "uint32", "uint64")  # integer types that arguments of a payload cannot have
REFUSED_PICKLE = "Weights only load failed"  # part of torch.load's error message


def convert(path: Path, folder: Path, sizes: Mapping[str, int]) -> None:
    """Convert a program and write the result to a folder.

    Raises:
        UnsupportedError: The file is not an exported program, or it cannot be imported.
    """
    say_stage(f"importing {path.name}: reading it, with PyTorch")
    file = ProgramFile(path)
    exported = load_exported(file)
    sized = at_sizes(exported, sizes)
    program, decomposed = decompose(sized, decompositions(volumes=has_volumes(sized.graph)))
    weights = weights_of(program)
    graph, constants = fold_constants(decomposed, buffers_of(program))
    weights |= constants
    drop_settings(graph)
    check_counted(graph)
    check_kinds(graph, weights)
    inputs = [node for node in graph.nodes if node.op == "placeholder" and node.name not in weights]
    for node in inputs:
        check_tensor(node)
    bounds = {node.name: BYTES for node in inputs if is_byte(node)}
    guard_shifts(graph)
    widen_bytes(graph, inputs)
    compare_with_real(graph)
    write_guards(graph)
    bounds |= index_bounds(graph)
    inputs_of_program = [argument_of(node, bounds) for node in inputs]
    kinds = {node.name: (tuple(node.meta["val"].shape), dtype_of(node.meta["val"])) for node in inputs}
    data = [random_inputs(inputs_of_program, kinds, seed) for seed in SEEDS]
    try:
        results = tried(path.name, exported, graph, data, weights)
    except UnsupportedError:
        examples = whole_examples(exported, list(kinds), {name: shape for name, (shape, _) in kinds.items()})
        if not examples:
            raise
        data = [{**each, **examples} for each in data]
        results = tried(path.name, exported, graph, data, weights)
    say_stage(f"importing {path.name}: converting it to linalg, by torch-mlir")
    write_phases(graph, weights)
    names = [node.name for node in graph.nodes if node.op == "placeholder"]
    by_name = {argument.name: argument for argument in inputs_of_program}
    by_name |= {name: weight_argument(name, weights[name]) for name in names if name not in by_name}
    for node, groups in kernels_of(graph).items():
        if node.name in weights:
            by_name[node.name] = kernel_argument(by_name[node.name], weights[node.name].shape, groups)
            arrange_kernel(graph, node, by_name[node.name])
    arguments = tuple(by_name[name] for name in names)
    described = ImportedModel(
        arguments=arguments,
        source=path.name,
        sha256=hash_file(path),
        importer="pt2",
        oracle="torch in float64",
        versions=versions_of("torch-mlir", "torch", "numpy"),
    )
    described = with_outputs(described, [f"result{number}" for number in range(len(results[0]))])
    write_folder(
        folder,
        to_linalg(graph, {number: constants[name] for number, name in enumerate(names) if name in constants}),
        described,
        weights,
        inputs=data,
        results=results,
        keep=partial(shutil.copyfile, path),
        lying={name: entry for name, array in weights.items() if (entry := file.entry_of(array)) is not None},
        source=path,
    )


def tried(
    name: str,
    exported: "ExportedProgram",
    graph: "Graph",
    data: Sequence[Mapping[str, Array]],
    weights: Mapping[str, Array],
) -> list[list[Array]]:
    """Compute a program's results for the inputs of every seed; check those of the first against the exported program.

    Args:
        name: Name of the file.
        exported: Program as exported.
        graph: Graph after the importer's rewrites.
        data: Inputs of each seed, by name, in order.
        weights: Weights by name.

    Raises:
        UnsupportedError: PyTorch cannot compute the graph, or its results differ.
    """
    say_stage(f"importing {name}: computing what it gives, by PyTorch")
    results = [computed(graph, {**each, **weights}) for each in data]
    say_stage(f"importing {name}: computing what it gives, by the program as it was exported")
    check_program(exported, list(data[0].values()), results[0], weights)
    return results


def computed(graph: "Graph", values: Mapping[str, Array]) -> list[Array]:
    """Compute a program's results for random inputs.

    Raises:
        UnsupportedError: PyTorch cannot compute it, for example because an index is out of range.
    """
    try:
        return compute(graph, values)
    except Exception as error:  # ops of PyTorch raise unrelated exception types
        message = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise UnsupportedError(
            f"PyTorch must compute it for random inputs, it says: {message.strip()[:200]}; "
            "export it with whole numbers that divide, or are indices, in its example, or as no inputs"
        ) from error


def load_exported(file: ProgramFile) -> "ExportedProgram":
    """Load a program as exported.

    Raises:
        UnsupportedError: The file is not a program, or the program mutates its inputs or buffers.
    """
    try:
        program = file.load()
    except Exception as error:  # zip files, pickles and version checks have unrelated exception types
        message = " ".join(str(error).split())[:200]
        if REFUSED_PICKLE in message:
            raise UnsupportedError(
                "its weights must be tensors alone, it pickles other objects; save it again"
            ) from error
        raise UnsupportedError(f"it is no program that torch.export saved: {message}; save it again") from error
    signature = program.graph_signature
    changed = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if changed:
        raise UnsupportedError(f"a program must leave what it is given, it changes {changed[0]}; export it in eval()")
    return program


def decompositions(*, volumes: bool) -> dict[Any, Callable[..., Any]]:
    """Return the decompositions into ops that torch-mlir lowers, by op.

    Args:
        volumes: Whether the program convolves volumes.
    """
    import torch  # noqa: PLC0415 - comes with an extra
    from torch_mlir.extras.fx_decomp_util import get_decomposition_table  # noqa: PLC0415

    whole = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
    ours = {
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default: attention,
        torch.ops.aten._transformer_encoder_layer_fwd.default: encoder_layer,
        torch.ops.aten.mkldnn_rnn_layer.default: recurrent_layer,
        torch.ops.aten.cumsum.default: sum_along,
        torch.ops.aten.cumprod.default: multiply_along,
        torch.ops.aten.gelu.default: gelu,
        torch.ops.aten.pow.Tensor_Scalar: power,
        torch.ops.aten._upsample_bilinear2d_aa.default: linearly,
        torch.ops.aten._upsample_bicubic2d_aa.default: cubically,
        torch.ops.aten.col2im.default: fold,
        torch.ops.aten.adaptive_max_pool2d.default: largest_of_windows,
        torch.ops.aten.adaptive_max_pool3d.default: largest_of_windows,
        torch.ops.aten.as_strided.default: as_strided,
        torch.ops.aten.cat.default: joined_of_some,
        **({torch.ops.aten.convolution.default: convolve_planes} if volumes else {}),
        torch.ops.aten.split_with_sizes.default: split_into_some,
        torch.ops.aten.diagonal_scatter.default: with_diagonal,
        torch.ops.aten.roll.default: rolled,
        torch.ops.aten._cdist_forward.default: distances,
        torch.ops.aten.constant_pad_nd.default: pad_with_one,
        torch.ops.aten.div.Tensor_mode: divide,
        torch.ops.aten.div.Scalar_mode: divide,
        torch.ops.aten.fmod.Tensor: remainder_towards_zero,
        torch.ops.aten.fmod.Scalar: remainder_towards_zero,
        torch.ops.aten.eq.Tensor: is_equal,
        torch.ops.aten.mul.Tensor: with_tensor(torch.mul, torch.int8, torch.uint8),
        torch.ops.aten.sub.Tensor: with_tensor(torch.sub, torch.int8, torch.uint8),
        torch.ops.aten.remainder.Scalar: with_tensor(torch.remainder, torch.int8, torch.uint8),
        torch.ops.aten.bitwise_or.Scalar: with_tensor(torch.bitwise_or, *whole, torch.bool),
        torch.ops.aten.bitwise_xor.Scalar: with_tensor(torch.bitwise_xor, *whole, torch.bool),
        torch.ops.aten.hypot.default: pt2_indices.hypot,
        torch.ops.aten.topk.default: pt2_indices.topk,
        torch.ops.aten.sort.default: pt2_indices.sort,
        torch.ops.aten.sort.stable: pt2_indices.sort_stably,
        torch.ops.aten.scatter_add.default: pt2_indices.scatter_add,
        torch.ops.aten.scatter.src: pt2_indices.scatter,
        torch.ops.aten.scatter.value: pt2_indices.scatter_value,
        torch.ops.aten.scatter_reduce.two: pt2_indices.scatter_reduce,
        torch.ops.aten.histc.default: pt2_indices.histogram,
        torch.ops.aten.index_add.default: pt2_indices.index_add,
        torch.ops.aten.index_reduce.default: pt2_indices.index_reduce,
        torch.ops.aten.index_put.default: pt2_indices.index_put,
        torch.ops.aten._embedding_bag.default: embedding_bag,
        torch.ops.aten._embedding_bag_forward_only.default: embedding_bag,
        torch.ops.aten.erfinv.default: inverse_of_erf,
        torch.ops.aten.erfc.default: pt2_special.complement_of_erf,
        torch.ops.aten.lgamma.default: pt2_special.log_of_gamma,
        torch.ops.aten.digamma.default: pt2_special.digamma,
        torch.ops.aten.i0.default: pt2_special.bessel_i0,
        torch.ops.aten.signbit.default: has_sign,
        torch.ops.aten.copysign.Tensor: with_sign,
        torch.ops.aten.cummax.default: pt2_order.running_most,
        torch.ops.aten.cummin.default: pt2_order.running_least,
        torch.ops.aten.kthvalue.default: pt2_order.kth_least,
        torch.ops.aten.median.default: pt2_order.median,
        torch.ops.aten.median.dim: pt2_order.median_along,
        torch.ops.aten.nanmedian.default: pt2_order.median_of_numbers,
        torch.ops.aten.nanmedian.dim: pt2_order.median_of_numbers_along,
        torch.ops.aten.searchsorted.Tensor: pt2_order.numbers_before,
        torch.ops.aten.searchsorted.Scalar: pt2_order.numbers_before,
        torch.ops.aten.bucketize.Tensor: pt2_order.bucket_numbers,
        torch.ops.aten.bucketize.Scalar: pt2_order.bucket_numbers,
    }
    return {**get_decomposition_table(), **with_batches(), **ours}


def weights_of(program: "ExportedProgram") -> dict[str, Array]:
    """Return the values of a program's parameters, by placeholder name."""
    names = program.graph_signature.inputs_to_parameters
    return {placeholder: to_numpy(program.state_dict[name].detach()) for placeholder, name in names.items()}


def buffers_of(program: "ExportedProgram") -> dict[str, Any]:
    """Return a program's buffers and lifted tensor constants, by placeholder name."""
    signature = program.graph_signature
    names = {**signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    everything = {**program.constants, **program.state_dict}
    return {placeholder: everything[name] for placeholder, name in names.items()}


def check_tensor(node: Any) -> None:  # noqa: ANN401 - a node of torch.fx
    """Raise unless an input is a tensor.

    Raises:
        UnsupportedError: The input is not a tensor.
    """
    import torch  # noqa: PLC0415

    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        raise UnsupportedError(f"input {node.name} must be a tensor, it is {value!r}; make it a constant of the model")


def check_kinds(graph: "Graph", weights: Mapping[str, Array]) -> None:
    """Raise unless the element types of inputs and results are supported.

    Raises:
        UnsupportedError: An input or a result has an unsupported element type, such as int16.
    """
    results = {f"result{number}": node for number, node in enumerate(graph.output_node().args[0])}
    inputs = {
        f"input {node.name}": node for node in graph.nodes if node.op == "placeholder" and node.name not in weights
    }
    for name, node in {**inputs, **results}.items():
        kind = str(getattr(getattr(node, "meta", {}).get("val"), "dtype", "")).removeprefix("torch.")
        if kind in UNSUPPORTED:
            raise UnsupportedError(f"{name} must not be of {kind}, it is; cast it to int32 in the model")


def dtype_of(tensor: Any) -> np.dtype[Any]:  # noqa: ANN401
    """Return the NumPy dtype of a tensor."""
    import torch  # noqa: PLC0415

    return to_numpy(torch.empty(0, dtype=tensor.dtype, device="cpu")).dtype


def argument_of(node: Any, bounds: Mapping[str, int]) -> ModelArgument:  # noqa: ANN401
    """Return the argument of an input: integers range over `bounds`, by default 0 and 1; floats have no range."""
    if dtype_of(node.meta["val"]).kind in "iub":
        return ModelArgument(node.name, "input", 0, bounds.get(node.name, 2))
    return ModelArgument(node.name, "input")


if __name__ == "__main__":
    run_converter(convert)
