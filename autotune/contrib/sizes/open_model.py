"""The user's own model at any size: which dimensions it leaves open, and what it computes, by its own runtime."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from autotune.contrib.sizes.bounds import Bounds, Sizes
from autotune.core.errors import PayloadError
from autotune.core.payload import Array

SUFFIX = ".onnx"
FATAL_ONLY = 4  # severity of what ONNX Runtime logs


@dataclass(frozen=True)
class OpenInput:
    """An input of a model.

    Attributes:
        name: Name in the model.
        axes: Axis of each open dimension, by name.
        shape: Sizes; 0 for open ones.
        dtype: Element type.
    """

    name: str
    axes: Mapping[str, int]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def at(self, sizes: Sizes) -> tuple[int, ...]:
        """Its shape at sizes of the open dimensions."""
        names = {axis: name for name, axis in self.axes.items()}
        return tuple(sizes[names[axis]] if axis in names else size for axis, size in enumerate(self.shape))


class OpenModel(Protocol):
    """A model whose sizes are open."""

    inputs: tuple[OpenInput, ...]

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Results of inputs of any size, in order."""
        ...


class OnnxModel:
    """An ONNX file, run by ONNX Runtime where that is installed, else by ONNX's reference.

    Args:
        path: The file.
        bounds: What the user says of its open dimensions.

    Raises:
        PayloadError: The file is none, or leaves other dimensions open.
    """

    def __init__(self, path: Path, bounds: Sequence[Bounds]) -> None:
        import onnx

        try:
            model = onnx.load(path, load_external_data=False)
        except Exception as error:  # protobuf and files each raise their own
            why = " ".join(str(error).split())[:200]
            raise PayloadError(f"a model must be a readable ONNX file, {path} is not: {why}") from error
        held = {tensor.name for tensor in model.graph.initializer}
        asked = [tensor for tensor in model.graph.input if tensor.name not in held]
        self.inputs = tuple(map(open_input, asked))
        check_names(path, self.inputs, bounds)
        self._path = path
        self._session: Any = None

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Results of inputs of any size, in order.

        Raises:
            PayloadError: The model's own runtime does not compute them.
        """
        try:
            if self._session is None:
                self._session = open_runtime(self._path)
            return [np.asarray(array) for array in self._session.run(None, dict(inputs))]
        except Exception as error:  # either runtime raises whatever it does
            shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in inputs.items())
            why = " ".join(str(error).split())[:200]
            raise PayloadError(
                f"{self._path.name} must run at all sizes within the bounds, not at {shapes}: {why}"
            ) from error


def open_runtime(path: Path) -> Any:  # noqa: ANN401 - of a library without types
    """What runs a file."""
    if find_spec("onnxruntime") is None:
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(str(path))
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = FATAL_ONLY, 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def open_input(tensor: Any) -> OpenInput:  # noqa: ANN401 - of a library without types
    """An input as the file describes it.

    Raises:
        PayloadError: A dimension is open and has no name.
    """
    from onnx.helper import tensor_dtype_to_np_dtype

    kind, axes, shape = tensor.type.tensor_type, dict[str, int](), []
    for axis, dim in enumerate(kind.shape.dim):
        shape.append(dim.dim_value if not dim.dim_param else 0)
        if dim.dim_param:
            if dim.dim_param in axes:
                raise PayloadError(f"input {tensor.name} must have dimension {dim.dim_param} once; export it so")
            axes[dim.dim_param] = axis
        elif dim.dim_value < 1:
            raise PayloadError(
                f"open dimensions must have names, dimension {axis} of {tensor.name} has none; export it so"
            )
    return OpenInput(tensor.name, axes, tuple(shape), np.dtype(tensor_dtype_to_np_dtype(kind.elem_type)))


def check_names(path: Path, inputs: Sequence[OpenInput], bounds: Sequence[Bounds]) -> None:
    """Refuse bounds of other dimensions than those that a model leaves open.

    Raises:
        PayloadError: One is unknown, or left out.
    """
    there = list(dict.fromkeys(name for each in inputs for name in each.axes))
    given = [each.name for each in bounds]
    if unknown := [name for name in given if name not in there]:
        raise PayloadError(
            f"--dim must name a dimension that {path.name} leaves open, {', '.join(there) or 'none'}; got {unknown[0]}"
        )
    if missing := [name for name in there if name not in given]:
        raise PayloadError(
            f"every open dimension of {path.name} must have bounds, {missing[0]} has none; give --dim {missing[0]}=1..8"
        )


def open_model(path: Path, bounds: Sequence[Bounds]) -> OpenModel:
    """A model whose sizes are open.

    Raises:
        PayloadError: The file is of another kind, is missing, or leaves other dimensions open.
    """
    if path.suffix != SUFFIX:
        raise PayloadError(
            f"--dim needs a model whose open dimensions have names, {SUFFIX}, got {path.name}; export it as ONNX"
        )
    if not path.is_file():
        raise PayloadError(f"a model must be a file, {path} is none; check the path")
    if find_spec("onnx") is None:
        raise PayloadError(
            f"to import {path} onnx must be installed, it is not; run pip install 'mlir-schedule-autotune[import]'"
        )
    return OnnxModel(path, bounds)
