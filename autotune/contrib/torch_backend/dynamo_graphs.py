"""Cache key of a Dynamo graph: everything that determines its functional graph.

PyTorch functionalizes a graph by running it twice on fake tensors, which takes as long as tracing it. A graph has no
key, and is functionalized in each process, if its text does not determine the result: with user functions, subgraphs,
tensor attributes, symbolic sizes, or state of PyTorch that is not part of the key.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._functorch import config
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from autotune.contrib.torch_backend.regions import NAMESPACES, SYMBOLIC, is_own_op
from autotune.core.host.extras import version_of
from autotune.core.host.sources import hash_sources

STATIC = "_dynamo_static_input_type"  # Dynamo's mark of parameters and buffers
TENSOR_TYPES = (torch.Tensor, torch.nn.Parameter, FakeTensor)
NUMBERS = (type(None), bool, int, float, complex, str, type(...))
NAMES = (torch.dtype, torch.device, torch.layout, torch.memory_format)
KEYED_PACKAGES = ("torch", "_operator", "math")  # packages whose functions follow from the version of PyTorch or Python


class UnkeyedError(Exception):
    """The text of a graph does not determine its functional graph."""


def key_of_graph(module: GraphModule, inputs: Sequence[Any]) -> str | None:
    """Return the hex sha256 of a graph, its inputs' layouts and PyTorch's state.

    It is `None` if these do not determine the functional graph.

    Args:
        module: The graph.
        inputs: Inputs of the graph, or fake tensors like them.
    """
    try:
        lines = [*state_of_torch(), *map(layout_of, inputs), *lines_of(module)]
    except (UnkeyedError, AttributeError):  # this version of PyTorch lacks a part of the state
        return None
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def state_of_torch() -> Iterator[str]:
    """Yield the state of PyTorch that affects the functional graph.

    Raises:
        UnkeyedError: Modes, function transforms or autocast are active.
    """
    modes = (*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack())
    if modes or torch._C._functorch.peek_interpreter_stack() is not None or torch._C._is_any_autocast_enabled():
        raise UnkeyedError
    yield f"torch {version_of('torch')} {torch.version.git_version} {hash_sources()}"
    yield f"{torch.backends.cpu.get_cpu_capability()} {torch.get_default_dtype()}"
    yield f"{torch.is_grad_enabled()} {torch.is_inference_mode_enabled()} {config.codegen_config()}"
    yield f"{torch.are_deterministic_algorithms_enabled()} {torch.utils.deterministic.fill_uninitialized_memory}"
    yield f"{torch.backends.mkldnn.enabled} {torch.backends.mha.get_fastpath_enabled()}"
    attention = torch.backends.cuda
    yield f"{attention.flash_sdp_enabled()} {attention.mem_efficient_sdp_enabled()} {attention.math_sdp_enabled()}"


def layout_of(tensor: object) -> str:
    """Return the properties of an input that a graph depends on, as text.

    Raises:
        UnkeyedError: The input is not a plain tensor of static sizes, or it requires a gradient.
    """
    if not isinstance(tensor, TENSOR_TYPES) or type(tensor) not in TENSOR_TYPES or tensor.layout is not torch.strided:
        raise UnkeyedError
    if tensor.is_conj() or tensor.is_neg() or (tensor.requires_grad and torch.is_grad_enabled()):
        raise UnkeyedError
    numbers = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    if not all(type(number) is int for number in numbers):
        raise UnkeyedError
    return f"{tensor.dtype} {tensor.device} {tuple(tensor.shape)} {tensor.stride()} {tensor.storage_offset()}"


def lines_of(module: GraphModule) -> Iterator[str]:
    """Yield a graph as text that is the same in every process.

    Raises:
        UnkeyedError: A node refers to an object of this process.
    """
    for node in module.graph.nodes:
        if isinstance(node.meta.get("example_value"), SYMBOLIC):
            raise UnkeyedError
        if node.op == "call_function":
            target = name_of(node.target)
        elif node.op in {"placeholder", "call_method", "output"}:
            target = str(node.target) if node.op == "call_method" else ""
        else:
            raise UnkeyedError
        is_static = STATIC in (node.meta.get("tensor_dict") or {})
        yield f"{node.name} {node.op} {target} {text_of(node.args)} {text_of(node.kwargs)} {is_static}"


def name_of(function: Any) -> str:  # noqa: ANN401 - any callable
    """Return the full name of a function of PyTorch or Python.

    Raises:
        UnkeyedError: The function is of another package, or it is an op that takes graphs.
    """
    is_packet = isinstance(function, torch._ops.OpOverloadPacket)
    if is_own_op(function) or (is_packet and str(function).split(".", maxsplit=1)[0] in NAMESPACES):
        return str(function)
    if not is_packet and not isinstance(function, torch._ops.OperatorBase):
        package, name = getattr(function, "__module__", None) or "", getattr(function, "__qualname__", "")
        if package.split(".")[0] in KEYED_PACKAGES and name and "<" not in name:
            return f"{package}.{name}"
    raise UnkeyedError


def text_of(value: object) -> str:
    """Return an argument as text: nodes by name, constants as literals.

    Raises:
        UnkeyedError: The value is of another type, or contains one.
    """
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({', '.join(map(text_of, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{text_of(key)}: {text_of(each)}' for key, each in value.items())}}}"
    if isinstance(value, slice):
        return f"slice({text_of(value.start)}, {text_of(value.stop)}, {text_of(value.step)})"
    if isinstance(value, (*NUMBERS, *NAMES)):
        return repr(value)
    raise UnkeyedError
