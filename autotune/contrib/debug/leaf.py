"""Application of transform operations by MLIR's interpreter, one step at a time, on rebuilt handles.

The interpreter does not keep handles beyond a call. Each step is therefore a generated sequence: it rebuilds the live
handles by matching payload operations by name and index, applies the transform operations, and annotates the payload
operations that the handles then point to. The annotations are removed before anything else sees the payload. Dead
handles are not annotated: the interpreter fails if an operation is erased whose handle is used later.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects.transform import interpreter

from autotune.compiler.ir.module import describe
from autotune.compiler.script.trace import captured
from autotune.contrib.debug.named_ops import TAG, NamedOps

ANY = "!transform.any_op"
STEP = "__autotune_debug_step"
NOTHING = "autotune.debug.nothing"  # an attribute that no operation has
MATCH = "transform.structured.match"
FEW = 12  # at least this many payload operations of a result are annotated in order
SUPPRESS = 2  # value of `failure_propagation_mode`
OPS, PARAM, VALUE = "ops", "param", "value"


@dataclass
class HandleState:
    """The contents of a handle or param of the script during its execution.

    Attributes:
        name: Name in the script.
        kind: `OPS`, `PARAM` or `VALUE`; handles of the last kind cannot be rebuilt.
        type: Type of the handle or param.
        ops: Names of the payload operations, in order.
        values: Attributes of a param.
        invalid: Reason for its invalidation; empty if it is valid.
        made: Number of the step that defined it.
        ended: Number of the step that invalidated it.
    """

    name: str
    kind: str
    type: ir.Type
    ops: list[str] = field(default_factory=list)
    values: list[ir.Attribute] = field(default_factory=list)
    invalid: str = ""
    made: int = 0
    ended: int = 0


class LeafError(Exception):
    """The interpreter failed in a step; the message is its diagnostic."""


def kind_of(handle: ir.Type) -> str:
    """Return the kind of a transform type."""
    spelled = str(handle)
    if spelled.startswith(("!transform.any_op", "!transform.op<")):
        return OPS
    return PARAM if "param" in spelled else VALUE


class Leaf:
    """One call of the interpreter.

    Args:
        named: The payload with the names of its operations.
        library: The script, whose sequences the operations may refer to; it is not modified.
        ops: Consecutive operations of one block.
        held: Contents of their operands.
        live: Handles that are used later, without results of `ops`.
        results: Results of `ops` that are used later, with the contents to update.
    """

    def __init__(
        self,
        named: NamedOps,
        library: ir.Module,
        ops: Sequence[ir.Operation],
        states: Mapping[ir.Value, HandleState],
        live: Sequence[HandleState],
        results: Mapping[ir.Value, HandleState],
    ) -> None:
        self._named, self._library, self._ops, self._states = named, library, ops, states
        self._live, self._results = live, results
        self._matched: dict[str, list[ir.Value]] = {}
        self._tags: dict[str, tuple[HandleState, int]] = {}

    def apply(self) -> float:
        """Apply the operations, update the contents of all handles, and return the interpreter's time in seconds.

        Raises:
            LeafError: The interpreter failed; names and handles are unchanged.
        """
        with ir.Location.unknown():
            sequence, block = self._open()
            try:
                with ir.InsertionPoint(block):
                    self._write(block.arguments[0])
                seconds = self._run(sequence)
            finally:
                sequence.erase()
        self._named.renew()
        self._read()
        return seconds

    def _open(self) -> tuple[ir.Operation, ir.Block]:
        handle = ir.Type.parse(ANY)
        consumed = ir.DictAttr.get({"transform.consumed": ir.UnitAttr.get()})
        attributes = {
            "sym_name": ir.StringAttr.get(STEP),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get([handle], [])),
            "arg_attrs": ir.ArrayAttr.get([consumed]),
        }
        with ir.InsertionPoint(self._library.body):
            sequence = ir.Operation.create("transform.named_sequence", attributes=attributes, regions=1)
        return sequence, sequence.regions[0].blocks.append(handle, arg_locs=[ir.Location.unknown()])

    def _write(self, root: ir.Value) -> None:
        used = {value: state for value, state in self._states.items() if state.kind != VALUE}
        rebuilt = {id(state): self._restore(state, root) for state in (*used.values(), *self._live)}
        mapping = {value: rebuilt[id(state)] for value, state in used.items()}
        for op in self._ops:
            copy = op.clone()
            replace_operands(copy, mapping)
            mapping.update(zip(op.results, copy.results, strict=True))
        for state in self._live:
            self._tag(rebuilt[id(state)], state, len(state.ops))
        most_ordered = self._most()
        for value, state in self._results.items():
            if state.kind == PARAM:
                self._tag_param(mapping[value], state, root)
            elif state.kind == OPS:
                self._tag(mapping[value], state, most_ordered)
        ir.Operation.create("transform.yield")

    def _most(self) -> int:
        """Return how many operations of a result are annotated in order; results of a match are in payload order."""
        if self._ops[-1].name == MATCH:
            return 1
        return max(FEW, *(2 * len(state.ops) for state in self._states.values()), 0)

    def _restore(self, state: HandleState, root: ir.Value) -> ir.Value:
        """Rebuild a handle or param from its contents."""
        if state.kind == PARAM:
            return self._constants(state)
        parts = [self._op(name, root) for name in state.ops]
        if len(parts) == 1:
            handle = parts[0]
        elif parts:
            handle = create("transform.merge_handles", [parts[0].type], parts)
        else:
            nothing = ir.DictAttr.get({NOTHING: ir.UnitAttr.get()})
            handle = create("transform.structured.match", [ir.Type.parse(ANY)], [root], {"op_attrs": nothing})
        return handle if state.type == handle.type else create("transform.cast", [state.type], [handle])

    def _constants(self, state: HandleState) -> ir.Value:
        constants = [create("transform.param.constant", [state.type], [], {"value": value}) for value in state.values]
        return constants[0] if len(constants) == 1 else create("transform.merge_handles", [state.type], constants)

    def _op(self, name: str, root: ir.Value) -> ir.Value:
        """Return a handle to one payload operation."""
        if name == self._named.root:
            return root
        spot = self._named.spots[name]
        if spot.kind not in self._matched:
            kinds = ir.ArrayAttr.get([ir.StringAttr.get(spot.kind)])
            matches = create("transform.structured.match", [ir.Type.parse(ANY)], [root], {"ops": kinds})
            count = self._named.counts[spot.kind]
            self._matched[spot.kind] = split(matches, count) if count > 1 else [matches]
        return self._matched[spot.kind][spot.index]

    def _tag(self, handle: ir.Value, state: HandleState, most: int) -> None:
        """Annotate the operations of a handle and, if there may be several, each one with its index."""
        number = len(self._tags)
        self._tags[str(number)] = (state, most)
        annotate(handle, f"{TAG}{number}")
        if most > 1:
            with ir.InsertionPoint(suppressing(handle)):
                for index, each in enumerate(split(handle, most, exact=False)):
                    annotate(each, f"{TAG}{number}.{index}")
                ir.Operation.create("transform.yield")

    def _tag_param(self, param: ir.Value, state: HandleState, root: ir.Value) -> None:
        number = len(self._tags)
        self._tags[str(number)] = (state, 0)
        annotate(root, f"{TAG}{number}", param)

    def _run(self, sequence: ir.Operation) -> float:
        begun = time.perf_counter()
        with captured():  # discards the output of the script
            try:
                interpreter.apply_named_sequence(self._named.module.operation, sequence, self._library.operation)
            except (ValueError, ir.MLIRError) as error:
                raise LeafError(describe(error) if isinstance(error, ir.MLIRError) else str(error)) from error
        return time.perf_counter() - begun

    def _read(self) -> None:
        for number, (state, most) in self._tags.items():
            if state.kind == PARAM:
                state.values = [self._named.values[number]]
                continue
            members = self._named.tags.get(number, [])
            parts = (self._named.tags.get(f"{number}.{index}", []) for index in range(most))
            ordered = [part[0] for part in parts if len(part) == 1]
            state.ops = ordered if set(ordered) == set(members) else members


def create(
    name: str,
    results: Sequence[ir.Type],
    operands: Sequence[ir.Value],
    attributes: Mapping[str, ir.Attribute] | None = None,
) -> ir.Value:
    """Create an operation at the insertion point and return its first result."""
    operation = ir.Operation.create(name, results=results, operands=operands, attributes=dict(attributes or {}))
    return operation.results[0]


def split(handle: ir.Value, count: int, *, exact: bool = True) -> list[ir.Value]:
    """Split a handle into `count` single ones; if not `exact`, it may have fewer operations."""
    attributes = {} if exact else {"fail_on_payload_too_small": ir.BoolAttr.get(False)}
    if handle.type != ir.Type.parse(ANY):
        handle = create("transform.cast", [ir.Type.parse(ANY)], [handle])
    results = [ir.Type.parse(ANY)] * count
    operation = ir.Operation.create("transform.split_handle", results=results, operands=[handle], attributes=attributes)
    return list(operation.results)


def suppressing(handle: ir.Value) -> ir.Block:
    """Create a sequence on a handle that suppresses silenceable failures, and return its block."""
    mode = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), SUPPRESS)
    segments = ir.DenseI32ArrayAttr.get([1, 0])
    sequence = ir.Operation.create(
        "transform.sequence",
        operands=[handle],
        attributes={"failure_propagation_mode": mode, "operandSegmentSizes": segments},
        regions=1,
    )
    return sequence.regions[0].blocks.append(handle.type, arg_locs=[ir.Location.unknown()])


def annotate(handle: ir.Value, name: str, param: ir.Value | None = None) -> None:
    """Annotate the operations of a handle with an attribute."""
    operands = [handle] if param is None else [handle, param]
    ir.Operation.create("transform.annotate", operands=operands, attributes={"name": ir.StringAttr.get(name)})


def replace_operands(op: ir.Operation, mapping: Mapping[ir.Value, ir.Value]) -> None:
    """Replace the operands of an operation and of those nested in it."""
    for index, operand in enumerate(op.operands):
        if operand in mapping:
            op.operands[index] = mapping[operand]
    for inner in inside(op):
        replace_operands(inner, mapping)


def inside(op: ir.Operation) -> Iterator[ir.Operation]:
    """Yield the operations directly in the regions of an operation."""
    for region in op.regions:
        for block in region.blocks:
            yield from (each.operation for each in block.operations)
