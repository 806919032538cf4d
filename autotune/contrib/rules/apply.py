"""Applying rules: one firing at a time, until none fires, with every step seen. In the isolated process.

Upstream's greedy driver matches; it is let go for one rewrite a time, without folding, so that each step has a name,
what it leaves can be verified, and a module that was there before is a circle. On most payloads nothing fires, and they
stay as they are, to the letter: all this is done to a copy.
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

FIRINGS = 1000  # that any set may need, besides one an op of the payload
FUSED = "builtin.module(func.func(linalg-fuse-elementwise-ops),canonicalize)"
SHOWN = 6  # names of a circle, or of the last steps before the bound


def rewrite(module: ir.Module, rules: Rules) -> tuple[ir.Module, Rewriting]:
    """Apply rules to a payload's module until none fires.

    Args:
        module: The module; it stays as it is.
        rules: The rules.

    Returns:
        The module itself where nothing fired, else another one; and what fired.

    Raises:
        RuleError: The rules cannot be read, come to no end, or leave a module that no payload may be.
    """
    if not rules.ours and not rules.source:
        return module, Rewriting()
    book = open_rules(rules)
    if not may_fire(book, module):
        return module, Rewriting(book.rules)
    driver = Driver(book, copy_module(module))
    driver.run()
    beyond = driver.beside(fused(driver.module))
    if may_fire(book, beyond.module) and str(beyond.module) != str(driver.module):  # on which none fires any more
        beyond.run()
    if len(beyond.firings) > len(driver.firings):
        driver = beyond
    if not driver.firings:
        return module, Rewriting(book.rules)
    if rules.source and (fault := program_fault(driver.module)) is not None:
        names = ", ".join(dict.fromkeys(firing.rule for firing in driver.firings))
        raise RuleError(f"a payload {fault}, after {names}; mend the rule")
    found = Rewriting(book.rules, tuple(driver.firings), str(module), str(driver.module), book.text)
    return driver.module, found


def may_fire(book: RuleBook, module: ir.Module) -> bool:
    """Return whether a module has all ops that some pattern asks for."""
    there = every_name(module)
    return any(there.issuperset(pattern.needs) for pattern in book.patterns)


def fused(module: ir.Module) -> ir.Module:
    """A copy in which operations on elements that follow each other share a body, where rules of bodies see them."""
    copy = copy_module(module)
    run_passes(copy, FUSED)
    return copy


class Driver:
    """Patterns on their way over a module, which changes in place.

    Args:
        book: The rules.
        module: The module.
        beside: Driver of another module in the same context, whose patterns are compiled.

    Attributes:
        module: The module.
        firings: What fired so far, in order.
        most: Number of firings after which the rules count as endless.
    """

    def __init__(self, book: RuleBook, module: ir.Module, beside: "Driver | None" = None) -> None:
        self.module = module
        self._book = book
        self.most = FIRINGS + sum(1 for _ in every_op(module))
        self._signatures = signatures(module)
        self.firings: list[Firing] = list(beside.firings) if beside is not None else []
        self._names = set[str]()
        given = (beside._patterns, beside._functions) if beside is not None else patterns_of(book)
        self._patterns: list[Pattern] = given[0]
        self._functions: Functions = given[1]
        self._config = GreedyRewriteConfig()
        self._config.max_iterations = 1
        self._config.max_num_rewrites = 1
        self._config.enable_folding = False
        self._config.enable_constant_cse = False
        self._config.region_simplification_level = GreedySimplifyRegionLevel.DISABLED

    def beside(self, module: ir.Module) -> "Driver":
        """What goes on with another module after the same firings; one of the two runs at a time."""
        return Driver(self._book, module, self)

    def run(self) -> None:
        """Let rules fire until none does, those of most benefit first.

        Raises:
            RuleError: The rules do not end, or one leaves what breaks a constraint of its ops.
        """
        self._functions.firings = self.firings
        seen, self._names = {self._digest(): 0}, every_name(self.module)
        count = -1
        while len(self.firings) > count:
            count = len(self.firings)
            for pattern in self._patterns:
                self._exhaust(pattern, seen)

    def _exhaust(self, pattern: Pattern, seen: dict[str, int]) -> None:
        """Let a pattern fire until it does not."""
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
        """Let a pattern fire once; returns whether it did."""
        count = len(self.firings)
        try:
            apply_greedily(self.module, pattern.compiled(), self._config)
        except Exception as error:
            if self._functions.error is None and not isinstance(error, RuntimeError):
                raise  # that is no word of its being stopped before it converged
        if self._functions.error is not None:
            why = one_line(str(self._functions.error))[:200]
            raise RuleError(f"rule {pattern.rule} must be applicable, {why}; mend it")
        self._names = every_name(self.module)  # also of what did not fire, so that they are those of the module
        return len(self.firings) > count

    def _verify(self) -> None:
        try:
            self.module.operation.verify()
        except ir.MLIRError as error:
            where = self.firings[-1]
            raise RuleError(f"a rule must leave valid IR, {where} does not{describe(error)}; mend the rule") from error
        if signatures(self.module) != self._signatures:
            raise RuleError(f"a rule must leave functions as they are, {self.firings[-1]} does not; mend the rule")

    def _digest(self) -> str:
        return sha256(str(self.module).encode()).hexdigest()


def signatures(module: ir.Module) -> dict[str | None, str]:
    """Type of every function of a module, by name."""
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    return {symbol(op): str(op.attributes["function_type"]) for op in functions}


def circle(firings: Sequence[Firing]) -> str:
    """A sentence on rules that came back to where they were."""
    shown = " -> ".join(map(str, firings[:SHOWN]))
    rest = f" -> {len(firings) - SHOWN} more" if len(firings) > SHOWN else ""
    return f"{shown}{rest} leads back to where it began"


def rewrite_text(text: str, name: str, rules: Rules) -> Rewriting:
    """What rules make of a payload's text; makes a context of its own.

    Raises:
        CompileError: The text does not parse.
        RuleError: The rules are refused, as by `rewrite`.
    """
    with context():
        return rewrite(parse(text, name), rules)[1]
