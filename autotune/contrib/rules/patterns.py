"""Compiled patterns, and the native functions that they call, as callbacks of MLIR's Python bindings."""

from collections.abc import Callable, Sequence
from typing import Any

from mlir import ir
from mlir.dialects import pdl
from mlir.rewrite import FrozenRewritePatternSet, PatternRewriter, PDLModule, PDLResultList

from autotune.compiler.ir.module import line_and_column, parse
from autotune.contrib.rules.natives import CONDITIONS, WRITERS
from autotune.contrib.rules.read import REWRITE, RuleBook, RulePattern
from autotune.core.scripts.rules import Firing

FIRED = "autotune.fired"  # native rewrite at the start of every pattern that records its firing


class Pattern:
    """A pattern that is parsed and compiled lazily in the current context.

    Each pattern is compiled separately: MLIR confuses the results of a native constraint that two patterns call.

    Attributes:
        rule: Name of its rule.
        needs: Names of the operations that it requires.
    """

    def __init__(self, pattern: RulePattern, functions: "Functions") -> None:
        self.rule = pattern.rule
        self.needs = pattern.needs
        self._text = pattern.text
        self._functions = functions
        self._compiled: FrozenRewritePatternSet | None = None

    def compiled(self) -> FrozenRewritePatternSet:
        """Return the pattern as a frozen pattern set."""
        if self._compiled is None:
            module = parse(self._text, self.rule)
            tell(module.body.operations[0].operation, self.rule)
            pdl_module = PDLModule(module)
            for name, function in self._functions.conditions.items():
                pdl_module.register_constraint_function(name, function)
            for name, writer in self._functions.writers.items():
                pdl_module.register_rewrite_function(name, writer)
            self._compiled = pdl_module.freeze()
        return self._compiled


class Functions:
    """Native functions as callbacks of the bindings: constraints return true for failure, and must not raise.

    Attributes:
        firings: List that firings are appended to; each driver sets its own.
        error: First exception of a constraint or rewrite; `None` if there was none.
        conditions: Native constraints by name.
        writers: Native rewrites by name.
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
                result = apply(*map(plain, values))
            except Exception as error:
                self.error = self.error or error
                return True
            if result is None or result is False:
                return True
            for each in result if isinstance(result, tuple) else () if result is True else (result,):
                results.append(each)
            return False

        return check

    def _writer(self, apply: Callable[..., Any]) -> Callable[..., None]:
        def write(rewriter: PatternRewriter, results: PDLResultList, values: Sequence[object]) -> None:
            try:
                results_ = apply(rewriter, *map(plain, values))
            except Exception as error:  # the driver aborts, and the module is discarded
                self.error = self.error or error
                raise
            for each in results_ if isinstance(results_, tuple) else (results_,):
                results.append(each)

        return write


def patterns_of(book: RuleBook) -> tuple[list[Pattern], Functions]:
    """Return the patterns of rules in order of decreasing benefit, and the functions that they call."""
    functions = Functions()
    return [Pattern(each, functions) for each in sorted(book.patterns, key=lambda each: -each.benefit)], functions


def plain(value: object) -> object:
    """Convert an OpView to its operation, and an attribute or value to its concrete class."""
    if isinstance(value, ir.OpView):
        return value.operation
    return value.maybe_downcast() if isinstance(value, (ir.Attribute, ir.Value)) else value


def tell(pattern: ir.Operation, rule: str) -> None:
    """Insert a native call at the start of a pattern's rewrite that records the firing and its root operation."""
    for op in pattern.regions[0].blocks[0].operations:
        if op.operation.name == REWRITE:
            name = ir.StringAttr.get(rule)
            with ir.InsertionPoint.at_block_begin(op.operation.regions[0].blocks[0]), ir.Location.unknown():
                attribute = pdl.AttributeOp(value=name)
                pdl.ApplyNativeRewriteOp([], FIRED, [op.operation.operands[0], attribute.result])
