"""Reading rules: a module of PDL patterns, which may be untrusted, checked and described. In the isolated process.

PDL is upstream's language of patterns (https://mlir.llvm.org/docs/Dialects/PDLOps/). What it cannot say, a body or a
permutation, the conditions and writers of `natives` do. A pattern tells people what it is in attributes:

    autotune.before, autotune.after, autotune.when   texts
    autotune.tolerance   largest difference in float64, 0.0 where nothing is rounded otherwise
    autotune.choice      it is measured if the rule is worth it; a unit attribute

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
        name: Name of the rule, or that with ``.form`` behind.
        benefit: Those of most benefit fire first.
        needs: Names of the ops that must be there for it to match.
        text: The pattern, in PDL.
    """

    name: str
    benefit: int
    needs: frozenset[str]
    text: str

    @property
    def rule(self) -> str:
        """Name of the rule that it is a form of."""
        return self.name.partition(".")[0]


@dataclass(frozen=True)
class RuleBook:
    """Rules that are in force, read.

    Attributes:
        text: Patterns of the rules, as one module.
        patterns: The same, each alone, in order.
        rules: What they say of themselves, ours first.
    """

    text: str
    patterns: tuple[RulePattern, ...]
    rules: tuple[Rule, ...]


@lru_cache(maxsize=16)
def open_rules(rules: Rules) -> RuleBook:
    """Read, check and describe rules, once for all payloads; those that are left out are gone.

    Raises:
        RuleError: A text is not of rules, two rules have one name, or a rule may round where none may.
    """
    with context():
        return read_book(rules)


def read_book(rules: Rules) -> RuleBook:
    """Read rules in the current context, as `open_rules` does.

    Raises:
        RuleError: The rules are refused.
    """
    given = [(OURS, "")] if rules.ours else []
    given += [(rules.text, rules.source)] if rules.source else []
    book = ir.Module.create()
    found: dict[str, Rule] = {}
    for text, source in given:
        module = parse_rules(text, source or OURS_SOURCE)
        described = describe(module, source)
        if rules.exact and source:
            refuse_rounding(described)
        for rule in described:
            if rule.name in found:
                whose = "ours" if not found[rule.name].source else "another"
                raise RuleError(f"rules must have names of their own, {rule.name} of {source} is {whose}; rename it")
            if rule.name not in rules.without and (rule.is_exact or not rules.exact):
                found[rule.name] = rule
        for op in module.body.operations:
            if rule_name(op.operation) in found:
                op.operation.clone(ir.InsertionPoint(book.body))
    patterns = tuple(write_pattern(op.operation) for op in book.body.operations)
    return RuleBook(str(book), patterns, tuple(found.values()))


def write_pattern(pattern: ir.Operation) -> RulePattern:
    """A pattern of a module as text, with what decides when it is applied."""
    benefit = int(ir.IntegerAttr(pattern.attributes["benefit"]).value)
    return RulePattern(symbol(pattern) or "", benefit, frozenset(names_in(pattern)), str(pattern))


def parse_rules(text: str, source: str) -> ir.Module:
    """A text as a module of patterns.

    Raises:
        RuleError: The text is none, or holds what no rule may.
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
    """Refuse a module that holds anything but patterns that ask, and write ops that compute.

    Raises:
        RuleError: The module does, or holds none; with line and column.
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
    """What is wrong with an op of a pattern; `None` if nothing is."""
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
    """Return whether an op of a pattern is in the part that writes."""
    return op.parent is not None and op.parent.operation.name == REWRITE


def fault_of_native(op: ir.Operation) -> str | None:
    """What is wrong with a call of a native condition or writer."""
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
    """The error that says what is wrong with an op of a rules file."""
    found = line_and_column(op.location)
    location = f":{found[0]}:{found[1]}" if found is not None else ""
    return RuleError(f"{source}{location}: {sentence}; mend it")


def rule_name(pattern: ir.Operation) -> str:
    """Name of the rule that a pattern is a form of."""
    return (symbol(pattern) or "").partition(".")[0]


def describe(module: ir.Module, source: str) -> list[Rule]:
    """What the rules of a module say of themselves: of several forms, the first that says anything.

    Raises:
        RuleError: An attribute is not what it must be.
    """
    found: dict[str, Rule] = {}
    for op in module.body.operations:
        pattern = op.operation
        name = rule_name(pattern)
        texts = {key: declared_text(pattern, key, source) for key in ("before", "after", "when")}
        choice = declared_choice(pattern, source) or (name in found and found[name].is_choice)
        rule = Rule(name, source, tolerance=declared_tolerance(pattern, source), is_choice=choice, **texts)
        if name not in found or (rule.tolerance is not None and found[name].tolerance is None):
            found[name] = rule
        found[name] = replace(found[name], is_choice=choice)
    return list(found.values())


def declared_text(pattern: ir.Operation, key: str, source: str) -> str:
    """A text that a pattern has as an attribute; empty where it has none."""
    name = f"autotune.{key}"
    if name not in pattern.attributes:
        return ""
    attribute = pattern.attributes[name]
    if not isinstance(attribute, ir.StringAttr) or not attribute.value.isprintable() or len(attribute.value) > 300:
        raise refuse(source, pattern, f"{name} must be a short text on one line, is {str(attribute)[:60]}")
    return str(attribute.value)


def declared_tolerance(pattern: ir.Operation, source: str) -> float | None:
    """The tolerance that a pattern states; `None` where it states none."""
    if "autotune.tolerance" not in pattern.attributes:
        return None
    attribute = pattern.attributes["autotune.tolerance"]
    value = attribute.value if isinstance(attribute, ir.FloatAttr) else -1.0
    if not (isfinite(value) and 0.0 <= value <= 1.0):
        raise refuse(source, pattern, f"autotune.tolerance must be a number from 0.0 to 1.0, is {attribute}")
    return float(value)


def declared_choice(pattern: ir.Operation, source: str) -> bool:
    """Whether a pattern says that its rule is a choice.

    Raises:
        RuleError: The attribute is not a unit attribute.
    """
    if CHOICE not in pattern.attributes:
        return False
    if not isinstance(pattern.attributes[CHOICE], ir.UnitAttr):
        raise refuse(source, pattern, f"{CHOICE} must be a unit attribute, is {str(pattern.attributes[CHOICE])[:60]}")
    return True


def refuse_rounding(rules: Sequence[Rule]) -> None:
    """Refuse rules of a user that may round otherwise.

    Raises:
        RuleError: One does, or does not say.
    """
    for rule in rules:
        if not rule.is_exact:
            stated = f"states {rule.tolerance:g}" if rule.tolerance is not None else "states none"
            raise RuleError(
                f"--exact takes rules with autotune.tolerance = 0.0, {rule.name} of {rule.source} {stated}; drop one"
            )


def names_in(pattern: ir.Operation) -> Iterator[str]:
    """Names of ops that must be there for a pattern to match."""
    for op in pattern.regions[0].blocks[0].operations:
        if op.operation.name == OPERATION and "opName" in op.attributes:
            yield str(ir.StringAttr(op.attributes["opName"]).value)


def describe_rules(rules: Rules) -> tuple[Rule, ...]:
    """What the rules in force say of themselves.

    Raises:
        RuleError: The rules are refused, as by `open_rules`.
    """
    return open_rules(rules).rules
