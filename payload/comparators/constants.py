"""What of a payload's graph is left to a library, once all that rests on constants alone has been computed."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from autotune.core.errors import ComparatorError
from autotune.core.ops.graph import Graph, OpNode, Rules, translate
from autotune.core.payload import Array, Payload
from payload.comparators import numpy_ops


@dataclass(frozen=True)
class Folded:
    """What a library computes at every call.

    Attributes:
        nodes: Ops that are computed at every call, in program order.
        constants: Arrays that those ops read and no call changes, by name.
    """

    nodes: Graph
    constants: dict[str, Array]


def fold_constants(
    payload: Payload, inputs: Mapping[str, Array], fixed: Collection[str], rules: Rules, library: str
) -> Folded:
    """Split a payload's graph: what rests on constants is computed now, such as what a layer has of the weights.

    Args:
        payload: Payload whose graph is split.
        inputs: Arrays of the payload's arguments that are not outputs, by name.
        fixed: Names of the arguments that are constants to the library.
        rules: Rules that the library has, by the name of the op.
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
    """Names of what is the same in every call, whatever the inputs."""
    return [argument.name for argument in payload.arguments if argument.role == "weight"]


def fixed_of(payload: Payload) -> list[str]:
    """Names of the weights, and of the inputs that a case fixes."""
    return [*weights_of(payload), *(name for case in payload.cases for name, _ in case.values)]
