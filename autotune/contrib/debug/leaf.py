"""Transform ops applied by upstream's interpreter, a few at a time, on handles that are put together again before.

The interpreter keeps handles no longer than a call. So a sequence is written for each step: it matches the payload ops
that live handles point at, by their kind and index; applies the ops; and tags what the handles point at then. Tags are
taken off before anything else sees the payload. Handles that the script does not use any more are not tagged: upstream
fails where an op is erased whose handle is used later, and does not where it is not.
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
NOTHING = "autotune.debug.nothing"  # an attribute that no op has
MATCH = "transform.structured.match"
FEW = 12  # ops that a result may hold in any order, though its operands hold less
SUPPRESS = 2  # of `failure_propagation_mode`
OPS, PARAM, VALUE = "ops", "param", "value"


@dataclass
class Held:
    """What a handle or param of the script holds while it is run.

    Attributes:
        name: Name that the script gives it.
        kind: `OPS`, `PARAM` or `VALUE`; the last cannot be put together again.
        type: Type of the handle or param.
        ops: Names of payload ops, in order.
        values: Attributes of a param.
        invalid: Why it may not be used any more; empty where it may.
        made: Number of the step that gave it.
        ended: Number of the step that made it invalid.
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
    """The interpreter refused a step; its message is the interpreter's."""


def kind_of(handle: ir.Type) -> str:
    """What a transform type stands for."""
    spelled = str(handle)
    if spelled.startswith(("!transform.any_op", "!transform.op<")):
        return OPS
    return PARAM if "param" in spelled else VALUE


