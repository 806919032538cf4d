"""Rewrite rules as data: the rules applied to a payload before partitioning, their descriptions, and their firings."""

from collections import Counter
from dataclasses import dataclass, replace

NONE = "none"  # instead of a file: no rules at all


@dataclass(frozen=True)
class Rules:
    """Selection of the rules for a payload, not yet parsed.

    Attributes:
        source: Name of the user's file; empty where there is none.
        text: Text of the user's file: patterns in PDL; empty where there is none.
        ours: Whether the built-in rules apply, too.
        exact: Whether rules that change rounding are left out; such rules of the user are refused.
        without: Names of rules that are left out.
    """

    source: str = ""
    text: str = ""
    ours: bool = True
    exact: bool = False
    without: tuple[str, ...] = ()

    def leaving_out(self, *names: str) -> "Rules":
        """Return the selection without some rules."""
        return replace(self, without=(*self.without, *names))

    @property
    def options(self) -> list[str]:
        """Equivalent command-line options, without the names that are left out."""
        arguments = ["--rules", self.source] if self.source else [] if self.ours else ["--rules", NONE]
        return [*arguments, *(["--exact"] if self.exact else [])]


NO_RULES = Rules(ours=False)


@dataclass(frozen=True)
class Rule:
    """Description of a rule.

    Attributes:
        name: Name of the rule; its patterns have this name, or this name with a suffix ``.form``.
        source: Name of the user's file; empty for a built-in rule.
        before: Expression that it matches, in mathematical notation; empty where it is not stated.
        after: Expression that replaces it.
        when: Condition, a sentence or less; empty for none.
        tolerance: Largest difference of results, in float64, relative to the largest value; 0 where rounding does not
            change, `None` where it is not stated.
        is_choice: Whether it is applied only if a measurement shows that it pays off.
    """

    name: str
    source: str = ""
    before: str = ""
    after: str = ""
    when: str = ""
    tolerance: float | None = None
    is_choice: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether it states that rounding does not change."""
        return self.tolerance == 0.0


@dataclass(frozen=True)
class Firing:
    """One application of a rule.

    Attributes:
        rule: Name of the rule.
        line: Line of the replaced op in the payload's text; 0 where an earlier rule created the op.
        op: Name of the replaced op.
    """

    rule: str
    line: int
    op: str

    def __str__(self) -> str:
        return f"{self.rule} at {f'line {self.line}' if self.line else 'what a rule wrote'} ({self.op})"


@dataclass(frozen=True)
class Rewriting:
    """Result of applying rules to a payload.

    Attributes:
        rules: Rules that were tried, the built-in ones first.
        firings: Applications of rules, in order.
        before: Module before the rules; empty where none fired.
        after: Module after the rules; empty where none fired.
        applied: Module of the patterns that were tried; empty where none fired.
    """

    rules: tuple[Rule, ...] = ()
    firings: tuple[Firing, ...] = ()
    before: str = ""
    after: str = ""
    applied: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """Number of firings of each rule that fired, in the order of the first firings."""
        return dict(Counter(firing.rule for firing in self.firings))

    @property
    def choices(self) -> tuple[str, ...]:
        """Names of the optional rules that fired."""
        return tuple(rule.name for rule in self.rules if rule.is_choice and rule.name in self.counts)

    @property
    def silent(self) -> tuple[str, ...]:
        """Names of the user's rules that did not fire."""
        return tuple(rule.name for rule in self.rules if rule.source and rule.name not in self.counts)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user, a sentence each: the rules that fired, and the user's rules that did not."""
        counted = [f"{name} {count} time{'s' if count > 1 else ''}" for name, count in self.counts.items()]
        fired = [f"rules fired: {', '.join(counted)}"] if counted else []
        never = [f"rules that never fired: {', '.join(self.silent)}"] if self.silent else []
        return (*fired, *never)
