"""Rewrite rules as data: which apply to a payload before its tasks are found, what each says, and where it fired."""

from collections import Counter
from dataclasses import dataclass, replace

NONE = "none"  # instead of a file: no rules at all


@dataclass(frozen=True)
class Rules:
    """Rules that apply to a payload, not yet parsed.

    Attributes:
        source: Name of the user's file; empty where there is none.
        text: Text of the user's file: patterns in PDL; empty where there is none.
        ours: Whether the rules that come with the tool apply, too.
        exact: Whether rules that change rounding are left out; a user's own that do are refused.
        without: Names of rules that are left out.
    """

    source: str = ""
    text: str = ""
    ours: bool = True
    exact: bool = False
    without: tuple[str, ...] = ()

    def leaving_out(self, *names: str) -> "Rules":
        """These rules without some."""
        return replace(self, without=(*self.without, *names))

    @property
    def options(self) -> list[str]:
        """What the command line says for the same, without names that are left out."""
        arguments = ["--rules", self.source] if self.source else [] if self.ours else ["--rules", NONE]
        return [*arguments, *(["--exact"] if self.exact else [])]


NO_RULES = Rules(ours=False)


@dataclass(frozen=True)
class Rule:
    """What a rule says of itself.

    Attributes:
        name: Name of the rule; its patterns are called so, or so with ``.form`` behind.
        source: Name of the user's file; empty of a rule that comes with the tool.
        before: What it takes, as people write it; empty where it does not say.
        after: What it makes of that.
        when: Condition, a sentence or less; empty for none.
        tolerance: Largest difference of results, in float64, as a share of the largest value; 0 where nothing is
            rounded otherwise, `None` where it does not say.
        is_choice: Whether it is measured if it is worth it, before it is applied.
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
        """Whether it says that it rounds nothing otherwise."""
        return self.tolerance == 0.0


@dataclass(frozen=True)
class Firing:
    """One time that a rule fired.

    Attributes:
        rule: Name of the rule.
        line: Line of the op that was replaced, in the payload's text; 0 where an earlier rule made the op.
        op: Name of the op.
    """

    rule: str
    line: int
    op: str

    def __str__(self) -> str:
        return f"{self.rule} at {f'line {self.line}' if self.line else 'what a rule wrote'} ({self.op})"


@dataclass(frozen=True)
class Rewriting:
    """What rules made of a payload.

    Attributes:
        rules: Rules that were tried, ours first.
        firings: What fired, in order.
        before: The module as it was; empty where nothing fired.
        after: The module as the rules leave it; empty where nothing fired.
        applied: The patterns that were tried, as one module; empty where nothing fired.
    """

    rules: tuple[Rule, ...] = ()
    firings: tuple[Firing, ...] = ()
    before: str = ""
    after: str = ""
    applied: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """How often each rule fired that did, in the order of their first time."""
        return dict(Counter(firing.rule for firing in self.firings))

    @property
    def choices(self) -> tuple[str, ...]:
        """Names of the rules that fired and that are a choice."""
        return tuple(rule.name for rule in self.rules if rule.is_choice and rule.name in self.counts)

    @property
    def silent(self) -> tuple[str, ...]:
        """Names of the user's rules that did not fire."""
        return tuple(rule.name for rule in self.rules if rule.source and rule.name not in self.counts)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know, a sentence each: which rules fired, and which of the user's own did not."""
        counted = [f"{name} {count} time{'s' if count > 1 else ''}" for name, count in self.counts.items()]
        fired = [f"rules fired: {', '.join(counted)}"] if counted else []
        never = [f"rules that never fired: {', '.join(self.silent)}"] if self.silent else []
        return (*fired, *never)
