"""Parsing and validation of rules: a possibly untrusted module of PDL patterns. Runs in the isolated process.

PDL is MLIR's pattern language (https://mlir.llvm.org/docs/Dialects/PDLOps/). The native functions of `natives` express
what PDL cannot, such as bodies and permutations. Attributes of a pattern describe it:

    autotune.before, autotune.after, autotune.when   descriptions
    autotune.tolerance   largest difference in float64; 0.0 if rounding is unchanged
    autotune.choice      unit attribute: the rule is optional, and dropped if the payload is faster without it

Patterns ``@name`` and ``@name.form`` are forms of one rule.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite
from pathlib import Path

from mlir import ir

from autotune.compiler.ir.limits import computes, text_fault
from autotune.compiler.ir.module import context, every_op, line_and_column, parse, symbol
from autotune.contrib.rules.natives import CONDITIONS, WRITERS
from autotune.contrib.rules.signature import Native, kind_of
from autotune.core.errors import CompileError, RuleError
from autotune.core.scripts.rules import Rule, Rules

OURS = (Path(__file__).parent / "ours.mlir").read_text(encoding="utf-8")
OURS_SOURCE = "the rules that come with autotune"
PATTERN, REWRITE, OPERATION = "pdl.pattern", "pdl.rewrite", "pdl.operation"
CONDITION, WRITER = "pdl.apply_native_constraint", "pdl.apply_native_rewrite"
CHOICE = "autotune.choice"
MATCHED = ("pdl.attribute", "pdl.operand", "pdl.operands", "pdl.result", "pdl.results", "pdl.type", "pdl.types")
WRITTEN = ("pdl.erase", "pdl.replace", "pdl.range")
OPS = frozenset((PATTERN, REWRITE, OPERATION, CONDITION, WRITER, *MATCHED, *WRITTEN))
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,60}(\.[A-Za-z0-9_-]{1,60})?")
MOST_PATTERNS, MOST_OPS = 500, 100_000


@dataclass(frozen=True)
class RulePattern:
    """A pattern as text.

    Attributes:
        name: Name of the rule, or ``rule.form``.
        benefit: Priority; patterns of higher benefit are applied first.
        needs: Names of the operations that it requires.
        text: Pattern in PDL.
    """

    name: str
    benefit: int
    needs: frozenset[str]
    text: str

    @property
    def rule(self) -> str:
        """Name of its rule."""
        return self.name.partition(".")[0]


@dataclass(frozen=True)
class RuleBook:
    """The active rules.

    Attributes:
        text: Patterns of the rules, as one module.
        patterns: The individual patterns, in order.
        rules: Descriptions of the rules, built-in ones first.
    """

    text: str
    patterns: tuple[RulePattern, ...]
    rules: tuple[Rule, ...]


@lru_cache(maxsize=16)
def open_rules(rules: Rules) -> RuleBook:
    """Parse, check and describe rules, cached for all payloads; excluded rules are dropped.

    Raises:
        RuleError: A text contains no valid rules, two rules have the same name, or a rule is inexact with ``--exact``.
    """
    with context():
        return read_book(rules)


def read_book(rules: Rules) -> RuleBook:
    """Parse, check and describe rules in the current context.

    Raises:
        RuleError: The rules are rejected, as by `open_rules`.
    """
    sources = [(OURS, "")] if rules.ours else []
    sources += [(rules.text, rules.source)] if rules.source else []
    book = ir.Module.create()
    rules_by_name: dict[str, Rule] = {}
    for text, source in sources:
        module = parse_rules(text, source or OURS_SOURCE)
        described = describe(module, source)
        if rules.exact and source:
            refuse_rounding(described)
        for rule in described:
            if rule.name in rules_by_name:
                owner = "ours" if not rules_by_name[rule.name].source else "another"
                raise RuleError(f"rules must have names of their own, {rule.name} of {source} is {owner}; rename it")
            if rule.name not in rules.without and (rule.is_exact or not rules.exact):
                rules_by_name[rule.name] = rule
        for op in module.body.operations:
            if rule_name(op.operation) in rules_by_name:
                op.operation.clone(ir.InsertionPoint(book.body))
    patterns = tuple(write_pattern(op.operation) for op in book.body.operations)
    return RuleBook(str(book), patterns, tuple(rules_by_name.values()))


def write_pattern(pattern: ir.Operation) -> RulePattern:
    """Return a pattern of a module as text, with its benefit and required operations."""
    benefit = int(ir.IntegerAttr(pattern.attributes["benefit"]).value)
    return RulePattern(symbol(pattern) or "", benefit, frozenset(names_in(pattern)), str(pattern))


def parse_rules(text: str, source: str) -> ir.Module:
    """Parse a text to a module of patterns and check it.

    Raises:
        RuleError: The text does not parse, or contains what rules must not.
    """
    if (fault := text_fault(text)) is not None:
        raise RuleError(f"{source} {fault}; write it flatter")
    try:
        module = parse(text, source)
    except CompileError as error:
        raise RuleError(f"rules must be MLIR's PDL: {error}") from error
    check_rules(module, source)
    return module


def check_rules(module: ir.Module, source: str) -> None:
    """Check that a module contains patterns only, whose rewrites create only operations that compute.

    Raises:
        RuleError: The module is invalid or empty; the message has line and column.
    """
    patterns = [op.operation for op in module.body.operations]
    if not patterns:
        raise RuleError(f"rules must hold a {PATTERN}, {source} holds none; write one")
    if len(patterns) > MOST_PATTERNS:
        raise RuleError(f"rules must be at most {MOST_PATTERNS} patterns, {source} holds {len(patterns)}; drop some")
    for pattern in patterns:
        if pattern.name != PATTERN:
            raise refuse(source, pattern, f"rules must be {PATTERN} ops, got {pattern.name}")
        if not NAME.fullmatch(symbol(pattern) or ""):
            raise refuse(source, pattern, f"a pattern must have a name, @name or @name.form, got {symbol(pattern)!r}")
    for count, op in enumerate(every_op(module)):
        fault = fault_of(op) if count else None
        if fault is None and count > MOST_OPS:
            fault = f"rules must be at most {MOST_OPS} ops"
        if fault is not None:
            raise refuse(source, op, fault)


def fault_of(op: ir.Operation) -> str | None:
    """Return the fault of an operation of a pattern; `None` if it is valid."""
    if op.name not in OPS:
        return f"rules must be written in pdl ops that match and write, got {op.name}"
    if op.name == REWRITE and ("name" in op.attributes or not op.operands):
        return f"{REWRITE} must have a root and a body, as in `rewrite %root {{ .. }}`; got another form"
    if op.name == OPERATION and is_written(op):
        name = ir.StringAttr(op.attributes["opName"]).value if "opName" in op.attributes else ""
        return (
            None if computes(name) else f"rules must write ops that compute alone, got {name or 'one without a name'}"
        )
    if op.name in (CONDITION, WRITER):
        return fault_of_native(op)
    return None


def is_written(op: ir.Operation) -> bool:
    """Return whether an operation of a pattern is in its rewrite part."""
    return op.parent is not None and op.parent.operation.name == REWRITE


def fault_of_native(op: ir.Operation) -> str | None:
    """Return the fault of a call of a native function; `None` if it is valid."""
    known: dict[str, Native] = CONDITIONS if op.name == CONDITION else WRITERS
    name = ir.StringAttr(op.attributes["name"]).value
    if name not in known:
        return f"{op.name} must name one of {', '.join(known)}; got {name!r}"
    native = known[name]
    takes, gives = [kind_of(v.type) for v in op.operands], [kind_of(v.type) for v in op.results]
    if takes != list(native.takes) or gives != list(native.gives):
        return f"{name} must be called as {native}, got ({', '.join(takes)}) -> ({', '.join(gives)})"
    return None


def refuse(source: str, op: ir.Operation, sentence: str) -> RuleError:
    """Return the error for an operation of a rule file, with its location."""
    position = line_and_column(op.location)
    location = f":{position[0]}:{position[1]}" if position is not None else ""
    return RuleError(f"{source}{location}: {sentence}; mend it")


def rule_name(pattern: ir.Operation) -> str:
    """Return the name of the rule that a pattern belongs to."""
    return (symbol(pattern) or "").partition(".")[0]


def describe(module: ir.Module, source: str) -> list[Rule]:
    """Return the descriptions of the rules of a module; of several forms, the first that states a tolerance.

    Raises:
        RuleError: An attribute is invalid.
    """
    rules_by_name: dict[str, Rule] = {}
    for op in module.body.operations:
        pattern = op.operation
        name = rule_name(pattern)
        texts = {key: declared_text(pattern, key, source) for key in ("before", "after", "when")}
        choice = declared_choice(pattern, source) or (name in rules_by_name and rules_by_name[name].is_choice)
        rule = Rule(name, source, tolerance=declared_tolerance(pattern, source), is_choice=choice, **texts)
        if name not in rules_by_name or (rule.tolerance is not None and rules_by_name[name].tolerance is None):
            rules_by_name[name] = rule
        rules_by_name[name] = replace(rules_by_name[name], is_choice=choice)
    return list(rules_by_name.values())


def declared_text(pattern: ir.Operation, key: str, source: str) -> str:
    """Return a text attribute of a pattern; empty if it is missing."""
    name = f"autotune.{key}"
    if name not in pattern.attributes:
        return ""
    attribute = pattern.attributes[name]
    if not isinstance(attribute, ir.StringAttr) or not attribute.value.isprintable() or len(attribute.value) > 300:
        raise refuse(source, pattern, f"{name} must be a short text on one line, is {str(attribute)[:60]}")
    return str(attribute.value)


def declared_tolerance(pattern: ir.Operation, source: str) -> float | None:
    """Return the tolerance of a pattern; `None` if it is missing."""
    if "autotune.tolerance" not in pattern.attributes:
        return None
    attribute = pattern.attributes["autotune.tolerance"]
    value = attribute.value if isinstance(attribute, ir.FloatAttr) else -1.0
    if not (isfinite(value) and 0.0 <= value <= 1.0):
        raise refuse(source, pattern, f"autotune.tolerance must be a number from 0.0 to 1.0, is {attribute}")
    return float(value)


def declared_choice(pattern: ir.Operation, source: str) -> bool:
    """Return whether a pattern marks its rule as optional.

    Raises:
        RuleError: The attribute is not a unit attribute.
    """
    if CHOICE not in pattern.attributes:
        return False
    if not isinstance(pattern.attributes[CHOICE], ir.UnitAttr):
        raise refuse(source, pattern, f"{CHOICE} must be a unit attribute, is {str(pattern.attributes[CHOICE])[:60]}")
    return True


def refuse_rounding(rules: Sequence[Rule]) -> None:
    """Check that all rules of a user are exact.

    Raises:
        RuleError: A rule is inexact, or states no tolerance.
    """
    for rule in rules:
        if not rule.is_exact:
            stated = f"states {rule.tolerance:g}" if rule.tolerance is not None else "states none"
            raise RuleError(
                f"--exact takes rules with autotune.tolerance = 0.0, {rule.name} of {rule.source} {stated}; drop one"
            )


def names_in(pattern: ir.Operation) -> Iterator[str]:
    """Yield the names of the operations that a pattern requires."""
    for op in pattern.regions[0].blocks[0].operations:
        if op.operation.name == OPERATION and "opName" in op.attributes:
            yield str(ir.StringAttr(op.attributes["opName"]).value)


def describe_rules(rules: Rules) -> tuple[Rule, ...]:
    """Return the descriptions of the active rules.

    Raises:
        RuleError: The rules are rejected, as by `open_rules`.
    """
    return open_rules(rules).rules
