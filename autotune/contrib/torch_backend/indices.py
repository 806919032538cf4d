"""Indices in a graph: what they index, and whether they are surely inside of it.

    i = argmax x;  table[i]                              inside: as many rows as x has elements
    table[ids.unsqueeze(0)]                              ids are given: a call checks them, before its program runs
    i = ids + 1;  table[i]                               PyTorch computes i, so that it is given, too

Programs read and write memory at an index as it is. Ranges are found by interval arithmetic, each from those before it;
what is computed of constants alone is computed.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from autotune.contrib.torch_backend.held import VIEWS, extract, is_random

Bounds = tuple[int, int]  # least whole number, and the one above the largest
LEFT = "autotune_left_to_pytorch"  # why an op is in no region, among what a node knows
ALONG = ("gather", "index_select", "index_add", "index_copy", "index_fill", "index_reduce")  # and all that scatter
LISTS = ("index", "_unsafe_index", "index_put", "_unsafe_index_put")
BAGS = ("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
UNKNOWN = ("masked_scatter", "repeat_interleave")  # read elements at indices that no argument gives
NAMES = ("index", "indices", "offsets")  # of arguments that are indices, whatever the op
CHOOSE_ALONG = ("topk", "sort", "max", "min", "median", "nanmedian", "mode", "kthvalue", "cummax", "cummin")
GIVE_INDICES = ("argmax", "argmin", *CHOOSE_ALONG)  # of elements
MOVES = frozenset({"clone", "contiguous", "repeat", "flip", "roll", "squeeze", "unfold", "lift_fresh_copy"})
PARTS = ("split", "split_with_sizes", "unbind", "chunk")
MASKS = (torch.bool, torch.uint8)


def leave_doubtful(graph: Graph, kinds: Sequence[str], tensors: Sequence[torch.Tensor | None]) -> None:
    """Note in a graph which ops PyTorch is to run, since they give an index that may be outside, or read at any.

    Args:
        graph: The graph.
        kinds: ``"weight"``, ``"constant"``, or ``""`` for what calls give, a word each placeholder.
        tensors: A tensor for each placeholder.
    """
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    constants = {p: t for p, kind, t in zip(placeholders, kinds, tensors, strict=True) if kind == "constant"}
    ranges = ranges_in(graph, constants)
    for node in graph.nodes:
        for index, bounds in indices_of(node):
            base = moved_from(index)
            if bounds is None:
                node.meta[LEFT] = "nothing says what its indices must be inside of"
            elif base.op != "placeholder" and not (
                is_within(ranges.get(index), bounds) or is_within(computed_range(graph, base, constants), bounds)
            ):
                maker = base.all_input_nodes[0] if base.target is operator.getitem else base
                maker.meta[LEFT] = "it gives an index that may be out of bounds"


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
            number = numbers.get(moved_from(index))
            if number is not None and bounds is not None and not is_within(ranges.get(index), bounds):
                low, high = unchecked.get(number, bounds)
                unchecked[number] = max(low, bounds[0]), min(high, bounds[1])
    return unchecked


def is_within(values: Bounds | None, bounds: Bounds) -> bool:
    """Return whether numbers of a range are surely within bounds."""
    return values is not None and bounds[0] <= values[0] and values[1] <= bounds[1]


def name_of(node: Node) -> str:
    """Name of the op of PyTorch's that a node calls, without its overload; empty of any other node."""
    target = node.target
    return target._schema.name.split("::")[1] if isinstance(target, torch._ops.OpOverload) else ""


def named_arguments(node: Node) -> dict[str, Any]:
    """Arguments of an op by name, those that are left out as well."""
    known = node.target._schema.arguments
    given = {argument.name: argument.default_value for argument in known}
    return {**given, **dict(zip(given, node.args, strict=False)), **node.kwargs}


