"""ONNX Runtime as a comparator: CPU provider, all graph optimizations, weights known at session creation."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from autotune.core.errors import ComparatorError
from autotune.core.host.cores import own_cores
from autotune.core.payload import DTYPES, Argument, Array, Payload
from autotune.core.plugs.comparator import Prepared
from payload.comparators.onnx_graph import OnnxGraph, serialize
from payload.comparators.onnx_model import INT8_RULES, build

ERRORS_ONLY = 3
# Element types of a model's inputs that the payload holds in wider types.
NARROWER = {"tensor(bool)": "bool", "tensor(uint8)": "uint8", "tensor(uint16)": "uint16", "tensor(uint32)": "uint32"}


@dataclass(frozen=True)
class OnnxRuntime:
    """ONNX Runtime, as the comparator ``onnxruntime``."""

    name: str = "onnxruntime"
    modules: tuple[str, ...] = ("onnx", "onnxruntime")
    extra: str = "compare"

    def version(self) -> str:
        """Return the version of ONNX Runtime, which does not report the instruction set of its kernels."""
        return f"onnxruntime {version('onnxruntime')}, CPU provider (MLAS)"

    def prepare(self, payload: Payload, inputs: Mapping[str, Array]) -> Prepared:
        """Build the model and open a session with bound inputs and outputs, so that calls copy nothing.

        Raises:
            ComparatorError: The payload has no graph, or its graph has an unknown op.
        """
        if payload.model.endswith(".onnx"):
            model = OrtModel(payload, inputs)
            return Prepared(model.call, model.outputs, "the model's own file")
        session = OrtSession(payload, build(payload, inputs), inputs)
        return Prepared(session.call, session.outputs)


@dataclass(frozen=True)
class OnnxRuntimeInt8(OnnxRuntime):
    """ONNX Runtime with dynamically quantised products, as the comparator ``onnxruntime_int8``.

    Weights are int8 with a scale per column, activations uint8 with a scale per tensor and call, as in
    `quantize_dynamic`.
    """

    name: str = "onnxruntime_int8"
    rounded_to: str = "int8"

    def prepare(self, payload: Payload, inputs: Mapping[str, Array]) -> Prepared:
        """Build the model with quantised weights and open a session on it.

        Raises:
            ComparatorError: The payload is a model's own file, has no graph, or its graph has an unknown op.
        """
        if payload.model.endswith(".onnx"):
            raise ComparatorError(f"onnxruntime_int8 must have a graph to quantise, {payload.name} is a model's file")
        session = OrtSession(payload, build(payload, inputs, INT8_RULES), inputs)
        return Prepared(session.call, session.outputs, "dynamic quantisation")


ONNXRUNTIME, ONNXRUNTIME_INT8 = OnnxRuntime(), OnnxRuntimeInt8()


def session_options() -> Any:  # noqa: ANN401 - of a library without types
    """Return session options: one thread per core of the process, all graph optimizations."""
    import onnxruntime as ort  # noqa: PLC0415 - comes with an extra

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = own_cores(), 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = ERRORS_ONLY
    return options


def sizes_of(payload: Payload) -> dict[str, int]:
    """Return the payload's sizes of the symbolic dimensions of a model's file, by name."""
    import onnx  # noqa: PLC0415 - comes with an extra

    graph = onnx.load(payload.model, load_external_data=False).graph
    initializers = {tensor.name for tensor in graph.initializer}
    inputs = [tensor.type.tensor_type.shape.dim for tensor in graph.input if tensor.name not in initializers]
    shapes = [argument.shape for argument in payload.arguments if argument.role == "input"]
    pairs = (
        (dim, size) for dims, shape in zip(inputs, shapes, strict=False) for dim, size in zip(dims, shape, strict=False)
    )
    return {dim.dim_param: size for dim, size in pairs if dim.dim_param}


class OrtModel:
    """Session on the user's own file; its inputs and outputs correspond to the payload's by position."""

    def __init__(self, payload: Payload, inputs: Mapping[str, Array]) -> None:
        import onnxruntime as ort  # noqa: PLC0415 - comes with an extra

        options = session_options()
        for name, size in sizes_of(payload).items():
            options.add_free_dimension_override_by_name(name, size)
        self._session = ort.InferenceSession(payload.model, options, providers=["CPUExecutionProvider"])
        self._binding = self._session.io_binding()
        fed = [inputs[argument.name] for argument in payload.arguments if argument.role == "input"]
        self._fed = []
        for parameter, array in zip(self._session.get_inputs(), fed, strict=True):
            typed = array.astype(NARROWER.get(parameter.type, array.dtype), copy=False)
            self._fed.append(ort.OrtValue.ortvalue_from_numpy(typed))
            self._binding.bind_ortvalue_input(parameter.name, self._fed[-1])
        for output in self._session.get_outputs():
            self._binding.bind_output(output.name)

    def call(self) -> list[Any]:
        """Run once on the bound inputs."""
        self._session.run_with_iobinding(self._binding)
        return list(self._binding.get_outputs())

    def outputs(self, outputs: list[Any]) -> tuple[Array, ...]:
        """Convert the outputs to arrays."""
        return tuple(output.numpy() for output in outputs)


class OrtSession:
    """Session on a translated payload, and the objects that must outlive it.

    Attributes:
        values: Output buffers by name: the payload's outputs, and the graph's `states`.
    """

    def __init__(self, payload: Payload, graph: OnnxGraph, inputs: Mapping[str, Array]) -> None:
        import onnxruntime as ort  # noqa: PLC0415 - comes with an extra

        options = session_options()
        self._arrays = graph.weights  # the values below are views of these
        self._weights: dict[str, Any] = {n: ort.OrtValue.ortvalue_from_numpy(a) for n, a in graph.weights.items()}
        options.add_external_initializers(list(self._weights), list(self._weights.values()))
        model = serialize(graph, payload)
        self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._binding = self._session.io_binding()
        for argument in payload.arguments:
            if argument.role == "input":
                value = ort.OrtValue.ortvalue_from_numpy(inputs[argument.name])
                self._binding.bind_ortvalue_input(argument.name, value)
        for name, array in graph.fed.items():
            self._binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array))
        arguments = [*payload.outputs, *(Argument(name, "output", shape) for name, shape in graph.states.items())]
        self.values = {a.name: ort.OrtValue.ortvalue_from_shape_and_type(a.shape, DTYPES[a.dtype]) for a in arguments}
        for name, value in self.values.items():
            self._binding.bind_ortvalue_output(name, value)
        self._outputs = [self.values[argument.name] for argument in payload.outputs]

    def call(self) -> list[Any]:
        """Run once, from bound inputs to bound outputs."""
        self._session.run_with_iobinding(self._binding)
        return self._outputs

    def outputs(self, outputs: list[Any]) -> tuple[Array, ...]:
        """Convert the outputs to arrays."""
        return tuple(output.numpy() for output in outputs)
