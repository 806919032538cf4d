"""The user's model before compilation: its open dimensions, and its results at any size by its own runtime."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from autotune.contrib.sizes.bounds import Bounds, Sizes
from autotune.core.errors import PayloadError
from autotune.core.host.extras import install_command
from autotune.core.payload import Array

ONNX, PROGRAM = ".onnx", ".pt2"
PACKAGES = {ONNX: ("onnx", "import"), PROGRAM: ("torch", "torch")}  # package that reads a file, and its extra
FATAL_ONLY = 4  # log severity of ONNX Runtime


@dataclass(frozen=True)
class OpenInput:
    """An input of a model with open dimensions.

    Attributes:
        name: Name in the model.
        axes: Axis of each open dimension, by name of the dimension.
        shape: Sizes of dimensions; 0 for open ones.
        dtype: Element type.
    """

    name: str
    axes: Mapping[str, int]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def at(self, sizes: Sizes) -> tuple[int, ...]:
        """Return the shape at given sizes of the open dimensions."""
        names = {axis: name for name, axis in self.axes.items()}
        return tuple(sizes[names[axis]] if axis in names else size for axis, size in enumerate(self.shape))


class OpenModel(Protocol):
    """Protocol of models with open dimensions."""

    inputs: tuple[OpenInput, ...]

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Return the results for inputs of any size, in order."""
        ...


class OnnxModel:
    """An ONNX model, run by ONNX Runtime if it is installed, otherwise by ONNX's reference evaluator.

    Args:
        path: The file.
        bounds: Bounds of the open dimensions.

    Raises:
        PayloadError: The file is not an ONNX model, or its open dimensions differ from those of the bounds.
    """

    def __init__(self, path: Path, bounds: Sequence[Bounds]) -> None:
        import onnx

        try:
            model = onnx.load(path, load_external_data=False)
        except Exception as error:  # protobuf and files each raise their own
            reason = " ".join(str(error).split())[:200]
            raise PayloadError(f"a model must be a readable ONNX file, {path} is not: {reason}") from error
        initializers = {tensor.name for tensor in model.graph.initializer}
        inputs = [tensor for tensor in model.graph.input if tensor.name not in initializers]
        self.inputs = tuple(map(open_input, inputs))
        check_names(path, self.inputs, bounds)
        self._path = path
        self._session: Any = None

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Return the results for inputs of any size, in order.

        Raises:
            PayloadError: The model's own runtime fails.
        """
        try:
            if self._session is None:
                self._session = open_runtime(self._path)
            return [np.asarray(array) for array in self._session.run(None, dict(inputs))]
        except Exception as error:  # both runtimes raise errors of any type
            raise not_run(self._path, inputs, error) from error


def open_runtime(path: Path) -> Any:  # noqa: ANN401 - of a library without types
    """Return a session that runs a file."""
    if find_spec("onnxruntime") is None:
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(str(path))
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = FATAL_ONLY, 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def open_input(tensor: Any) -> OpenInput:  # noqa: ANN401 - of a library without types
    """Return an input as described in the file.

    Raises:
        PayloadError: A dimension is open and has no name.
    """
    from onnx.helper import tensor_dtype_to_np_dtype

    tensor_type, axes, shape = tensor.type.tensor_type, dict[str, int](), []
    for axis, dim in enumerate(tensor_type.shape.dim):
        shape.append(dim.dim_value if not dim.dim_param else 0)
        if dim.dim_param:
            if dim.dim_param in axes:
                raise PayloadError(f"input {tensor.name} must have dimension {dim.dim_param} once; export it so")
            axes[dim.dim_param] = axis
        elif dim.dim_value < 1:
            raise PayloadError(
                f"open dimensions must have names, dimension {axis} of {tensor.name} has none; export it so"
            )
    return OpenInput(tensor.name, axes, tuple(shape), np.dtype(tensor_dtype_to_np_dtype(tensor_type.elem_type)))


def check_names(path: Path, inputs: Sequence[OpenInput], bounds: Sequence[Bounds]) -> None:
    """Check that bounds are given for exactly the open dimensions of a model.

    Raises:
        PayloadError: A dimension is unknown, or has no bounds.
    """
    names = list(dict.fromkeys(name for each in inputs for name in each.axes))
    bounded = [each.name for each in bounds]
    if unknown := [name for name in bounded if name not in names]:
        raise PayloadError(
            f"--dim must name a dimension that {path.name} leaves open, {', '.join(names) or 'none'}; got {unknown[0]}"
        )
    if missing := [name for name in names if name not in bounded]:
        raise PayloadError(
            f"every open dimension of {path.name} must have bounds, {missing[0]} has none; give --dim {missing[0]}=1..8"
        )


class ExportedModel:
    """A program saved by `torch.export`, run by PyTorch.

    Args:
        path: The file.
        bounds: Bounds of the open dimensions.

    Raises:
        PayloadError: The file is not such a program, its open dimensions differ, or it was exported for narrower
            ranges.
    """

    def __init__(self, path: Path, bounds: Sequence[Bounds]) -> None:
        from payload.importers.linalg import UnsupportedError
        from payload.importers.pt2_sizes import open_sizes, symbol_of, tensors_of
        from payload.programs import load_program

        try:
            self._program = load_program(path)
            symbols = open_sizes(self._program)
        except UnsupportedError as error:
            raise PayloadError(f"{path} cannot be imported: {error}") from error
        except Exception as error:  # zip files, pickles and versions each raise their own
            reason = " ".join(str(error).split())[:200]
            raise PayloadError(
                f"a model must be a program that torch.export saved, {path} is none: {reason}"
            ) from error
        inputs = []
        for name, tensor in tensors_of(self._program).items():
            named = [symbols.get(symbol_of(size)) for size in tensor.shape]
            axes = {each.name: axis for axis, each in enumerate(named) if each is not None}
            if len(axes) < sum(each is not None for each in named):
                raise PayloadError(f"input {name} must have each open dimension once; export it so")
            shape = tuple(0 if each else int(size) for each, size in zip(named, tensor.shape, strict=True))
            inputs.append(OpenInput(name, axes, shape, dtype_of(tensor)))
        self.inputs = tuple(inputs)
        check_names(path, self.inputs, bounds)
        ranges = {each.name: each for each in symbols.values()}
        for each in bounds:
            exported = ranges[each.name]
            if each.low < exported.low or each.high > exported.high:
                raise PayloadError(
                    f"{each.name} must lie in {exported.low}..{exported.high}, as {path.name} was exported, got "
                    f"{each.low}..{each.high}; give --dim {each.name}={exported.low}..{min(each.high, exported.high)}"
                )
        self._path, self._module = path, self._program.module()

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Return the results for inputs of any size, in order.

        Raises:
            PayloadError: PyTorch fails.
        """
        import torch

        from payload.importers.pt2_eager import call_program
        from payload.importers.pt2_values import to_torch

        try:
            with torch.no_grad():
                return call_program(self._program, self._module, [to_torch(inputs[e.name]) for e in self.inputs])
        except Exception as error:  # ops of PyTorch raise errors of any type
            raise not_run(self._path, inputs, error) from error


