"""Range analysis of the indices in a graph: whether they are within the bounds of what they index.

    i = argmax x;  table[i]                              within bounds: as many rows as x has elements
    table[ids.unsqueeze(0)]                              ids is an input: each call checks it before its program runs
    i = ids + 1;  table[i]                               PyTorch computes i, so that it is an input of a program, too

Programs access memory at an index without a check. Ranges are propagated by interval arithmetic, in the order of the
graph; a value that depends only on constants is computed.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from autotune.contrib.torch_backend.hoisting import VIEWS, extract, is_random

Bounds = tuple[int, int]  # half-open: the smallest integer, and the largest one plus 1
EXCLUDED = "autotune_left_to_pytorch"  # key in a node's metadata: the reason why PyTorch runs the op
ALONG = ("gather", "index_select", "index_add", "index_copy", "index_fill", "index_reduce")  # and scatters
LISTS = ("index", "_unsafe_index", "index_put", "_unsafe_index_put")
BAGS = ("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
UNKNOWN = ("masked_scatter", "repeat_interleave")  # ops that access elements at indices which are not an argument
NAMES = ("index", "indices", "offsets")  # arguments that are indices in any op
CHOOSE_ALONG = ("topk", "sort", "max", "min", "median", "nanmedian", "mode", "kthvalue", "cummax", "cummin")
GIVE_INDICES = ("argmax", "argmin", *CHOOSE_ALONG)  # ops that return indices of elements
MOVES = frozenset(
    {"clone", "contiguous", "repeat", "flip", "roll", "squeeze", "unfold", "lift_fresh_copy", "amax", "amin"}
)
PARTS = ("split", "split_with_sizes", "unbind", "chunk")
MASKS = (torch.bool, torch.uint8)


def exclude_unsafe(graph: Graph, kinds: Sequence[str], tensors: Sequence[torch.Tensor | None]) -> None:
    """Mark the ops that PyTorch must run: they compute an index that may be out of bounds, or use unknown indices.

    Args:
        graph: The graph.
        kinds: Kind of each placeholder: ``"weight"``, ``"constant"``, or ``""`` for a varying input.
        tensors: A tensor for each placeholder.
    """
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    constants = {p: t for p, kind, t in zip(placeholders, kinds, tensors, strict=True) if kind == "constant"}
    ranges = ranges_in(graph, constants)
    for node in graph.nodes:
        for index, bounds in indices_of(node):
            base = index_source(index)
            if bounds is None:
                node.meta[EXCLUDED] = "nothing says what its indices must be inside of"
            elif base.op != "placeholder" and not (
                is_within(ranges.get(index), bounds) or is_within(computed_range(graph, base, constants), bounds)
            ):
                producer = base.all_input_nodes[0] if base.target is operator.getitem else base
                producer.meta[EXCLUDED] = "it gives an index that may be out of bounds"


def bounds_in(graph: Graph, constants: Mapping[Node, torch.Tensor | None]) -> dict[int, Bounds]:
    """Return the bounds to check at run time for placeholders that hold indices, by number of the placeholder.

    Args:
        graph: The graph.
        constants: Placeholders whose elements are known.
    """
    ranges, unchecked = ranges_in(graph, constants), dict[int, Bounds]()
    numbers = {node: number for number, node in enumerate(each for each in graph.nodes if each.op == "placeholder")}
    for node in graph.nodes:
        for index, bounds in indices_of(node):
            number = numbers.get(index_source(index))
            if number is not None and bounds is not None and not is_within(ranges.get(index), bounds):
                low, high = unchecked.get(number, bounds)
                unchecked[number] = max(low, bounds[0]), min(high, bounds[1])
    return unchecked


def is_within(values: Bounds | None, bounds: Bounds) -> bool:
    """Return whether a known range is within bounds."""
    return values is not None and bounds[0] <= values[0] and values[1] <= bounds[1]


def name_of(node: Node) -> str:
    """Return the name of the PyTorch op that a node calls, without its overload; empty for other nodes."""
    target = node.target
    return target._schema.name.split("::")[1] if isinstance(target, torch._ops.OpOverload) else ""


def named_arguments(node: Node) -> dict[str, Any]:
    """Return the arguments of an op by name, with defaults for those that are omitted."""
    parameters = node.target._schema.arguments
    defaults = {argument.name: argument.default_value for argument in parameters}
    return {**defaults, **dict(zip(defaults, node.args, strict=False)), **node.kwargs}


def indices_of(  # noqa: PLR0911 - one for each kind of op
    node: Node,
) -> list[tuple[Node, Bounds | None]]:
    """Return the indices at which an op reads or writes elements, each with its bounds, or `None` if unknown."""
    name = name_of(node)
    if not name:
        return []
    arguments = named_arguments(node)
    if name in LISTS:
        return list_indices(arguments)
    if name in ALONG or name.startswith("scatter"):
        shape, index = shape_of(arguments["self"]) or (1,), arguments["index"]
        return [(index, (0, shape[arguments["dim"]]))]
    if name in BAGS:
        rows, count = shape_of(arguments["weight"])[0], shape_of(arguments["indices"])[0]
        return [(arguments["indices"], (0, rows)), (arguments["offsets"], (0, count + 1))]
    if name == "embedding":
        return [(arguments["indices"], (0, shape_of(arguments["weight"])[0]))]
    if name.startswith("nll_loss"):
        shape = shape_of(arguments["self"])  # of classes, or of rows and classes
        return [(arguments["target"], (0, shape[min(1, len(shape) - 1)]))]
    if name in ("take", "put"):
        count = torch.Size(shape_of(arguments["self"])).numel()
        return [(arguments["index"], (-count, count))]
    if name.startswith("max_unpool"):
        return [(arguments["indices"], (0, torch.Size(arguments["output_size"]).numel()))]
    read = node.all_input_nodes
    others = read if name in UNKNOWN else [arguments[each] for each in NAMES if arguments.get(each) in read]
    return [(each, None) for each in others if isinstance(each.meta.get("val"), torch.Tensor)]


def list_indices(arguments: Mapping[str, Any]) -> list[tuple[Node, Bounds | None]]:
    """Return the indices in a list, one per dimension; masks, which may span several, are always within bounds."""
    indices, dim = list[tuple[Node, Bounds | None]](), 0
    shape = shape_of(arguments["self"])
    for index in arguments["indices"]:
        if index is not None and index.meta["val"].dtype in MASKS:
            dim += index.meta["val"].dim()
            continue
        if index is not None:
            indices.append((index, (-shape[dim], shape[dim])))
        dim += 1
    return indices


def shape_of(node: Node) -> tuple[int, ...]:
    """Return the sizes of a node's result; 0, which no index is within, for a symbolic size."""
    return tuple(size if isinstance(size, int) else 0 for size in node.meta["val"].shape)


