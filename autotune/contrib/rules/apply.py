"""Application of rules to a fixpoint, one rewrite at a time, in the isolated process.

MLIR's greedy driver is limited to one rewrite per call, without folding: each rewrite is then attributed to a rule, its
result is verified, and a module that occurred before reveals a cycle. Rewrites are applied to a copy; if no rule fires,
the payload is unchanged.
"""

from collections.abc import Sequence
from hashlib import sha256

from mlir import ir
from mlir.rewrite import GreedyRewriteConfig, GreedySimplifyRegionLevel
from mlir.rewrite import apply_patterns_and_fold_greedily as apply_greedily

from autotune.compiler.ir.limits import program_fault
from autotune.compiler.ir.module import context, copy_module, describe, every_name, every_op, parse, run_passes, symbol
from autotune.contrib.rules.patterns import Functions, Pattern, patterns_of
from autotune.contrib.rules.read import RuleBook, open_rules
from autotune.core.errors import RuleError
from autotune.core.printable import one_line
from autotune.core.scripts.rules import Firing, Rewriting, Rules

FIRINGS = 1000  # allowed for any rules, in addition to one for each operation of the payload
FUSED = "builtin.module(func.func(linalg-fuse-elementwise-ops),canonicalize)"
SHOWN = 6  # rule names shown of a cycle, or before the limit


def rewrite(module: ir.Module, rules: Rules) -> tuple[ir.Module, Rewriting]:
    """Apply rules to a payload's module until none fires.

    Args:
        module: Module of the payload; it is not modified.
        rules: Rules to apply.

    Returns:
        The module itself if nothing fired, else a rewritten copy; and a record of what fired.

    Raises:
        RuleError: The rules cannot be read, do not terminate, or leave an invalid payload.
    """
    if not rules.ours and not rules.source:
        return module, Rewriting()
    book = open_rules(rules)
    if not may_fire(book, module):
        return module, Rewriting(book.rules)
    driver = Driver(book, copy_module(module))
    driver.run()
    fused_driver = driver.beside(fused(driver.module))
    if may_fire(book, fused_driver.module) and str(fused_driver.module) != str(driver.module):  # at its fixpoint
        fused_driver.run()
    if len(fused_driver.firings) > len(driver.firings):
        driver = fused_driver
    if not driver.firings:
        return module, Rewriting(book.rules)
    if rules.source and (fault := program_fault(driver.module)) is not None:
        names = ", ".join(dict.fromkeys(firing.rule for firing in driver.firings))
        raise RuleError(f"a payload {fault}, after {names}; mend the rule")
    rewriting = Rewriting(book.rules, tuple(driver.firings), str(module), str(driver.module), book.text)
    return driver.module, rewriting


def may_fire(book: RuleBook, module: ir.Module) -> bool:
    """Return whether a module has all operations that some pattern requires."""
    present = every_name(module)
    return any(present.issuperset(pattern.needs) for pattern in book.patterns)


def fused(module: ir.Module) -> ir.Module:
    """Return a copy with elementwise operations fused, so that rules can match combined bodies."""
    copy = copy_module(module)
    run_passes(copy, FUSED)
    return copy


class Driver:
    """Applies patterns to a module in place.

    Args:
        book: Rules to apply.
        module: Module to rewrite.
        beside: Driver of another module in the same context, whose compiled patterns and firings are reused.

    Attributes:
        module: Module that is rewritten.
        firings: Rules that fired so far, in order.
        most: Number of firings after which the rules are considered nonterminating.
    """

    def __init__(self, book: RuleBook, module: ir.Module, beside: "Driver | None" = None) -> None:
        self.module = module
        self._book = book
        self.most = FIRINGS + sum(1 for _ in every_op(module))
        self._signatures = signatures(module)
        self.firings: list[Firing] = list(beside.firings) if beside is not None else []
        self._names = set[str]()
        compiled = (beside._patterns, beside._functions) if beside is not None else patterns_of(book)
        self._patterns: list[Pattern] = compiled[0]
        self._functions: Functions = compiled[1]
        self._config = GreedyRewriteConfig()
        self._config.max_iterations = 1
        self._config.max_num_rewrites = 1
        self._config.enable_folding = False
        self._config.enable_constant_cse = False
        self._config.region_simplification_level = GreedySimplifyRegionLevel.DISABLED

    def beside(self, module: ir.Module) -> "Driver":
        """Return a driver for another module that continues after the same firings; only one may run at a time."""
        return Driver(self._book, module, self)

    def run(self) -> None:
        """Apply rules until none fires, in order of decreasing benefit.

        Raises:
            RuleError: The rules do not terminate, or one leaves invalid IR.
        """
        self._functions.firings = self.firings
        seen, self._names = {self._digest(): 0}, every_name(self.module)
        count = -1
        while len(self.firings) > count:
            count = len(self.firings)
            for pattern in self._patterns:
                self._exhaust(pattern, seen)

    def _exhaust(self, pattern: Pattern, seen: dict[str, int]) -> None:
        """Apply a pattern until it does not match."""
        while self._names.issuperset(pattern.needs) and self._step(pattern):
            self._verify()
            digest = self._digest()
            if digest in seen:
                raise RuleError(f"rules must come to an end, {circle(self.firings[seen[digest] :])}; drop one")
            seen[digest] = len(self.firings)
            if len(self.firings) >= self.most:
                last = ", ".join(firing.rule for firing in self.firings[-SHOWN:])
                raise RuleError(f"rules must end after {self.most} firings, the last were {last}; drop one")

    def _step(self, pattern: Pattern) -> bool:
        """Apply a pattern once; return whether it fired."""
        count = len(self.firings)
        try:
            apply_greedily(self.module, pattern.compiled(), self._config)
        except Exception as error:
            if self._functions.error is None and not isinstance(error, RuntimeError):
                raise  # RuntimeError: the driver stopped before it converged
        if self._functions.error is not None:
            why = one_line(str(self._functions.error))[:200]
            raise RuleError(f"rule {pattern.rule} must be applicable, {why}; mend it")
        self._names = every_name(self.module)  # even if nothing fired: the driver may have changed the module
        return len(self.firings) > count

    def _verify(self) -> None:
        try:
            self.module.operation.verify()
        except ir.MLIRError as error:
            firing = self.firings[-1]
            raise RuleError(f"a rule must leave valid IR, {firing} does not{describe(error)}; mend the rule") from error
        if signatures(self.module) != self._signatures:
            raise RuleError(f"a rule must leave functions as they are, {self.firings[-1]} does not; mend the rule")

    def _digest(self) -> str:
        return sha256(str(self.module).encode()).hexdigest()


def signatures(module: ir.Module) -> dict[str | None, str]:
    """Return the type of every function of a module, by name."""
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    return {symbol(op): str(op.attributes["function_type"]) for op in functions}


def circle(firings: Sequence[Firing]) -> str:
    """Describe a cycle of rules in a sentence."""
    shown = " -> ".join(map(str, firings[:SHOWN]))
    rest = f" -> {len(firings) - SHOWN} more" if len(firings) > SHOWN else ""
    return f"{shown}{rest} leads back to where it began"


def rewrite_text(text: str, name: str, rules: Rules) -> Rewriting:
    """Apply rules to a payload's text, in a new context.

    Raises:
        CompileError: The text does not parse.
        RuleError: The rules are rejected, as by `rewrite`.
    """
    with context():
        return rewrite(parse(text, name), rules)[1]