def indices_of(  # noqa: PLR0911 - one for each kind of op
    node: Node,
) -> list[tuple[Node, Bounds | None]]:
    """Indices at which an op reads or writes elements, each with its bounds; no bounds where nobody knows them."""
    name = name_of(node)
    if not name:
        return []
    given = named_arguments(node)
    if name in LISTS:
        return listed(given)
    if name in ALONG or name.startswith("scatter"):
        shape, index = shape_of(given["self"]) or (1,), given["index"]
        return [(index, (0, shape[given["dim"]]))]
    if name in BAGS:
        rows, count = shape_of(given["weight"])[0], shape_of(given["indices"])[0]
        return [(given["indices"], (0, rows)), (given["offsets"], (0, count + 1))]
    if name == "embedding":
        return [(given["indices"], (0, shape_of(given["weight"])[0]))]
    if name.startswith("nll_loss"):
        shape = shape_of(given["self"])  # of classes, or of rows and classes
        return [(given["target"], (0, shape[min(1, len(shape) - 1)]))]
    if name in ("take", "put"):
        count = torch.Size(shape_of(given["self"])).numel()
        return [(given["index"], (-count, count))]
    if name.startswith("max_unpool"):
        return [(given["indices"], (0, torch.Size(given["output_size"]).numel()))]
    read = node.all_input_nodes
    others = read if name in UNKNOWN else [given[each] for each in NAMES if given.get(each) in read]
    return [(each, None) for each in others if isinstance(each.meta.get("val"), torch.Tensor)]


def listed(given: Mapping[str, Any]) -> list[tuple[Node, Bounds | None]]:
    """Indices in a list, one for each dimension; a mask is of several, and inside."""
    found, dim = list[tuple[Node, Bounds | None]](), 0
    shape = shape_of(given["self"])
    for index in given["indices"]:
        if index is not None and index.meta["val"].dtype in MASKS:
            dim += index.meta["val"].dim()
            continue
        if index is not None:
            found.append((index, (-shape[dim], shape[dim])))
        dim += 1
    return found


def shape_of(node: Node) -> tuple[int, ...]:
    """Sizes of what a node gives; 0, in which no index is, for one that is not known."""
    return tuple(size if isinstance(size, int) else 0 for size in node.meta["val"].shape)


def source_of(node: Node) -> Node | None:
    """The operand whose whole numbers a node gives as they are, all or some, in any order; `None` where it computes."""
    if node.op != "call_function" or not node.all_input_nodes:
        return None
    source = node.all_input_nodes[0]
    if node.target is operator.getitem:
        return source.all_input_nodes[0] if name_of(source) in PARTS else None
    if name_of(node) == "_to_copy":
        value, given = node.meta["val"], source.meta["val"]
        return source if is_whole(given) and is_whole(value) and value.itemsize >= given.itemsize else None
    return source if node.target in VIEWS or name_of(node) in MOVES else None


def is_whole(value: torch.Tensor) -> bool:
    """Return whether elements are whole numbers with a sign, or truth values."""
    return value.dtype in (torch.bool, torch.int8, torch.int16, torch.int32, torch.int64)


def moved_from(index: Node) -> Node:
    """The node whose numbers an index has."""
    while (source := source_of(index)) is not None:
        index = source
    return index


def computed_range(graph: Graph, node: Node, constants: Mapping[Node, torch.Tensor | None]) -> Bounds | None:
    """Range of what is computed of constants alone; `None` of anything else."""
    placeholders = [each for each in graph.nodes if each.op == "placeholder"]
    module, sources = extract(graph, [node], placeholders)
    values = [constants.get(placeholders[number]) for number in sources]
    if any(value is None for value in values) or any(map(is_random, module.graph.nodes)):
        return None
    with torch.no_grad():
        return range_of_elements(module(*values)[0])


def range_of_elements(value: torch.Tensor) -> Bounds | None:
    """Return the range of a tensor's integers; `None` if it has none."""
    if not isinstance(value, torch.Tensor) or not is_whole(value) or not value.numel():
        return None
    least, most = torch.aminmax(value.view(torch.int8) if value.dtype is torch.bool else value)
    return int(least), int(most) + 1


def ranges_in(graph: Graph, constants: Mapping[Node, torch.Tensor | None]) -> dict[Node, Bounds]:
    """Return the ranges of the integers that nodes of a graph compute; by default those of their types."""
    found = dict[Node, Bounds]()
    for node in graph.nodes:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or not is_whole(value):
            continue
        whole = (0, 2) if value.dtype is torch.bool else limits(value.dtype)
        known = constants.get(node)
        low, high = (range_of_elements(known) if known is not None else range_of(node, found)) or whole
        found[node] = (low, high) if whole[0] <= low < high <= whole[1] else whole  # else it wraps
    return found