def dtype_of(tensor: Any) -> np.dtype[Any]:  # noqa: ANN401 - of PyTorch
    """Return the NumPy dtype of a tensor."""
    import torch

    from payload.importers.pt2_values import to_numpy

    return to_numpy(torch.empty(0, dtype=tensor.dtype)).dtype


def not_run(path: Path, inputs: Mapping[str, Array], error: Exception) -> PayloadError:
    """Return the error for a model that fails in its own runtime."""
    shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in inputs.items())
    reason = " ".join(str(error).split())[:200]
    return PayloadError(f"{path.name} must run at all sizes within the bounds, not at {shapes}: {reason}")


def open_model(path: Path, bounds: Sequence[Bounds]) -> OpenModel:
    """Open a model with open dimensions.

    Raises:
        PayloadError: The file has an unsupported type, is missing, or its open dimensions differ from those of the
            bounds.
    """
    if path.suffix not in PACKAGES:
        raise PayloadError(
            f"--dim needs a model that leaves sizes open, {ONNX} or {PROGRAM}, got {path.name}; export it as ONNX"
        )
    if not path.is_file():
        raise PayloadError(f"a model must be a file, {path} is none; check the path")
    package, extra = PACKAGES[path.suffix]
    if find_spec(package) is None:
        raise PayloadError(f"to import {path} {package} must be installed, it is not; run {install_command(extra)}")
    return OnnxModel(path, bounds) if path.suffix == ONNX else ExportedModel(path, bounds)
