"""Names for payload ops that last from step to step: they are the ops' locations, and so the names of their results.

MLIR numbers values anew in every print, so that one new op changes all lines below it. An op that a transform makes has
the location of the op that it is made from; the first of the same kind keeps the name, the others get new ones.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mlir import ir

from autotune.core.host.scratch import scratch_file

TAG = "autotune.debug."  # begins the attributes that tell which ops a handle points at
WORD = re.compile(r"\W+")
LOCATION = re.compile(r' loc\("(\w*)"\)$')
ARGUMENT = re.compile(r' loc\("\w*"\)(?=[,)])')
MOST_ELEMENTS = 64  # of a constant that are printed


@dataclass(frozen=True)
class Spot:
    """Where an op of the payload is.

    Attributes:
        kind: Name of its kind, ``linalg.matmul``.
        index: Index among the ops of that kind, in post-order.
        parent: Name of the op around it.
    """

    kind: str
    index: int
    parent: str


@dataclass
class NamedOps:
    """Names of all ops of a module.

    Attributes:
        module: The module; its locations are the names.
        spots: Position of each op, by name, in pre-order.
        counts: Number of ops of each kind.
        tags: Ops that were tagged when the names were last given: tag -> names, in post-order.
        values: What the module itself was tagged with, which are values of params.
        origins: New names of the last time, with the name that each op had before.
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
        """Name every op after a transform, read the tags, and remove them."""
        before, self.spots, self.counts, self.tags, self.values, self.origins = self.spots, {}, {}, {}, {}, []
        known, self._arguments = self._arguments, set()
        self._name_all(before, known)
        self._count_all()

    def _name_all(self, before: dict[str, Spot], known: set[str]) -> None:
        """Name every op, and the arguments of its blocks, in pre-order.

        By walks and not region by region, since a model's script has hundreds of steps and its payload a thousand ops,
        most of them without regions.
        """

        def visit(op: ir.Operation) -> ir.WalkResult:
            kind, around = op.name, op.parent
            name = self._name(op, kind, before)
            self.spots[name] = Spot(kind, 0, "" if around is None else name_in(around.location))
            if len(op.regions):
                for block in (block for region in op.regions for block in region.blocks):
                    for argument in block.arguments:
                        self._name_argument(argument, kind, known)
            return ir.WalkResult.ADVANCE

        self.module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
        self.root = next(iter(self.spots))

    def _count_all(self) -> None:
        """Count the ops of each kind, and read their tags, in post-order."""

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
        """The name of an op: the one that it had, or a new one."""
        was = name_in(op.location)
        if was in before and was not in self.spots and before[was].kind == kind:
            return was
        name = self._fresh(base_of(op))
        op.location = ir.Location.name(name)
        if before:
            self.origins.append(f"{name} {was if was in before else ''}".rstrip())
        return name

    def _name_argument(self, argument: ir.BlockArgument, kind: str, known: set[str]) -> None:
        was = name_in(argument.location)
        if was not in known or was in self._arguments:
            base = "arg" if kind == "func.func" else "i" if isinstance(argument.type, ir.IndexType) else "in"
            was = self._fresh(base)
            argument.set_location(ir.Location.name(was))
        self._arguments.add(was)

    def _fresh(self, base: str) -> str:
        """A name that no op has had."""
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

    def around(self, name: str) -> Iterator[str]:
        """An op and those around it, by name, from the inside."""
        while name:
            yield name
            name = self.spots[name].parent if name in self.spots else ""

    def text(self) -> tuple[list[str], list[str]]:
        """Lines of the module, and the name of the op that begins at each; nothing where none does.

        Without aliases of attributes, which are numbered anew in every print. Through a file, which MLIR writes itself:
        a text it would give to Python word by word.
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
    """Lines without their locations, and the names of ops where they begin."""
    cut, ops, open_at = list[str](), list[str](), dict[int, int]()
    for line in lines:
        found = LOCATION.search(line)
        plain = line[: found.start()] if found else line
        if plain.lstrip().startswith(("^bb", "func.func", "(%")):  # its arguments have locations
            plain = ARGUMENT.sub("", plain)
        words = plain.lstrip()
        indent, begins = len(plain) - len(words), len(cut)
        if words.startswith("}"):
            begins = open_at.get(indent, begins) if found else begins
        elif not words.startswith("^"):
            open_at[indent] = begins if not words.startswith("(") else begins - 1  # an op goes on
        cut.append(plain)
        ops.append("")
        if found:
            ops[begins] = found[1]
    return cut, ops


def name_in(location: ir.Location) -> str:
    """The name in a location; of several, the first."""
    if location.is_a_name():
        return str(location.name_str)
    while location.is_a_fused() and len(location.locations):
        location = location.locations[0]
    while location.is_a_callsite():
        location = location.callee
    return str(location.name_str) if location.is_a_name() else ""


def base_of(op: ir.Operation) -> str:
    """What the name of a new op begins with: a whole constant's value, else the kind of the op."""
    if op.name == "arith.constant" and "value" in op.attributes:
        value = op.attributes["value"]
        return f"c{value.value}".replace("-", "m") if isinstance(value, ir.IntegerAttr) else "cst"
    return WORD.sub("_", op.name.partition(".")[2] or op.name) or "op"