def limits(dtype: torch.dtype) -> Bounds:
    """Return the range of integers of a type."""
    held = torch.iinfo(dtype)
    return held.min, held.max + 1


def range_of(node: Node, ranges: Mapping[Node, Bounds]) -> Bounds | None:
    """Return the range of a node's result from the ranges of its operands; `None` if it is unknown."""
    if (source := source_of(node)) is not None:
        return ranges.get(source)
    name = name_of(node)
    if node.target is operator.getitem or name in ("argmax", "argmin"):
        return index_range(node)
    given = named_arguments(node) if name in RANGES else {}
    if not given or given.get("alpha", 1) != 1:
        return None
    try:
        return RANGES[name](lambda value: as_range(value, ranges), given)
    except UnknownRangeError:
        return None


class UnknownRangeError(Exception):
    """A value has no range of integers."""


def as_range(value: object, ranges: Mapping[Node, Bounds]) -> Bounds:
    """Range of an operand.

    Raises:
        UnknownRangeError: The operand is no whole number.
    """
    if isinstance(value, Node) and value in ranges:
        return ranges[value]
    if isinstance(value, int):
        return int(value), int(value) + 1
    raise UnknownRangeError


def index_range(node: Node) -> Bounds | None:
    """Range of the indices that an op gives of elements it chooses; `None` where it gives no such indices."""
    source, number = node.args[:2] if node.target is operator.getitem else (node, 1)
    name = name_of(source) if number == 1 else ""
    if name in GIVE_INDICES:
        given = named_arguments(source)
        return sizes_along(given["self"], given["dim"])
    if name.startswith("max_pool") and name.endswith("_with_indices"):
        spatial = shape_of(source.args[0])[-int(name[len("max_pool")]) :]
        return 0, torch.Size(spatial).numel()
    return None


def sizes_along(node: Node, dim: int | None) -> Bounds:
    """Range of indices along a dimension; of all elements where none is named."""
    shape = shape_of(node)
    return 0, torch.Size(shape).numel() if dim is None or not shape else shape[dim]


Ask = Callable[[object], Bounds]


def added(ask: Ask, given: Mapping[str, Any]) -> Bounds:
    """Range of sums."""
    a, b = ask(given["self"]), ask(given["other"])
    return a[0] + b[0], a[1] + b[1] - 1


def subtracted(ask: Ask, given: Mapping[str, Any]) -> Bounds:
    """Range of differences."""
    a, b = ask(given["self"]), ask(given["other"])
    return a[0] - b[1] + 1, a[1] - b[0]


def multiplied(ask: Ask, given: Mapping[str, Any]) -> Bounds:
    """Range of products."""
    a, b = ask(given["self"]), ask(given["other"])
    ends = [x * y for x in (a[0], a[1] - 1) for y in (b[0], b[1] - 1)]
    return min(ends), max(ends) + 1


def clamped(ask: Ask, given: Mapping[str, Any]) -> Bounds:
    """Range of numbers that are raised to a least, then lowered to a largest one."""
    low, most = ask(given["self"])[0], ask(given["self"])[1] - 1
    if given.get("min") is not None:
        least = ask(given["min"])
        low, most = max(low, least[0]), max(most, least[1] - 1)
    if given.get("max") is not None:
        end = ask(given["max"])
        low, most = min(low, end[0]), min(most, end[1] - 1)
    return low, most + 1


def remaining(ask: Ask, given: Mapping[str, Any]) -> Bounds:
    """Range of remainders, which have the sign of the divisor."""
    ask(given["self"])
    divisor = ask(given["other"])
    if divisor[0] <= 0:
        raise UnknownRangeError
    return 0, divisor[1] - 1


