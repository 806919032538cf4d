"""Fusion report: for every producer-consumer pair of structured ops, whether they fuse, and if not, why."""

from collections.abc import Iterator, Mapping, Sequence

from mlir import ir

from autotune.compiler.facts.ops import VIEWS
from autotune.compiler.ir.nests import structured_ops
from autotune.compiler.ir.values import maker
from autotune.compiler.tasks.groups import Group, find_groups, objections, rows_in, sums_over_planes
from autotune.core.ops.facts import Edge
from autotune.core.scripts.marks import TAG

FOLLOWED = (*VIEWS, "tensor.cast", "tensor.insert_slice")  # ops between a producer and a consumer


def read_edges(function: ir.OpView, ops: Sequence[ir.Operation]) -> list[Edge]:
    """Return the producer-consumer edges between structured ops of a function whose tasks are tagged.

    Args:
        function: The function.
        ops: Structured ops of the function, in the order of their numbers.
    """
    numbers = {op: number for number, op in enumerate(ops)}
    group_of: dict[ir.Operation, Group] = {}
    for group in find_groups(list(structured_ops(function.regions[0].blocks[0]))):
        group_of.update(dict.fromkeys(group.ops, group))
    edges: dict[tuple[int, int], Edge] = {}
    for reader in ops:
        for index, value in enumerate(reader.operands):
            producer, view = behind(value)
            if producer is not None and producer in numbers:
                reason = next(why_apart(producer, reader, index, view, group_of), "")
                key = (numbers[producer], numbers[reader])
                edges.setdefault(key, Edge(*key, reason))
    return list(edges.values())


def behind(value: ir.Value) -> tuple[ir.Operation | None, str]:
    """Return the op behind a chain of views, and the name of the view nearest to it; empty if there is no view."""
    view, made_by = "", maker(value)
    while made_by is not None and made_by.name in FOLLOWED:
        view, made_by = made_by.name.removeprefix("tensor."), maker(made_by.operands[0])
    return made_by, view


def why_apart(
    producer: ir.Operation, reader: ir.Operation, index: int, view: str, group_of: Mapping[ir.Operation, Group]
) -> Iterator[str]:
    """Yield the reasons why a producer is not fused into a consumer, the decisive one first; none if it is fused.

    Args:
        producer: Producer of the value.
        reader: Consumer of the value.
        index: Operand number in the consumer.
        view: Name of the view between them; empty if there is none.
        group_of: Fusion group of every op.
    """
    group = group_of[reader]
    if producer in group.ops:
        if TAG in producer.attributes and group.ops[0] != producer:
            yield "together they would be no function of their own"
        return
    if view:
        yield f"between them is {view.replace('_', ' ')}: rows of one are no rows of the other"
    if producer.block != reader.block:
        yield "a loop is between them"
    root = group.root
    if root is None:
        yield "the consumer moves elements, gathers, or is not vectorized"
        return
    if rows_in(root) < 1:
        yield "the consumer has no rows that a block could be cut from"
    if sums_over_planes(root):
        yield "the consumer reduces over more than a row"
    yield from objections(group, root, producer, reader, index)
    if any(use.owner.operation not in group.ops for use in producer.results[0].uses):
        yield "others read it, too, so it would be computed for each"
    yield "it is fused with another consumer"
