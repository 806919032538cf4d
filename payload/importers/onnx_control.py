"""Unrolling of Loop and Scan and selection of If branches whose control flow does not depend on inputs.

A loop is unrolled step by step with constant folding, so that counters and conditions on them are known. A loop whose
condition depends on an input is left unchanged.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.payload import Array
from payload.importers.linalg import cannot_lower
from payload.importers.onnx_nodes import KnownTensors, NodeWriter, facts_of, of
from payload.importers.onnx_oracle import to_array
from payload.importers.onnx_origins import take_origin
from payload.importers.onnx_sizes import fix_sizes
from payload.importers.onnx_values import fold, fold_constants, is_foldable, replace_all

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

MOST_STEPS, MOST_NODES = 1024, 1 << 14  # maximum trip count and nodes of an unrolled loop
CONTROL = ("Loop", "Scan", "If")
SCANS_HAVE_NO_LENGTHS = 9  # first opset version whose Scan has no sequence lengths input
BRANCHES = ("then_branch", "else_branch")
BOUNDS_ARE_INPUTS, AXES_ARE_INPUTS = 10, 13  # first versions of Slice with bounds, and of Unsqueeze with axes as inputs


def write_steps(
    model: "ModelProto", weights: dict[str, Array], arguments: Collection[str] = (), *, both: bool = False
) -> bool:
    """Unroll the static control flow of a model, in place, and fold constants; return whether there was any.

    Args:
        model: Model to change.
        weights: Weights extracted from the model; unused ones are removed.
        arguments: Names of further inputs that are weights.
        both: Whether to compute both branches of an If with an unknown condition.
    """
    written = False
    while any(node.op_type in CONTROL for node in model.graph.node):
        graph, nodes, is_changed = model.graph, list["NodeProto"](), False
        version = next((each.version for each in model.opset_import if not each.domain), 0)
        facts = replace(facts_of(graph), version=version)
        for node in graph.node:
            stem = f"{next(filter(None, node.output))}.steps"
            writer = StepWriter(graph, stem, model=model, facts=facts, both=both)
            is_known = node.op_type in CONTROL and writer.write(node)
            nodes += writer.nodes if is_known else [node]
            is_changed |= is_known
        if not is_changed:
            break
        replace_all(graph.node, nodes)
        fix_sizes(model, {}, {*weights, *arguments})
        fold_constants(model, weights)
        fix_sizes(model, {}, {*weights, *arguments})
        written = True
    return written


def check_graphs(node: "NodeProto", version: int) -> None:
    """Raise unless a node has as many inputs and results as its subgraphs, which ONNX's checker does not verify.

    Raises:
        UnsupportedError: The numbers differ for a subgraph.
    """
    if node.op_type == "Scan" and version < SCANS_HAVE_NO_LENGTHS:
        return
    count = of(node, "num_scan_inputs", 1) if node.op_type == "Scan" else 1
    if not 1 <= count <= max(1, len(node.input)):
        raise cannot_lower(node.doc_string, f"it must scan from 1 to all of its inputs, got {count}")
    takes = {"If": 0, "Loop": max(2, len(node.input)), "Scan": len(node.input)}[node.op_type]
    arity = len(node.output) + (node.op_type == "Loop")
    for name in BRANCHES if node.op_type == "If" else ("body",):
        graph = of(node, name, None)
        gives = min(arity, len(graph.output)) if node.op_type == "Loop" else len(graph.output)  # the last may be unused
        if gives != arity or len(graph.input) != takes:
            raise cannot_lower(
                node.doc_string,
                f"its {name} must take {takes} tensors and give {arity}, it takes {len(graph.input)} and gives "
                f"{len(graph.output)}",
            )


@dataclass
class StepWriter(NodeWriter):
    """Writer of the unrolled steps of one control-flow node.

    Attributes:
        model: Model of the node.
        facts: Shapes, types and constants of the tensors of its graph.
        both: Whether both branches of an If may be computed.
        known: Constants of the steps so far, by name.
    """

    _: KW_ONLY
    model: "ModelProto"
    facts: KnownTensors
    both: bool
    known: dict[str, Array] = field(default_factory=dict)

    def write(self, node: "NodeProto") -> bool:
        """Unroll a node; return whether its control flow is static.

        Raises:
            UnsupportedError: A subgraph does not have as many inputs or results as the node.
        """
        check_graphs(node, self.facts.version)
        self.known = dict(self.facts.constants)
        write = {"Loop": self.write_loop, "Scan": self.write_scan, "If": self.write_branch}[node.op_type]
        count = len(self.graph.initializer)
        if write(node):
            return True
        del self.graph.initializer[count:]
        return False

    def write_branch(self, node: "NodeProto") -> bool:
        """Inline the branch of an If that is taken, or select between the results of both."""
        condition, branches = self.known.get(node.input[0]), [of(node, name, None) for name in BRANCHES]
        if condition is not None:
            self.end(node, self.copy(branches[0 if condition.all() else 1], [], "branch"))
            return True
        inside = [self.facts.with_graph(branch) for branch in branches]
        shapes = [[known.shapes.get(x.name) for x in b.output] for known, b in zip(inside, branches, strict=True)]
        if not self.both or shapes[0] != shapes[1] or None in shapes[0]:
            return False
        results = [self.copy(branch, [], name) for branch, name in zip(branches, BRANCHES, strict=True)]
        self.end(node, [self.add("Where", node.input[0], *pair) for pair in zip(*results, strict=True)])
        return True

    def write_loop(self, node: "NodeProto") -> bool:
        """Unroll a Loop whose trip count and conditions are constant.

        Raises:
            UnsupportedError: The loop takes more than `MOST_STEPS` steps or `MOST_NODES` nodes.
        """
        body, (trips, condition, *state) = of(node, "body", None), node.input
        if (trips and trips not in self.known) or (condition and condition not in self.known):
            return False
        most = int(self.known[trips].reshape(())) if trips else MOST_STEPS + 1
        goes_on, parts, step = not condition or bool(self.known[condition].all()), list[Sequence[str]](), 0
        while goes_on and step < most:
            arguments = [self.hold(np.array(step, np.int64)), self.hold(np.array(True)), *state]
            condition_after, *results = self.copy(body, arguments, f"{step}")
            state, step = results[: len(state)], step + 1
            parts.append(results[len(state) :])
            if condition_after not in self.known:
                return False
            if step > MOST_STEPS or len(self.nodes) > MOST_NODES:  # the loop may be infinite
                raise cannot_lower(node.doc_string, f"it takes more than {MOST_STEPS} steps, or {MOST_NODES} nodes")
            goes_on = bool(self.known[condition_after].all())
        counts = len(node.output) - len(state)
        if counts and not parts:
            return False
        stacked = [self.stack([part[number] for part in parts], 0) for number in range(counts)]
        self.end(node, [*state, *stacked])
        return True

    def write_scan(self, node: "NodeProto") -> bool:
        """Unroll a Scan, one step for each slice of its scanned inputs."""
        body, count = of(node, "body", None), of(node, "num_scan_inputs", 0)
        state, scanned = list(node.input[: len(node.input) - count]), node.input[len(node.input) - count :]
        axes = of(node, "scan_input_axes", [0] * count)
        if self.facts.version < SCANS_HAVE_NO_LENGTHS or any(name not in self.facts.shapes for name in scanned):
            return False
        ranks = [len(self.facts.shapes[name]) for name in scanned]
        if len(axes) != count or any(not -rank <= axis < rank for axis, rank in zip(axes, ranks, strict=True)):
            raise cannot_lower(node.doc_string, f"its scan_input_axes must be dimensions of its inputs, got {axes[:9]}")
        size = self.facts.shapes[scanned[0]][axes[0]]
        backward = of(node, "scan_input_directions", [0] * count)
        if size > MOST_STEPS or size * len(body.node) > MOST_NODES:
            return False
        parts = list[Sequence[str]]()
        for step in range(size):
            slices = [
                self.take(name, axis, size - 1 - step if back else step)
                for name, axis, back in zip(scanned, axes, backward, strict=True)
            ]
            results = self.copy(body, [*state, *slices], f"{step}")
            state = results[: len(state)]
            parts.append(results[len(state) :])
        counts = len(parts[0])
        axes, backward = of(node, "scan_output_axes", [0] * counts), of(node, "scan_output_directions", [0] * counts)
        for number in range(counts):
            names = [part[number] for part in parts]
            state.append(self.stack(names[::-1] if backward[number] else names, axes[number]))
        self.end(node, state)
        return True

    def end(self, node: "NodeProto", results: Sequence[str]) -> None:
        """Bind the results of a node to the given tensors."""
        first = len(self.nodes)
        for name, output in zip(results, node.output, strict=True):
            if output:
                self.add("Identity", name, into=output)
        take_origin(self.nodes[first:], node)
        for each in self.nodes:
            each.doc_string = each.doc_string or node.doc_string

    def hold(self, array: Array) -> str:
        """Add a constant that is known to the following steps."""
        name = self.constant(array)
        self.known[name] = array
        return name

    def copy(self, body: "GraphProto", inputs: Sequence[str], step: str) -> list[str]:
        """Inline a subgraph on the given inputs, with constant folding; return the names of its results."""
        names = dict(zip((each.name for each in body.input), inputs, strict=True))
        for tensor in body.initializer:
            names[tensor.name] = self.hold(to_array(tensor))
        for node in body.node:
            fresh = renamed(node, names, f"{self.stem}.{step}")
            values = fold(self.model, fresh, self.known, self.known) if is_foldable(fresh, self.known) else None
            if values is None:
                self.nodes.append(fresh)
                continue
            outputs = [each for each in node.output if each]
            names |= {each: self.hold(value) for each, value in zip(outputs, values, strict=True)}
        return [names.get(each.name, each.name) for each in body.output]

    def take(self, name: str, axis: int, at: int) -> str:
        """Slice a tensor at an index along an axis, and drop the axis."""
        shape = list(self.facts.shapes[name])
        if self.facts.version < BOUNDS_ARE_INPUTS:
            part = self.add("Gather", name, self.numbers(at), axis=axis)
        else:
            part = self.slice(name, at, at + 1, axis)
        del shape[axis]
        return self.reshape(part, *shape)

    def stack(self, names: Sequence[str], axis: int) -> str:
        """Stack tensors along a new axis."""
        if self.facts.version < AXES_ARE_INPUTS:
            wide = [self.add("Unsqueeze", name, axes=[axis]) for name in names]
        else:
            wide = [self.add("Unsqueeze", name, self.numbers(axis)) for name in names]
        return self.add("Concat", *wide, axis=axis)


def renamed(node: "NodeProto", names: dict[str, str], stem: str) -> "NodeProto":
    """Copy a node with renamed inputs and fresh result names, which are added to `names`."""
    from onnx import NodeProto  # noqa: PLC0415 - comes with an extra

    fresh = NodeProto()
    fresh.CopyFrom(node)
    read(fresh, names)
    for number, name in enumerate(node.output):
        if name:
            fresh.output[number] = names[name] = f"{stem}.{name}"
    return fresh


def read(node: "NodeProto", names: Mapping[str, str]) -> None:
    """Rename the inputs of a node and of its subgraphs, in place."""
    for number, name in enumerate(node.input):
        node.input[number] = names.get(name, name)
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            own = {each.name for each in [*graph.input, *graph.initializer]}
            own |= {name for inner in graph.node for name in inner.output}
            outer = {name: fresh for name, fresh in names.items() if name not in own}
            for inner in graph.node:
                read(inner, outer)
            for result in graph.output:
                result.name = outer.get(result.name, result.name)