def divided(ask: Ask, given: Mapping[str, Any]) -> Bounds:
    """Range of quotients that are rounded down, or to zero."""
    a, divisor = ask(given["self"]), ask(given["other"])
    if divisor[0] <= 0 or given.get("rounding_mode", "floor") is None:
        raise UnknownRangeError
    ends = [end // by for end in (a[0], a[1] - 1) for by in (divisor[0], divisor[1] - 1)]
    return min(ends), max(*ends, 0 if a[0] < 0 else ends[0]) + 1  # -1 by 2 is -1 or 0


def masked(ask: Ask, given: Mapping[str, Any]) -> Bounds:
    """Range of numbers with some bits of another."""
    ends = [end[1] for end in (ask(given["self"]), ask(given["other"])) if end[0] >= 0]
    if not ends:
        raise UnknownRangeError
    return 0, min(ends)


def flat(value: object) -> Sequence[object]:
    """Operands in a list, or one."""
    return value if isinstance(value, list | tuple) else (value,)


def joined(*names: str) -> Callable[[Ask, Mapping[str, Any]], Bounds]:
    """Range of numbers that are those of some operands."""

    def join(ask: Ask, given: Mapping[str, Any]) -> Bounds:
        ranges = [ask(each) for name in names for each in flat(given[name])]
        return min(low for low, _ in ranges), max(high for _, high in ranges)

    return join


def extreme(choose: Callable[..., int]) -> Callable[[Ask, Mapping[str, Any]], Bounds]:
    """Range of the smaller or the larger of two numbers."""

    def of_two(ask: Ask, given: Mapping[str, Any]) -> Bounds:
        a, b = ask(given["self"]), ask(given["other"])
        return choose(a[0], b[0]), choose(a[1], b[1])

    return of_two


def counted(ask: Ask, given: Mapping[str, Any]) -> Bounds:
    """Range of whole numbers one after the other."""
    start, end, step = (ask(given.get(name, default)) for name, default in (("start", 0), ("end", 0), ("step", 1)))
    if step[0] < 1:
        raise UnknownRangeError
    return start[0], max(end[1] - 1, start[0] + 1)


def summed(ask: Ask, given: Mapping[str, Any]) -> Bounds:
    """Range of sums along dimensions, of all elements where none is named, and of what they are on the way."""
    low, most = ask(given["self"])[0], ask(given["self"])[1] - 1
    shape, dims = shape_of(given["self"]), given.get("dim")
    named = [dims] if isinstance(dims, int) else dims or []
    counts = [shape[dim] for dim in named] if named and shape else shape
    if not (count := torch.Size(counts).numel()):
        raise UnknownRangeError
    return min(low, low * count), max(most, most * count) + 1


def numbered(ask: Ask, given: Mapping[str, Any]) -> Bounds:
    """Range of the results of ``searchsorted`` and ``bucketize``: numbers of boundaries."""
    boundaries = given.get("sorted_sequence") or given["boundaries"]
    return 0, shape_of(boundaries)[-1] + 1


def written(ask: Ask, given: Mapping[str, Any]) -> Bounds:
    """Range of numbers some of which others replace."""
    if given["accumulate"]:
        raise UnknownRangeError
    return joined("self", "values")(ask, given)


def same(name: str) -> Callable[[Ask, Mapping[str, Any]], Bounds]:
    """Range of an operand, which the result has."""
    return lambda ask, given: ask(given[name])


RANGES: Mapping[str, Callable[[Ask, Mapping[str, Any]], Bounds]] = {
    "add": added,
    "sub": subtracted,
    "mul": multiplied,
    "clamp": clamped,
    "clamp_min": clamped,
    "clamp_max": clamped,
    "remainder": remaining,
    "div": divided,
    "floor_divide": divided,
    "bitwise_and": masked,
    "where": joined("self", "other"),
    "masked_fill": joined("self", "value"),
    "cat": joined("tensors"),
    "stack": joined("tensors"),
    "minimum": extreme(min),
    "maximum": extreme(max),
    "arange": counted,
    "sum": summed,
    "cumsum": summed,
    "index_put": written,
    "searchsorted": numbered,
    "bucketize": numbered,
    "_to_copy": same("self"),
    "full": same("fill_value"),
    "full_like": same("fill_value"),
    "scalar_tensor": same("s"),
    "zeros": lambda *_: (0, 1),
    "zeros_like": lambda *_: (0, 1),
    "ones": lambda *_: (1, 2),
    "ones_like": lambda *_: (1, 2),
    "gather": same("self"),
    "index_select": same("self"),
    "index": same("self"),
    "embedding": same("weight"),
}
