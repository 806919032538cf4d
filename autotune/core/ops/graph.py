"""The computation of a payload as a graph of ops, which comparators and generators of MLIR translate.

Values are identified by name. The payload's arguments are defined at the start; every other value is an output of one
op, and ops are in topological order. `payload.comparators.numpy_ops` defines the semantics of the ops.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from autotune.core.errors import PayloadError

Shape = tuple[int, ...]
Rules = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class OpNode:
    """One op of a graph.

    Attributes:
        op: Name of the op, such as ``layer_norm``.
        inputs: Names of its inputs, in the order that the op defines.
        outputs: Name and shape of every output; a dynamic size is given by its upper bound.
        attributes: Numeric attributes by name, such as ``("epsilon", 1e-5)``; booleans are 0 or 1.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, Shape], ...]
    attributes: tuple[tuple[str, int | float], ...] = ()

    @property
    def shape(self) -> Shape:
        """Shape of the first output."""
        return self.outputs[0][1]

    def __getitem__(self, name: str) -> int | float:
        """Return the attribute called `name`."""
        return dict(self.attributes)[name]


Graph = tuple[OpNode, ...]


def node(op: str, *inputs: str, gives: Mapping[str, Shape], **attributes: float) -> OpNode:
    """Return an op; `gives` are its outputs, by name.

    >>> node("softmax", "x", gives={"out": (4, 8)})
    OpNode(op='softmax', inputs=('x',), outputs=(('out', (4, 8)),), attributes=())
    """
    return OpNode(op, inputs, tuple(gives.items()), tuple(attributes.items()))


@dataclass
class GraphWriter:
    """Builder of a graph; outputs without a name get a numbered one.

    Attributes:
        nodes: Ops added so far.
    """

    nodes: list[OpNode] = field(default_factory=list)

    def op(self, op: str, *inputs: str, shape: Shape, name: str = "", **attributes: float) -> str:
        """Add an op with one output, and return the output's name."""
        name = name or f"{op}_{len(self.nodes)}"
        self.nodes.append(node(op, *inputs, gives={name: shape}, **attributes))
        return name

    def ops(self, op: str, *inputs: str, shape: Shape, names: Iterable[str]) -> tuple[str, ...]:
        """Add an op with several outputs of one shape, and return their names: each of `names` with a number."""
        outputs = tuple(f"{name}_{len(self.nodes)}" for name in names)
        self.nodes.append(node(op, *inputs, gives=dict.fromkeys(outputs, shape)))
        return outputs

    @property
    def graph(self) -> Graph:
        """Graph of the ops added so far."""
        return tuple(self.nodes)


def translate(nodes: Iterable[OpNode], values: MutableMapping[str, Any], rules: Rules, *context: Any) -> None:  # noqa: ANN401
    """Translate a graph op by op, each by the rule for its name.

    Args:
        nodes: Ops in topological order.
        values: Translations of the values, by name; those of outputs are added.
        rules: Rules by the name of the op: called with `context`, the op, and the translations of its inputs; each
            returns the translation of its output, or a sequence where there are several.
        context: Leading arguments of every rule, such as a builder.

    Raises:
        PayloadError: There is no rule for an op.
    """
    for each in nodes:
        if each.op not in rules:
            raise PayloadError(f"an op must be one of {', '.join(rules)}; got {each.op!r}; write it with these")
        result = rules[each.op](*context, each, *(values[name] for name in each.inputs))
        results = result if len(each.outputs) > 1 else (result,)
        values.update(zip((name for name, _ in each.outputs), results, strict=True))


def check_graph(graph: Graph, inputs: Iterable[str], outputs: Mapping[str, Shape], payload: str) -> None:
    """Raise unless a graph in topological order defines every value once, and every output with its shape.

    Raises:
        PayloadError: An op reads an undefined value, a value is defined twice, or an output is undefined or of another
            shape.
    """
    shapes: dict[str, Shape | None] = dict.fromkeys(inputs)
    for each in graph:
        for name in each.inputs:
            if name not in shapes:
                raise PayloadError(f"{each.op} of {payload} must read arguments or earlier values, got {name!r}")
        for name, shape in each.outputs:
            if name in shapes:
                raise PayloadError(f"a value of {payload} must be written once, {each.op} writes {name!r} again")
            shapes[name] = shape
    for name, shape in outputs.items():
        if shapes.get(name) != shape:
            actual = shapes.get(name, "no op that gives it")
            raise PayloadError(f"the graph of {payload} must give {name!r} of shape {shape}, it has {actual}")