def source_of(node: Node) -> Node | None:
    """Return the operand from which a node copies integers, all or some, in any order; `None` if it computes them."""
    if node.op != "call_function" or not node.all_input_nodes:
        return None
    source = node.all_input_nodes[0]
    if node.target is operator.getitem:
        is_copied = name_of(source) in PARTS or (name_of(source) in CHOOSE_ALONG and node.args[1] == 0)
        return source.all_input_nodes[0] if is_copied else None
    if name_of(node) == "_to_copy":
        result, operand = node.meta["val"], source.meta["val"]
        return source if is_integral(operand) and is_integral(result) and result.itemsize >= operand.itemsize else None
    return source if node.target in VIEWS or name_of(node) in MOVES else None


def is_integral(value: torch.Tensor) -> bool:
    """Return whether elements are signed integers or Booleans."""
    return value.dtype in (torch.bool, torch.int8, torch.int16, torch.int32, torch.int64)


def index_source(index: Node) -> Node:
    """Return the node from which the integers of an index are copied."""
    while (source := source_of(index)) is not None:
        index = source
    return index


def computed_range(graph: Graph, node: Node, constants: Mapping[Node, torch.Tensor | None]) -> Bounds | None:
    """Compute a node that depends only on constants, and return its range; `None` for other nodes."""
    placeholders = [each for each in graph.nodes if each.op == "placeholder"]
    module, sources = extract(graph, [node], placeholders)
    values = [constants.get(placeholders[number]) for number in sources]
    if any(value is None for value in values) or any(map(is_random, module.graph.nodes)):
        return None
    with torch.no_grad():
        return range_of_elements(module(*values)[0])


def range_of_elements(value: torch.Tensor) -> Bounds | None:
    """Return the range of a tensor's integers; `None` if it has none."""
    if not isinstance(value, torch.Tensor) or not is_integral(value) or not value.numel():
        return None
    minimum, maximum = torch.aminmax(value.view(torch.int8) if value.dtype is torch.bool else value)
    return int(minimum), int(maximum) + 1


def ranges_in(graph: Graph, constants: Mapping[Node, torch.Tensor | None]) -> dict[Node, Bounds]:
    """Return the ranges of the integers that nodes of a graph compute; by default those of their types."""
    ranges = dict[Node, Bounds]()
    for node in graph.nodes:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or not is_integral(value):
            continue
        type_range = (0, 2) if value.dtype is torch.bool else limits(value.dtype)
        constant = constants.get(node)
        low, high = (range_of_elements(constant) if constant is not None else range_of(node, ranges)) or type_range
        ranges[node] = (low, high) if type_range[0] <= low < high <= type_range[1] else type_range  # or it overflows
    return ranges


