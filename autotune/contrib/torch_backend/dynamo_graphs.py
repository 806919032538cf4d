"""Cache key of a Dynamo graph: everything that determines its functional graph.

To make it functional, PyTorch runs a graph twice on tensors without elements, which takes as long as to trace it. A
graph has no key, and is made functional in each process, where its text does not say all: functions of users, graphs
within it, tensors that it holds, open sizes, or states of PyTorch's that are not in the key.
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

from autotune.contrib.torch_backend.regions import NAMESPACES, OPEN, is_own_op
from autotune.core.host.extras import version_of
from autotune.core.host.sources import hash_sources

STATIC = "_dynamo_static_input_type"  # what Dynamo notes of parameters and buffers
PLAIN = (torch.Tensor, torch.nn.Parameter, FakeTensor)
NUMBERS = (type(None), bool, int, float, complex, str, type(...))
NAMES = (torch.dtype, torch.device, torch.layout, torch.memory_format)
OURS = ("torch", "_operator", "math")  # packages whose functions a version of PyTorch, or of Python, says


class UnkeyedError(Exception):
    """A graph has something that its text does not say."""


def key_of_graph(module: GraphModule, inputs: Sequence[Any]) -> str | None:
    """Hex sha256 of a graph with its inputs' layouts and PyTorch's state; `None` where that does not say all.

    Args:
        module: The graph.
        inputs: Inputs of the graph, or fake tensors like them.
    """
    try:
        lines = [*state_of_torch(), *map(layout_of, inputs), *lines_of(module)]
    except (UnkeyedError, AttributeError):  # a version of PyTorch has no such state
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
    """What a graph is told of an input.

    Raises:
        UnkeyedError: The input is no plain tensor of known sizes, or a gradient is asked for.
    """
    if not isinstance(tensor, PLAIN) or type(tensor) not in PLAIN or tensor.layout is not torch.strided:
        raise UnkeyedError
    if tensor.is_conj() or tensor.is_neg() or (tensor.requires_grad and torch.is_grad_enabled()):
        raise UnkeyedError
    numbers = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    if not all(type(number) is int for number in numbers):
        raise UnkeyedError
    return f"{tensor.dtype} {tensor.device} {tuple(tensor.shape)} {tensor.stride()} {tensor.storage_offset()}"


def lines_of(module: GraphModule) -> Iterator[str]:
    """A graph as text that is the same in every process.

    Raises:
        UnkeyedError: A node calls what only this process knows.
    """
    for node in module.graph.nodes:
        if isinstance(node.meta.get("example_value"), OPEN):
            raise UnkeyedError
        if node.op == "call_function":
            target = name_of(node.target)
        elif node.op in {"placeholder", "call_method", "output"}:
            target = str(node.target) if node.op == "call_method" else ""
        else:
            raise UnkeyedError
        held = STATIC in (node.meta.get("tensor_dict") or {})
        yield f"{node.name} {node.op} {target} {text_of(node.args)} {text_of(node.kwargs)} {held}"


def name_of(function: Any) -> str:  # noqa: ANN401 - whatever a graph calls
    """The full name of a function of PyTorch's or of Python's operators.

    Raises:
        UnkeyedError: The function is another's, or an op that takes graphs.
    """
    is_all_forms = isinstance(function, torch._ops.OpOverloadPacket)
    if is_own_op(function) or (is_all_forms and str(function).split(".", maxsplit=1)[0] in NAMESPACES):
        return str(function)
    if not is_all_forms and not isinstance(function, torch._ops.OperatorBase):
        package, name = getattr(function, "__module__", None) or "", getattr(function, "__qualname__", "")
        if package.split(".")[0] in OURS and name and "<" not in name:
            return f"{package}.{name}"
    raise UnkeyedError


def text_of(value: object) -> str:
    """An argument as text: nodes by name, constants as they are written.

    Raises:
        UnkeyedError: The value is neither, nor made of such.
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
