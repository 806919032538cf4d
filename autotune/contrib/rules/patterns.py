"""Patterns compiled, each alone, and what they may call as the bindings call it."""

from collections.abc import Callable, Sequence
from typing import Any

from mlir import ir
from mlir.dialects import pdl
from mlir.rewrite import FrozenRewritePatternSet, PatternRewriter, PDLModule, PDLResultList

from autotune.compiler.ir.module import line_and_column, parse
from autotune.contrib.rules.natives import CONDITIONS, WRITERS
from autotune.contrib.rules.read import REWRITE, RuleBook, RulePattern
from autotune.core.scripts.rules import Firing

FIRED = "autotune.fired"  # the writer that every pattern begins with


class Pattern:
    """One pattern, parsed and compiled in the current context when it is first asked for.

    Each is compiled alone: upstream mixes up what two patterns get from a condition that both ask.

    Attributes:
        rule: Name of the rule that it is a form of.
        needs: Names of the ops that must be there for it to match.
    """

    def __init__(self, pattern: RulePattern, functions: "Functions") -> None:
        self.rule = pattern.rule
        self.needs = pattern.needs
        self._text = pattern.text
        self._functions = functions
        self._compiled: FrozenRewritePatternSet | None = None

    def compiled(self) -> FrozenRewritePatternSet:
        """The pattern as the driver takes it."""
        if self._compiled is None:
            module = parse(self._text, self.rule)
            tell(module.body.operations[0].operation, self.rule)
            held = PDLModule(module)
            for name, function in self._functions.conditions.items():
                held.register_constraint_function(name, function)
            for name, writer in self._functions.writers.items():
                held.register_rewrite_function(name, writer)
            self._compiled = held.freeze()
        return self._compiled


class Functions:
    """What patterns may call, as the bindings call it: of a condition true stands for failure, and none may raise.

    Attributes:
        firings: List that takes every firing; another one for another driver.
        error: First error of a condition or writer; `None` where there was none.
        conditions: Conditions by name.
        writers: Writers by name.
    """

    def __init__(self) -> None:
        self.firings: list[Firing] = []
        self.error: Exception | None = None
        self.conditions: dict[str, Callable[..., bool]] = {
            name: self._condition(native.apply) for name, native in CONDITIONS.items()
        }
        self.writers: dict[str, Callable[..., None]] = {
            name: self._writer(native.apply) for name, native in WRITERS.items()
        }
        self.writers[FIRED] = self._fired

    def _fired(self, _: PatternRewriter, results: PDLResultList, values: Sequence[ir.Operation]) -> None:
        root, rule = values
        line, _ = line_and_column(root.location) or (0, 0)
        name = root.operation.name if isinstance(root, ir.OpView) else root.name
        self.firings.append(Firing(ir.StringAttr(rule).value, line, name))

    def _condition(self, apply: Callable[..., Any]) -> Callable[..., bool]:
        def check(_: PatternRewriter, results: PDLResultList, values: Sequence[object]) -> bool:
            try:
                found = apply(*map(plain, values))
            except Exception as error:
                self.error = self.error or error
                return True
            if found is None or found is False:
                return True
            for each in found if isinstance(found, tuple) else () if found is True else (found,):
                results.append(each)
            return False

        return check

    def _writer(self, apply: Callable[..., Any]) -> Callable[..., None]:
        def write(rewriter: PatternRewriter, results: PDLResultList, values: Sequence[object]) -> None:
            try:
                found = apply(rewriter, *map(plain, values))
            except Exception as error:  # it ends the driver, and the module with it
                self.error = self.error or error
                raise
            for each in found if isinstance(found, tuple) else (found,):
                results.append(each)

        return write


def patterns_of(book: RuleBook) -> tuple[list[Pattern], Functions]:
    """The patterns of rules with those of most benefit first, and what they call."""
    functions = Functions()
    return [Pattern(each, functions) for each in sorted(book.patterns, key=lambda each: -each.benefit)], functions


def plain(value: object) -> object:
    """An op as an operation; an attribute or value as what it is."""
    if isinstance(value, ir.OpView):
        return value.operation
    return value.maybe_downcast() if isinstance(value, (ir.Attribute, ir.Value)) else value


def tell(pattern: ir.Operation, rule: str) -> None:
    """Let a pattern's writing begin with a call that says that it fires, and on which op."""
    for op in pattern.regions[0].blocks[0].operations:
        if op.operation.name == REWRITE:
            name = ir.StringAttr.get(rule)
            with ir.InsertionPoint.at_block_begin(op.operation.regions[0].blocks[0]), ir.Location.unknown():
                attribute = pdl.AttributeOp(value=name)
                pdl.ApplyNativeRewriteOp([], FIRED, [op.operation.operands[0], attribute.result])