def limits(dtype: torch.dtype) -> Bounds:
    """Return the range of integers of a type."""
    info = torch.iinfo(dtype)
    return info.min, info.max + 1


def range_of(node: Node, ranges: Mapping[Node, Bounds]) -> Bounds | None:
    """Return the range of a node's result from the ranges of its operands; `None` if it is unknown."""
    if (source := source_of(node)) is not None:
        return ranges.get(source)
    name = name_of(node)
    if node.target is operator.getitem or name in ("argmax", "argmin"):
        return index_range(node)
    arguments = named_arguments(node) if name in RANGES else {}
    if not arguments or arguments.get("alpha", 1) != 1:
        return None
    try:
        return RANGES[name](lambda value: as_range(value, ranges), arguments)
    except UnknownRangeError:
        return None


class UnknownRangeError(Exception):
    """A value has no range of integers."""


def as_range(value: object, ranges: Mapping[Node, Bounds]) -> Bounds:
    """Return the range of an operand.

    Raises:
        UnknownRangeError: The operand is not an integer.
    """
    if isinstance(value, Node) and value in ranges:
        return ranges[value]
    if isinstance(value, int):
        return int(value), int(value) + 1
    raise UnknownRangeError


def index_range(node: Node) -> Bounds | None:
    """Return the range of a result that holds indices of selected elements; `None` for other results."""
    source, number = node.args[:2] if node.target is operator.getitem else (node, 1)
    name = name_of(source) if number == 1 else ""
    if name in GIVE_INDICES:
        arguments = named_arguments(source)
        return dim_range(arguments["self"], arguments["dim"])
    if name.startswith("max_pool") and name.endswith("_with_indices"):
        spatial = shape_of(source.args[0])[-int(name[len("max_pool")]) :]
        return 0, torch.Size(spatial).numel()
    return None


def dim_range(node: Node, dim: int | None) -> Bounds:
    """Return the range of indices along a dimension, or into all elements if it is `None`."""
    shape = shape_of(node)
    return 0, torch.Size(shape).numel() if dim is None or not shape else shape[dim]


RangeOf = Callable[[object], Bounds]


def add_range(operand_range: RangeOf, arguments: Mapping[str, Any]) -> Bounds:
    """Return the range of sums."""
    a, b = operand_range(arguments["self"]), operand_range(arguments["other"])
    return a[0] + b[0], a[1] + b[1] - 1


def sub_range(operand_range: RangeOf, arguments: Mapping[str, Any]) -> Bounds:
    """Return the range of differences."""
    a, b = operand_range(arguments["self"]), operand_range(arguments["other"])
    return a[0] - b[1] + 1, a[1] - b[0]


def mul_range(operand_range: RangeOf, arguments: Mapping[str, Any]) -> Bounds:
    """Return the range of products."""
    a, b = operand_range(arguments["self"]), operand_range(arguments["other"])
    ends = [x * y for x in (a[0], a[1] - 1) for y in (b[0], b[1] - 1)]
    return min(ends), max(ends) + 1


def clamp_range(operand_range: RangeOf, arguments: Mapping[str, Any]) -> Bounds:
    """Return the range of integers that are clamped to a minimum, then to a maximum."""
    low, high = operand_range(arguments["self"])[0], operand_range(arguments["self"])[1] - 1
    if arguments.get("min") is not None:
        lower = operand_range(arguments["min"])
        low, high = max(low, lower[0]), max(high, lower[1] - 1)
    if arguments.get("max") is not None:
        upper = operand_range(arguments["max"])
        low, high = min(low, upper[0]), min(high, upper[1] - 1)
    return low, high + 1


def remainder_range(operand_range: RangeOf, arguments: Mapping[str, Any]) -> Bounds:
    """Return the range of remainders, which have the sign of the divisor."""
    operand_range(arguments["self"])
    divisor = operand_range(arguments["other"])
    if divisor[0] <= 0:
        raise UnknownRangeError
    return 0, divisor[1] - 1


