"""Stable names of payload operations across steps, stored as their locations and printed as names of their results.

MLIR renumbers values in every print, so that one new operation changes all lines below it. An operation that a
transform creates has the location of its origin: the first one of the same kind keeps the name, the others get new
ones.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mlir import ir

from autotune.core.host.scratch import scratch_file

TAG = "autotune.debug."  # prefix of the annotations for the operations of a handle
WORD = re.compile(r"\W+")
LOCATION = re.compile(r' loc\("(\w*)"\)$')
ARGUMENT = re.compile(r' loc\("\w*"\)(?=[,)])')
MOST_ELEMENTS = 64  # printed elements of a constant


@dataclass(frozen=True)
class Spot:
    """Position of a payload operation.

    Attributes:
        kind: Name of the operation, such as ``linalg.matmul``.
        index: Index among the operations of that kind, in post-order.
        parent: Name of the parent operation.
    """

    kind: str
    index: int
    parent: str


@dataclass
class NamedOps:
    """Names of all operations of a module.

    Attributes:
        module: Module whose locations are the names.
        spots: Position of each operation, by name, in pre-order.
        counts: Number of operations of each kind.
        tags: Annotated operations at the last renewal: tag -> names, in post-order.
        values: Annotations of the module itself, which are values of params.
        origins: New names at the last renewal, each with the former name of the operation.
    """

    module: ir.Module
    spots: dict[str, Spot] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    tags: dict[str, list[str]] = field(default_factory=dict)
    values: dict[str, ir.Attribute] = field(default_factory=dict)
    origins: list[str] = field(default_factory=list)
    _next: dict[str, int] = field(default_factory=dict)
    _arguments: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.root = ""
        self.renew()

    def renew(self) -> None:
        """Name every operation after a transform, then read and remove the annotations."""
        before, self.spots, self.counts, self.tags, self.values, self.origins = self.spots, {}, {}, {}, {}, []
        known, self._arguments = self._arguments, set()
        self._name_all(before, known)
        self._count_all()

    def _name_all(self, before: dict[str, Spot], known: set[str]) -> None:
        """Name every operation and block argument, in pre-order.

        MLIR's walk is faster than visiting regions from Python; models have hundreds of steps and thousands of
        operations.
        """

        def visit(op: ir.Operation) -> ir.WalkResult:
            kind, parent = op.name, op.parent
            name = self._name(op, kind, before)
            self.spots[name] = Spot(kind, 0, "" if parent is None else name_in(parent.location))
            if len(op.regions):
                for block in (block for region in op.regions for block in region.blocks):
                    for argument in block.arguments:
                        self._name_argument(argument, kind, known)
            return ir.WalkResult.ADVANCE

        self.module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
        self.root = next(iter(self.spots))

    def _count_all(self) -> None:
        """Count the operations of each kind and read their annotations, in post-order."""

        def visit(op: ir.Operation) -> ir.WalkResult:
            name = name_in(op.location)
            spot = self.spots[name]
            index = self.counts.get(spot.kind, 0)
            self.counts[spot.kind] = index + 1
            if index:
                self.spots[name] = Spot(spot.kind, index, spot.parent)
            self._take_tags(op, name)
            return ir.WalkResult.ADVANCE

        self.module.operation.walk(visit, ir.WalkOrder.POST_ORDER)

    def _name(self, op: ir.Operation, kind: str, before: dict[str, Spot]) -> str:
        """Return the name of an operation: its former one, or a new one."""
        former = name_in(op.location)
        if former in before and former not in self.spots and before[former].kind == kind:
            return former
        name = self._fresh(base_of(op))
        op.location = ir.Location.name(name)
        if before:
            self.origins.append(f"{name} {former if former in before else ''}".rstrip())
        return name

    def _name_argument(self, argument: ir.BlockArgument, kind: str, known: set[str]) -> None:
        name = name_in(argument.location)
        if name not in known or name in self._arguments:
            base = "arg" if kind == "func.func" else "i" if isinstance(argument.type, ir.IndexType) else "in"
            name = self._fresh(base)
            argument.set_location(ir.Location.name(name))
        self._arguments.add(name)

    def _fresh(self, base: str) -> str:
        """Return an unused name."""
        number = self._next.get(base, 0)
        self._next[base] = number + 1
        return f"{base}_{number}" if number or base in ("arg", "i", "in") else base

    def _take_tags(self, op: ir.Operation, name: str) -> None:
        attributes = op.attributes
        if not len(attributes):
            return
        for tag in [key for key in attributes.keys() if key.startswith(TAG)]:  # noqa: SIM118 - it iterates pairs
            self.tags.setdefault(tag.removeprefix(TAG), []).append(name)
            if name == self.root:
                self.values[tag.removeprefix(TAG)] = attributes[tag]
            del attributes[tag]

    def ancestry(self, name: str) -> Iterator[str]:
        """Yield the names of an operation and its ancestors, innermost first."""
        while name:
            yield name
            name = self.spots[name].parent if name in self.spots else ""

    def text(self) -> tuple[list[str], list[str]]:
        """Print the module; return its lines, and the name of the operation that begins at each, or an empty string.

        Attribute aliases are disabled, since they are renumbered in every print. MLIR prints to a file, which is faster
        than a Python stream that it writes to word by word.
        """
        with scratch_file() as path:
            self.module.operation.print(
                file=str(path),
                use_name_loc_as_prefix=True,
                enable_debug_info=True,
                use_local_scope=True,
                large_elements_limit=MOST_ELEMENTS,
            )
            printed = path.read_text(encoding="utf-8")
        return cut_locations(printed.splitlines())


def cut_locations(lines: list[str]) -> tuple[list[str], list[str]]:
    """Strip the locations from printed lines; also return the name of the operation that begins at each line."""
    stripped, ops, open_at = list[str](), list[str](), dict[int, int]()
    for line in lines:
        match = LOCATION.search(line)
        plain = line[: match.start()] if match else line
        if plain.lstrip().startswith(("^bb", "func.func", "(%")):  # its arguments have locations
            plain = ARGUMENT.sub("", plain)
        words = plain.lstrip()
        indent, begins = len(plain) - len(words), len(stripped)
        if words.startswith("}"):
            begins = open_at.get(indent, begins) if match else begins
        elif not words.startswith("^"):
            open_at[indent] = begins if not words.startswith("(") else begins - 1  # continuation line of an operation
        stripped.append(plain)
        ops.append("")
        if match:
            ops[begins] = match[1]
    return stripped, ops


def name_in(location: ir.Location) -> str:
    """Return the name in a location; the first one of a fused location."""
    if location.is_a_name():
        return str(location.name_str)
    while location.is_a_fused() and len(location.locations):
        location = location.locations[0]
    while location.is_a_callsite():
        location = location.callee
    return str(location.name_str) if location.is_a_name() else ""


def base_of(op: ir.Operation) -> str:
    """Return the base name of a new operation: the value of an integer constant, else the operation's mnemonic."""
    if op.name == "arith.constant" and "value" in op.attributes:
        value = op.attributes["value"]
        return f"c{value.value}".replace("-", "m") if isinstance(value, ir.IntegerAttr) else "cst"
    return WORD.sub("_", op.name.partition(".")[2] or op.name) or "op"