class Leaf:
    """One call of the interpreter.

    Args:
        named: The payload.
        library: The script, whose sequences the ops may refer to; it stays as it is.
        ops: Ops to apply, of one block, one after the other.
        held: What their operands hold.
        live: Handles that are used later, without results of `ops`.
        results: Results of `ops` that are kept, with what is to be known of them.
    """

    def __init__(
        self,
        named: NamedOps,
        library: ir.Module,
        ops: Sequence[ir.Operation],
        held: Mapping[ir.Value, Held],
        live: Sequence[Held],
        results: Mapping[ir.Value, Held],
    ) -> None:
        self._named, self._library, self._ops, self._held = named, library, ops, held
        self._live, self._results = live, results
        self._matched: dict[str, list[ir.Value]] = {}
        self._tags: dict[str, tuple[Held, int]] = {}

    def apply(self) -> float:
        """Apply the ops, and note in all handles what they hold; gives the seconds that the interpreter took.

        Raises:
            LeafError: The interpreter refused; names and handles stay as they were.
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
        used = {value: held for value, held in self._held.items() if held.kind != VALUE}
        again = {id(held): self._restore(held, root) for held in (*used.values(), *self._live)}
        mapping = {value: again[id(held)] for value, held in used.items()}
        for op in self._ops:
            copy = op.clone()
            replace_operands(copy, mapping)
            mapping.update(zip(op.results, copy.results, strict=True))
        for held in self._live:
            self._tag(again[id(held)], held, len(held.ops))
        most = self._most()
        for value, held in self._results.items():
            if held.kind == PARAM:
                self._tag_param(mapping[value], held, root)
            elif held.kind == OPS:
                self._tag(mapping[value], held, most)
        ir.Operation.create("transform.yield")

    def _most(self) -> int:
        """Ops of a result whose order is looked at; a match alone gives them in the order of the payload."""
        if self._ops[-1].name == MATCH:
            return 1
        return max(FEW, *(2 * len(held.ops) for held in self._held.values()), 0)

    def _restore(self, held: Held, root: ir.Value) -> ir.Value:
        """A handle or param that holds the same again."""
        if held.kind == PARAM:
            return self._constants(held)
        parts = [self._op(name, root) for name in held.ops]
        if len(parts) == 1:
            handle = parts[0]
        elif parts:
            handle = create("transform.merge_handles", [parts[0].type], parts)
        else:
            nothing = ir.DictAttr.get({NOTHING: ir.UnitAttr.get()})
            handle = create("transform.structured.match", [ir.Type.parse(ANY)], [root], {"op_attrs": nothing})
        return handle if held.type == handle.type else create("transform.cast", [held.type], [handle])

    def _constants(self, held: Held) -> ir.Value:
        each = [create("transform.param.constant", [held.type], [], {"value": value}) for value in held.values]
        return each[0] if len(each) == 1 else create("transform.merge_handles", [held.type], each)

    def _op(self, name: str, root: ir.Value) -> ir.Value:
        """A handle of one op."""
        if name == self._named.root:
            return root
        spot = self._named.spots[name]
        if spot.kind not in self._matched:
            kinds = ir.ArrayAttr.get([ir.StringAttr.get(spot.kind)])
            found = create("transform.structured.match", [ir.Type.parse(ANY)], [root], {"ops": kinds})
            count = self._named.counts[spot.kind]
            self._matched[spot.kind] = split(found, count) if count > 1 else [found]
        return self._matched[spot.kind][spot.index]

    def _tag(self, handle: ir.Value, held: Held, most: int) -> None:
        """Tag the ops of a handle: all of them, and where there may be several, each with its index."""
        number = len(self._tags)
        self._tags[str(number)] = (held, most)
        annotate(handle, f"{TAG}{number}")
        if most > 1:
            with ir.InsertionPoint(suppressing(handle)):
                for index, each in enumerate(split(handle, most, exact=False)):
                    annotate(each, f"{TAG}{number}.{index}")
                ir.Operation.create("transform.yield")

    def _tag_param(self, param: ir.Value, held: Held, root: ir.Value) -> None:
        number = len(self._tags)
        self._tags[str(number)] = (held, 0)
        annotate(root, f"{TAG}{number}", param)

    def _run(self, sequence: ir.Operation) -> float:
        begun = time.perf_counter()
        with captured():  # what the script itself prints
            try:
                interpreter.apply_named_sequence(self._named.module.operation, sequence, self._library.operation)
            except (ValueError, ir.MLIRError) as error:
                raise LeafError(describe(error) if isinstance(error, ir.MLIRError) else str(error)) from error
        return time.perf_counter() - begun

    def _read(self) -> None:
        for number, (held, most) in self._tags.items():
            if held.kind == PARAM:
                held.values = [self._named.values[number]]
                continue
            members = self._named.tags.get(number, [])
            parts = (self._named.tags.get(f"{number}.{index}", []) for index in range(most))
            ordered = [part[0] for part in parts if len(part) == 1]
            held.ops = ordered if set(ordered) == set(members) else members


def create(
    name: str,
    results: Sequence[ir.Type],
    operands: Sequence[ir.Value],
    attributes: Mapping[str, ir.Attribute] | None = None,
) -> ir.Value:
    """An op with one result that matters, at the insertion point."""
    made = ir.Operation.create(name, results=results, operands=operands, attributes=dict(attributes or {}))
    return made.results[0]


def split(handle: ir.Value, count: int, *, exact: bool = True) -> list[ir.Value]:
    """Handles of the single ops of a handle; of at most so many, where it need not be exact."""
    attributes = {} if exact else {"fail_on_payload_too_small": ir.BoolAttr.get(False)}
    if handle.type != ir.Type.parse(ANY):
        handle = create("transform.cast", [ir.Type.parse(ANY)], [handle])
    results = [ir.Type.parse(ANY)] * count
    made = ir.Operation.create("transform.split_handle", results=results, operands=[handle], attributes=attributes)
    return list(made.results)


def suppressing(handle: ir.Value) -> ir.Block:
    """The block of a sequence on a handle whose silenceable failures are suppressed."""
    mode = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), SUPPRESS)
    segments = ir.DenseI32ArrayAttr.get([1, 0])
    made = ir.Operation.create(
        "transform.sequence",
        operands=[handle],
        attributes={"failure_propagation_mode": mode, "operandSegmentSizes": segments},
        regions=1,
    )
    return made.regions[0].blocks.append(handle.type, arg_locs=[ir.Location.unknown()])


def annotate(handle: ir.Value, name: str, param: ir.Value | None = None) -> None:
    """Put an attribute on the ops of a handle."""
    operands = [handle] if param is None else [handle, param]
    ir.Operation.create("transform.annotate", operands=operands, attributes={"name": ir.StringAttr.get(name)})


def replace_operands(op: ir.Operation, mapping: Mapping[ir.Value, ir.Value]) -> None:
    """Give an op, and those inside it, other operands."""
    for index, operand in enumerate(op.operands):
        if operand in mapping:
            op.operands[index] = mapping[operand]
    for inner in inside(op):
        replace_operands(inner, mapping)


def inside(op: ir.Operation) -> Iterator[ir.Operation]:
    """The ops of an op's regions."""
    for region in op.regions:
        for block in region.blocks:
            yield from (each.operation for each in block.operations)
