"""A writer of linalg on tensors: loops over elements, values in other orders and shapes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from autotune.tensor.graph import Node
from autotune.tensor.scalars import ORDERS, constant, read, scalar, written
from autotune.tensor.shapes import Shape
from autotune.tensor.views import Formula, Loops, Stored, View, aligned, loops_of, shared_runs, squeezed


@dataclass
class LoopBody:
    """What one iteration computes.

    Attributes:
        inputs: Values that are read, with the loops along them.
        lines: Operations.
    """

    inputs: list[tuple[Stored, tuple[int, ...]]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    _known: dict[object, str] = field(default_factory=dict)
    _indices: dict[str, str] = field(default_factory=dict)  # indices behind i64

    def emit(self, text: str) -> str:
        """Append an operation, and give the name of its result."""
        name = f"%s{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def element(self, view: View, loops: Loops) -> str:
        """The element of a view at the index that loops are at."""
        along = tuple(None if d is None else loops[d] for d in view.dims)
        if isinstance(view.source, Formula):
            return self.formula(view.source, along)
        key = (view.source.name, along)
        if key not in self._known:
            taken = tuple(loop for loop in along if loop is not None)
            self.inputs.append((view.source, taken))
            self._known[key] = read(self.emit, f"%e{len(self.inputs) - 1}", view.source.element)
        return self._known[key]

    def formula(self, formula: Formula, loops: Loops) -> str:
        """The element of a formula at the index that loops are at."""
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
        """A comparison of two indices as one of indices, in which a causal mask is seen; `None` if it is another."""
        if node.op not in ORDERS or not all(element in self._indices for element in elements):
            return None
        operands = ", ".join(self._indices[element] for element in elements)
        return self.emit(f"arith.cmpi {ORDERS[node.op][1]}, {operands} : index")

    def loop_index(self, loop: int | None) -> str:
        """The index of a loop, as i64."""
        if loop is None:
            return self.emit("arith.constant 0 : i64")
        index = self.emit(f"linalg.index {loop} : index")
        found = self.emit(f"arith.index_cast {index} : index to i64")
        self._indices[found] = index
        return found


class Writer:
    """Collects the lines of one function body; every name it hands out is new."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names = 0

    def emit(self, text: str) -> str:
        """Append an operation, and give the name of its result."""
        self._names += 1
        self.lines.append(f"%v{self._names} = {text}")
        return f"%v{self._names}"

    def define(self, text: str, shape: Shape, element: str) -> Stored:
        """Append an operation, and give the value that it defines; ``TYPE`` in its text is the value's type."""
        kind = Stored("", shape, element).type
        return Stored(self.emit(text.replace("TYPE", kind)), shape, element)

    def empty(self, shape: Shape, element: str) -> Stored:
        """A value without contents."""
        return self.define("tensor.empty() : TYPE", shape, element)

    def filled(self, shape: Shape, element: str, value: str) -> Stored:
        """One number everywhere; `value` is its name."""
        into = self.empty(shape, element)
        return self.define(f"linalg.fill ins({value} : {element}) outs({into.name} : TYPE) -> TYPE", shape, element)

    def generic(self, body: LoopBody, result: str, into: Stored, loops: int) -> Stored:
        """A ``linalg.generic``: loops that `into` lacks come last, and are reductions.

        Args:
            body: Operations of an iteration.
            result: Name of the element that it gives.
            into: Value that results go to; its dimensions are the first loops.
            loops: Number of loops.
        """
        parallel = len(into.shape)
        maps = ", ".join(affine_map(loops, dims) for dims in [*(d for _, d in body.inputs), tuple(range(parallel))])
        kinds = ", ".join(['"parallel"'] * parallel + ['"reduction"'] * (loops - parallel))
        names = ", ".join(value.name for value, _ in body.inputs)
        types = ", ".join(value.type for value, _ in body.inputs)
        reads = f"ins({names} : {types}) " if names else ""
        elements = [f"%e{i}: {value.element}" for i, (value, _) in enumerate(body.inputs)]
        found = self.define(
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} {reads}"
            f"outs({into.name} : TYPE) {{",
            into.shape,
            into.element,
        )
        self.lines += [f"^bb0({', '.join([*elements, f'%acc: {into.element}'])}):"]
        self.lines += [f"  {line}" for line in [*body.lines, f"linalg.yield {result} : {into.element}"]]
        self.lines += [f"}} -> {into.type}"]
        return found

    def stored(self, view: View, element: str = "") -> Stored:
        """The value of a view as it is seen, without sizes of 1; in memory as `element`, or as it is."""
        source = view.source
        wanted = element or (source.element if isinstance(source, Stored) else view.element)
        if isinstance(source, Stored) and wanted == source.element:
            if view.in_order:
                return source
            dims = [d for d, size in enumerate(view.shape) if size != 1]
            if sorted(d for d in view.dims if d is not None) == dims:
                return self.transposed(source, [view.dims.index(d) for d in dims])
        loops, body = loops_of(view.shape), LoopBody()
        found = written(body.emit, body.element(view, loops), wanted)
        into = self.empty(squeezed(view.shape), wanted)
        return self.generic(body, found, into, len(into.shape))

    def transposed(self, source: Stored, order: Sequence[int]) -> Stored:
        """A value with dimensions in another order."""
        into = self.empty(tuple(source.shape[d] for d in order), source.element)
        text = f"linalg.transpose ins({source.name} : {source.type}) outs({into.name} : TYPE)"
        return self.define(f"{text} permutation = {list(order)}", into.shape, into.element)

    def shaped(self, source: Stored, shape: Shape) -> Stored:
        """The same elements, in order, in another shape."""
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
    """The projection of loops onto some: ``affine_map<(d0, d1) -> (d1)>``."""
    return f"affine_map<({', '.join(f'd{i}' for i in range(loops))}) -> ({', '.join(f'd{i}' for i in dims)})>"
