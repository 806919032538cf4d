"""The computation of a payload as a graph of ops, to be translated by comparators and writers of MLIR.

Values are known by name. The payload's arguments are there from the start; every other value is an output of one op,
which stands before those that read it. What an op means is content: `payload.comparators.numpy_ops` defines ours.
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
        inputs: Names of the values it reads, in the order the op defines.
        outputs: Name and shape of every value it gives; a size known at run time only is given by its bound.
        attributes: Numbers that belong to the op, by name, such as ``("epsilon", 1e-5)``; switches are 0 or 1.
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
        """The attribute called `name`."""
        return dict(self.attributes)[name]


Graph = tuple[OpNode, ...]


def node(op: str, *inputs: str, gives: Mapping[str, Shape], **attributes: float) -> OpNode:
    """One op, written in a line.

    >>> node("softmax", "x", gives={"out": (4, 8)})
    OpNode(op='softmax', inputs=('x',), outputs=(('out', (4, 8)),), attributes=())
    """
    return OpNode(op, inputs, tuple(gives.items()), tuple(attributes.items()))


@dataclass
class GraphWriter:
    """Collects the ops of a graph; values that are given no name are numbered.

    Attributes:
        nodes: The ops so far.
    """

    nodes: list[OpNode] = field(default_factory=list)

    def op(self, op: str, *inputs: str, shape: Shape, name: str = "", **attributes: float) -> str:
        """Add an op with one output; give the output's name."""
        name = name or f"{op}_{len(self.nodes)}"
        self.nodes.append(node(op, *inputs, gives={name: shape}, **attributes))
        return name

    def ops(self, op: str, *inputs: str, shape: Shape, names: Iterable[str]) -> tuple[str, ...]:
        """Add an op with an output of one shape for each of `names`; give the outputs' names, which get a number."""
        given = tuple(f"{name}_{len(self.nodes)}" for name in names)
        self.nodes.append(node(op, *inputs, gives=dict.fromkeys(given, shape)))
        return given

    @property
    def graph(self) -> Graph:
        """The graph."""
        return tuple(self.nodes)


def translate(nodes: Iterable[OpNode], values: MutableMapping[str, Any], rules: Rules, *context: Any) -> None:  # noqa: ANN401
    """Walk a graph: apply to every op the rule of its name, and keep what that gives.

    Args:
        nodes: The graph.
        values: What stands for every value, by name; what rules give is added.
        rules: Rules by the name of the op: called with `context`, the op, and what stands for its inputs; each gives
            what stands for its output, or a sequence where there are several.
        context: Context that every rule is called with, such as where it writes.

    Raises:
        PayloadError: There is no rule for an op.
    """
    for each in nodes:
        if each.op not in rules:
            raise PayloadError(f"an op must be one of {', '.join(rules)}; got {each.op!r}; write it with these")
        given = rules[each.op](*context, each, *(values[name] for name in each.inputs))
        found = given if len(each.outputs) > 1 else (given,)
        values.update(zip((name for name, _ in each.outputs), found, strict=True))


def check_graph(graph: Graph, given: Iterable[str], outputs: Mapping[str, Shape], payload: str) -> None:
    """Raise unless a graph computes every output from what is given, each value once.

    Raises:
        PayloadError: An op reads what is not there, a value has two writers, or an output has none or another shape.
    """
    shapes: dict[str, Shape | None] = dict.fromkeys(given)
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
            found = shapes.get(name, "no op that gives it")
            raise PayloadError(f"the graph of {payload} must give {name!r} of shape {shape}, it has {found}")
