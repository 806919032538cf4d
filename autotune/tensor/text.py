"""A writer of MLIR text: linalg operations on tensors, transposes and reshapes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from autotune.tensor.graph import Node
from autotune.tensor.scalars import ORDERS, constant, read, scalar, written
from autotune.tensor.shapes import Shape
from autotune.tensor.views import Formula, Loops, Stored, View, aligned, loops_of, shared_runs, squeezed


@dataclass
class LoopBody:
    """The body of a ``linalg.generic``.

    Attributes:
        inputs: Input operands, each with the loops that index its dimensions.
        lines: Operations of the body.
    """

    inputs: list[tuple[Stored, tuple[int, ...]]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    _known: dict[object, str] = field(default_factory=dict)
    _indices: dict[str, str] = field(default_factory=dict)  # i64 value -> index value that it was cast from

    def emit(self, text: str) -> str:
        """Append an operation and return the name of its result."""
        name = f"%s{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def element(self, view: View, loops: Loops) -> str:
        """Return the name of a view's element in this iteration, adding the input that it is read from."""
        along = tuple(None if d is None else loops[d] for d in view.dims)
        if isinstance(view.source, Formula):
            return self.formula(view.source, along)
        key = (view.source.name, along)
        if key not in self._known:
            dims = tuple(loop for loop in along if loop is not None)
            self.inputs.append((view.source, dims))
            self._known[key] = read(self.emit, f"%e{len(self.inputs) - 1}", view.source.element)
        return self._known[key]

    def formula(self, formula: Formula, loops: Loops) -> str:
        """Return the name of a formula's element in this iteration, emitting its computation."""
        node, key = formula.node, (id(formula), tuple(loops))
        if key not in self._known:
            if node.op == "full":
                self._known[key] = constant(self.emit, node.attributes[0], node.dtype)
            elif node.op == "iota":
                self._known[key] = self.loop_index(loops[0])
            else:
                elements = [self.element(view, aligned(view.shape, loops)) for view in formula.operands]
                self._known[key] = self.compared(node, elements) or scalar(self.emit, node, *elements)
        return self._known[key]

    def compared(self, node: Node, elements: Sequence[str]) -> str | None:
        """Emit a comparison of two loop indices on type index, so that later passes recognize a causal mask.

        Return `None` if the node is not such a comparison.
        """
        if node.op not in ORDERS or not all(element in self._indices for element in elements):
            return None
        operands = ", ".join(self._indices[element] for element in elements)
        return self.emit(f"arith.cmpi {ORDERS[node.op][1]}, {operands} : index")

    def loop_index(self, loop: int | None) -> str:
        """Emit the index of a loop, as i64."""
        if loop is None:
            return self.emit("arith.constant 0 : i64")
        index = self.emit(f"linalg.index {loop} : index")
        value = self.emit(f"arith.index_cast {index} : index to i64")
        self._indices[value] = index
        return value


class Writer:
    """Collects the lines of one function body; result names are unique."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names = 0

    def emit(self, text: str) -> str:
        """Append an operation and return the name of its result."""
        self._names += 1
        self.lines.append(f"%v{self._names} = {text}")
        return f"%v{self._names}"

    def define(self, text: str, shape: Shape, element: str) -> Stored:
        """Append an operation and return its value; ``TYPE`` in the text stands for the type of the value."""
        value_type = Stored("", shape, element).type
        return Stored(self.emit(text.replace("TYPE", value_type)), shape, element)

    def empty(self, shape: Shape, element: str) -> Stored:
        """Emit a ``tensor.empty``."""
        return self.define("tensor.empty() : TYPE", shape, element)

    def filled(self, shape: Shape, element: str, value: str) -> Stored:
        """Emit a ``linalg.fill``; `value` is the name of the scalar."""
        into = self.empty(shape, element)
        return self.define(f"linalg.fill ins({value} : {element}) outs({into.name} : TYPE) -> TYPE", shape, element)

    def generic(self, body: LoopBody, result: str, into: Stored, loops: int) -> Stored:
        """Emit a ``linalg.generic``; loops beyond the dimensions of `into` are reductions.

        Args:
            body: Body of the operation, with its inputs.
            result: Name of the value that the body yields.
            into: Output operand; its dimensions are the first loops.
            loops: Number of loops.
        """
        parallel = len(into.shape)
        maps = ", ".join(affine_map(loops, dims) for dims in [*(d for _, d in body.inputs), tuple(range(parallel))])
        iterators = ", ".join(['"parallel"'] * parallel + ['"reduction"'] * (loops - parallel))
        names = ", ".join(value.name for value, _ in body.inputs)
        types = ", ".join(value.type for value, _ in body.inputs)
        reads = f"ins({names} : {types}) " if names else ""
        elements = [f"%e{i}: {value.element}" for i, (value, _) in enumerate(body.inputs)]
        result_value = self.define(
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}} {reads}"
            f"outs({into.name} : TYPE) {{",
            into.shape,
            into.element,
        )
        self.lines += [f"^bb0({', '.join([*elements, f'%acc: {into.element}'])}):"]
        self.lines += [f"  {line}" for line in [*body.lines, f"linalg.yield {result} : {into.element}"]]
        self.lines += [f"}} -> {into.type}"]
        return result_value

    def stored(self, view: View, element: str = "") -> Stored:
        """Materialize a view, without dimensions of size 1; `element` is its storage type, by default the view's."""
        source = view.source
        storage_type = element or (source.element if isinstance(source, Stored) else view.element)
        if isinstance(source, Stored) and storage_type == source.element:
            if view.in_order:
                return source
            dims = [d for d, size in enumerate(view.shape) if size != 1]
            if sorted(d for d in view.dims if d is not None) == dims:
                return self.transposed(source, [view.dims.index(d) for d in dims])
        loops, body = loops_of(view.shape), LoopBody()
        element_name = written(body.emit, body.element(view, loops), storage_type)
        into = self.empty(squeezed(view.shape), storage_type)
        return self.generic(body, element_name, into, len(into.shape))

    def transposed(self, source: Stored, order: Sequence[int]) -> Stored:
        """Emit a ``linalg.transpose``."""
        into = self.empty(tuple(source.shape[d] for d in order), source.element)
        text = f"linalg.transpose ins({source.name} : {source.type}) outs({into.name} : TYPE)"
        return self.define(f"{text} permutation = {list(order)}", into.shape, into.element)

    def shaped(self, source: Stored, shape: Shape) -> Stored:
        """Reshape a value, by ``tensor.collapse_shape`` and ``tensor.expand_shape``."""
        if source.shape == shape:
            return source
        runs = shared_runs(source.shape, shape)
        between = tuple(prod(shape[d] for d in there) for _, there in runs)
        if between != source.shape:
            groups = [list(here) for here, _ in runs]
            text = f"tensor.collapse_shape {source.name} {groups} : {source.type} into TYPE"
            source = self.define(text, between, source.element)
        if between == shape:
            return source
        groups = [list(there) for _, there in runs]
        text = f"tensor.expand_shape {source.name} {groups} output_shape {list(shape)} : {source.type} into TYPE"
        return self.define(text, shape, source.element)


def affine_map(loops: int, dims: Sequence[int]) -> str:
    """Format a projected permutation, such as ``affine_map<(d0, d1) -> (d1)>``."""
    return f"affine_map<({', '.join(f'd{i}' for i in range(loops))}) -> ({', '.join(f'd{i}' for i in dims)})>"
