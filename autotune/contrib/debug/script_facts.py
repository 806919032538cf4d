"""Static facts about a script: names of its handles, operands that operations consume, and liveness of handles."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mlir import ir
from mlir.passmanager import PassManager

from autotune.compiler.ir.module import copy_module, every_op, symbol
from autotune.compiler.script.user_module import symbols_in

PROBE = "autotune.probe."
LOCATION = re.compile(r'"-":(\d+):(\d+)')
FREED = re.compile(r"operand #0 may be used after free")
RESULTS = re.compile(r"((?:%[\w.$-]+(?::\d+)?\s*,\s*)*%[\w.$-]+(?::\d+)?)\s*=\s*$")
VALUE = re.compile(r"%([\w.$-]+)(?::(\d+))?")
MATCHERS = ("transform.foreach_match", "transform.collect_matching")
QUERIES = (  # name prefixes of operations that do not modify the payload
    *("transform.match.", "transform.param.", "transform.debug.", "transform.get_", "transform.structured.match"),
    *("transform.split_handle", "transform.merge_handles", "transform.num_associations", "transform.cast"),
    *("transform.print", "transform.select", "transform.replicate", "transform.tune.", "transform.verify"),
)


@dataclass
class ScriptFacts:
    """A script and static facts about it.

    Attributes:
        module: Module of the script.
        lines: Lines of its text, which its locations refer to.
        consumed: Indices of the operands that each operation consumes.
        sequences: Named sequences of the script, by name.
    """

    module: ir.Module
    lines: list[str]
    consumed: dict[ir.Operation, set[int]]
    sequences: dict[str, ir.Operation]

    @classmethod
    def read(cls, module: ir.Module, text: str) -> "ScriptFacts":
        """Analyze a script."""
        sequences = {str(symbol(op)): op.operation for op in module.body.operations if symbol(op) is not None}
        return cls(module, text.splitlines(), consumed_in(module), sequences)

    def names_of(self, op: ir.Operation) -> list[str]:
        """Return the names of an operation's results in the text, or the compiler's if they are not in the text."""
        line, column = location_of(op)
        before = self.lines[line - 1][: column - 1] if 0 < line <= len(self.lines) else ""
        match = RESULTS.search(before)
        names: list[str] = []
        for name, count in VALUE.findall(match[1]) if match else []:
            names += [f"%{name}#{index}" for index in range(int(count))] if count else [f"%{name}"]
        return names if len(names) == len(op.results) else [str(result.get_name()) for result in op.results]

    def argument_names(self, block: ir.Block, op: ir.Operation) -> list[str]:
        """Return the names of a block's arguments in the text, or the compiler's if they are not in the text."""
        line, column = location_of(op)
        if not 0 < line <= len(self.lines) or not len(block.arguments):
            return [str(argument.get_name()) for argument in block.arguments]
        text = "\n".join(self.lines[line - 1 : line + 9])[column - 1 :]
        begin = text.find("^bb") if op.name != "transform.named_sequence" else text.find("@")
        names = re.findall(r"(%[\w.$-]+)\s*:", text[max(begin, 0) :])[: len(block.arguments)]
        if begin < 0 or len(names) < len(block.arguments):
            return [str(argument.get_name()) for argument in block.arguments]
        return names


def location_of(op: ir.Operation) -> tuple[int, int]:
    """Return the line and column of an operation in the script; zeros if it is not in the script."""
    match = LOCATION.search(str(op.location))
    return (int(match[1]), int(match[2])) if match else (0, 0)


def consumed_in(module: ir.Module) -> dict[ir.Operation, set[int]]:
    """Return the operands that every operation of a script consumes.

    The transform-dialect-check-uses pass reports uses after free. A probe, which uses an operand again, is inserted
    after each operation; a diagnostic at the probe means that the operation consumes the operand.
    """
    copy = copy_module(module)
    ops, matchers = every_op(module), matchers_in(module)
    for number, op in enumerate(every_op(copy)):
        if probes_fit(op) and sequence_of(op) not in matchers:
            for index, operand in enumerate(op.operands):
                if "param" not in str(operand.type) and "value" not in str(operand.type):
                    probe(op, operand, f"{PROBE}{number}.{index}")
    freed: list[str] = []

    def note(diagnostic: ir.Diagnostic) -> bool:
        if FREED.match(diagnostic.message) and diagnostic.location.is_a_name():
            freed.append(diagnostic.location.name_str)
        return True

    handler = module.context.attach_diagnostic_handler(note)
    try:
        passes = PassManager.parse("builtin.module(transform-dialect-check-uses)")
        passes.enable_verifier(False)
        passes.run(copy.operation)
    finally:
        handler.detach()
    consumed: dict[ir.Operation, set[int]] = {}
    for name in freed:
        if name.startswith(PROBE):
            op_index, _, operand_index = name.removeprefix(PROBE).partition(".")
            consumed.setdefault(ops[int(op_index)], set()).add(int(operand_index))
    return consumed


def matchers_in(module: ir.Module) -> set[str]:
    """Return the names of matcher sequences, in which probes are not allowed."""
    return {name for op in every_op(module) if op.name in MATCHERS for name in symbols_in(op)}


def sequence_of(op: ir.Operation) -> str:
    """Return the name of the sequence that contains an operation."""
    while op.parent is not None and op.name != "transform.named_sequence":
        op = op.parent.operation
    return str(symbol(op)) if "sym_name" in op.attributes else ""


def probes_fit(op: ir.Operation) -> bool:
    """Return whether a probe can be inserted after an operation."""
    parent = op.parent.name if op.parent is not None else ""
    if parent.startswith("transform.apply_patterns") or parent == "transform.apply_conversion_patterns":
        return False
    return op.name.startswith("transform.") and not op.name.endswith((".yield", ".named_sequence"))


def probe(op: ir.Operation, operand: ir.Value, name: str) -> None:
    """Insert a probe after an operation that uses one of its operands."""
    block = op.block
    following = list(block.operations)
    position = next(index for index, each in enumerate(following) if each.operation == op)
    point = ir.InsertionPoint(following[position + 1])
    attributes = {"name": ir.StringAttr.get(name)}
    ir.Operation.create(
        "transform.annotate", operands=[operand], attributes=attributes, loc=ir.Location.name(name), ip=point
    )


def uses_of(value: ir.Value) -> Iterator[ir.Operation]:
    """Yield the users of a value."""
    return (use.owner.operation for use in value.uses)


def is_used_behind(value: ir.Value, op: ir.Operation) -> bool:
    """Return whether a value is used after an operation or by an ancestor of it, in textual order as in MLIR."""
    return any(is_behind(user, op) for user in uses_of(value))


def is_behind(user: ir.Operation, op: ir.Operation) -> bool:
    """Return whether an operation comes after another one in the text, or is an ancestor of it."""
    ancestor_in = {each.block: each for each in holders(op)}
    if any(user == each for each in list(ancestor_in.values())[1:]):
        return True
    for each in holders(user):
        if each.block in ancestor_in:
            ancestor = ancestor_in[each.block]
            return ancestor != each and bool(ancestor.is_before_in_block(each))
    return False


def holders(op: ir.Operation) -> Iterator[ir.Operation]:
    """Yield an operation and its ancestors up to its sequence."""
    at: ir.Operation | None = op
    while at is not None and at.name not in ("transform.named_sequence", "builtin.module"):
        yield at
        at = at.parent.operation if at.parent is not None else None