def div_range(operand_range: RangeOf, arguments: Mapping[str, Any]) -> Bounds:
    """Return the range of quotients that are rounded down or toward zero."""
    a, divisor = operand_range(arguments["self"]), operand_range(arguments["other"])
    if divisor[0] <= 0 or arguments.get("rounding_mode", "floor") is None:
        raise UnknownRangeError
    ends = [end // by for end in (a[0], a[1] - 1) for by in (divisor[0], divisor[1] - 1)]
    return min(ends), max(*ends, 0 if a[0] < 0 else ends[0]) + 1  # -1 by 2 is -1 or 0


def and_range(operand_range: RangeOf, arguments: Mapping[str, Any]) -> Bounds:
    """Return the range of bitwise ANDs."""
    ends = [end[1] for end in (operand_range(arguments["self"]), operand_range(arguments["other"])) if end[0] >= 0]
    if not ends:
        raise UnknownRangeError
    return 0, min(ends)


def as_list(value: object) -> Sequence[object]:
    """Return operands as a sequence, also a single one."""
    return value if isinstance(value, list | tuple) else (value,)


def union_range(*names: str) -> Callable[[RangeOf, Mapping[str, Any]], Bounds]:
    """Return a function that computes the union of the ranges of operands."""

    def range_of_union(operand_range: RangeOf, arguments: Mapping[str, Any]) -> Bounds:
        ranges = [operand_range(each) for name in names for each in as_list(arguments[name])]
        return min(low for low, _ in ranges), max(high for _, high in ranges)

    return range_of_union


def extreme_range(choose: Callable[..., int]) -> Callable[[RangeOf, Mapping[str, Any]], Bounds]:
    """Return a function that computes the range of minima or maxima."""

    def range_of_extreme(operand_range: RangeOf, arguments: Mapping[str, Any]) -> Bounds:
        a, b = operand_range(arguments["self"]), operand_range(arguments["other"])
        return choose(a[0], b[0]), choose(a[1], b[1])

    return range_of_extreme


def arange_range(operand_range: RangeOf, arguments: Mapping[str, Any]) -> Bounds:
    """Return the range of the integers of ``arange``."""
    start, end, step = (
        operand_range(arguments.get(name, default)) for name, default in (("start", 0), ("end", 0), ("step", 1))
    )
    if step[0] < 1:
        raise UnknownRangeError
    return start[0], max(end[1] - 1, start[0] + 1)


def sum_range(operand_range: RangeOf, arguments: Mapping[str, Any]) -> Bounds:
    """Return the range of sums along dimensions, or of all elements, and of their partial sums."""
    low, high = operand_range(arguments["self"])[0], operand_range(arguments["self"])[1] - 1
    shape, dims = shape_of(arguments["self"]), arguments.get("dim")
    named = [dims] if isinstance(dims, int) else dims or []
    counts = [shape[dim] for dim in named] if named and shape else shape
    if not (count := torch.Size(counts).numel()):
        raise UnknownRangeError
    return min(low, low * count), max(high, high * count) + 1


def search_range(operand_range: RangeOf, arguments: Mapping[str, Any]) -> Bounds:
    """Return the range of the results of ``searchsorted`` and ``bucketize``: positions among boundaries."""
    boundaries = arguments.get("sorted_sequence") or arguments["boundaries"]
    return 0, shape_of(boundaries)[-1] + 1


def index_put_range(operand_range: RangeOf, arguments: Mapping[str, Any]) -> Bounds:
    """Return the range of a tensor some elements of which are replaced."""
    if arguments["accumulate"]:
        raise UnknownRangeError
    return union_range("self", "values")(operand_range, arguments)


def same_range(name: str) -> Callable[[RangeOf, Mapping[str, Any]], Bounds]:
    """Return a function that computes the range of an operand, for results with the same range."""
    return lambda operand_range, arguments: operand_range(arguments[name])


RANGES: Mapping[str, Callable[[RangeOf, Mapping[str, Any]], Bounds]] = {
    "add": add_range,
    "sub": sub_range,
    "mul": mul_range,
    "clamp": clamp_range,
    "clamp_min": clamp_range,
    "clamp_max": clamp_range,
    "remainder": remainder_range,
    "div": div_range,
    "floor_divide": div_range,
    "bitwise_and": and_range,
    "where": union_range("self", "other"),
    "masked_fill": union_range("self", "value"),
    "cat": union_range("tensors"),
    "stack": union_range("tensors"),
    "minimum": extreme_range(min),
    "maximum": extreme_range(max),
    "arange": arange_range,
    "sum": sum_range,
    "cumsum": sum_range,
    "index_put": index_put_range,
    "searchsorted": search_range,
    "bucketize": search_range,
    "_to_copy": same_range("self"),
    "full": same_range("fill_value"),
    "full_like": same_range("fill_value"),
    "scalar_tensor": same_range("s"),
    "zeros": lambda *_: (0, 1),
    "zeros_like": lambda *_: (0, 1),
    "ones": lambda *_: (1, 2),
    "ones_like": lambda *_: (1, 2),
    "gather": same_range("self"),
    "index_select": same_range("self"),
    "index": same_range("self"),
    "embedding": same_range("weight"),
}
