"""Constant folding of a payload's graph: the ops that a library still computes in every call."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from autotune.core.errors import ComparatorError
from autotune.core.ops.graph import Graph, OpNode, Rules, translate
from autotune.core.payload import Array, Payload
from payload.comparators import numpy_ops


@dataclass(frozen=True)
class Folded:
    """Graph after constant folding.

    Attributes:
        nodes: Ops that are computed in every call, in program order.
        constants: Constant arrays that those ops read, by name.
    """

    nodes: Graph
    constants: dict[str, Array]


def fold_constants(
    payload: Payload, inputs: Mapping[str, Array], fixed: Collection[str], rules: Rules, library: str
) -> Folded:
    """Fold constants of a payload's graph: ops whose inputs are all constant, such as slices of weights, run now.

    Args:
        payload: Payload whose graph is folded.
        inputs: Arrays of the payload's arguments that are not outputs, by name.
        fixed: Names of the arguments that are constants to the library.
        rules: Translation rules of the library, by op name.
        library: Name of the library, for messages.

    Raises:
        ComparatorError: The payload has no graph, or the library has no rule for one of its ops.
    """
    if not payload.graph:
        raise ComparatorError(
            f"{library} must have a graph to compute, {payload.name} has none; a payload in Python can carry one"
        )
    known = {name: inputs[name] for name in fixed}
    results = {argument.name for argument in payload.outputs}
    nodes: list[OpNode] = []
    for node in payload.graph:
        inner = results.isdisjoint(name for name, _ in node.outputs)
        if inner and node.op in numpy_ops.RULES and known.keys() >= set(node.inputs):
            translate([node], known, numpy_ops.RULES)
        else:
            nodes.append(node)
    require_rules(nodes, rules, library, payload.name)
    read = {name for node in nodes for name in node.inputs}
    return Folded(tuple(nodes), {name: array for name, array in known.items() if name in read})


def require_rules(nodes: Iterable[OpNode], rules: Rules, library: str, payload: str) -> None:
    """Raise unless a library has a rule for every op.

    Raises:
        ComparatorError: The library has no rule for an op.
    """
    missing = sorted({node.op for node in nodes} - set(rules))
    if missing:
        raise ComparatorError(
            f"{library} must know every op of {payload}, it does not know {', '.join(missing)}, only {', '.join(rules)}"
        )


def weights_of(payload: Payload) -> list[str]:
    """Return the names of the weights, which are the same in every call."""
    return [argument.name for argument in payload.arguments if argument.role == "weight"]


def fixed_of(payload: Payload) -> list[str]:
    """Return the names of the weights, and of the inputs that a case fixes."""
    return [*weights_of(payload), *(name for case in payload.cases for name, _ in case.values)]
