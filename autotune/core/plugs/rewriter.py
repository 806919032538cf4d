"""`Rewriter`: interface that applies rewrite rules to a payload before partitioning; `NO_REWRITER` applies none."""

from pathlib import Path
from typing import Any, Protocol

from autotune.core.bench import Bench
from autotune.core.errors import RuleError
from autotune.core.host.machine import Machine
from autotune.core.partition import Partition
from autotune.core.payload import Payload
from autotune.core.scripts.rules import NO_RULES, NONE, Rewriting, Rules


class Rewriter(Protocol):
    """Application of rewrite rules to payloads: the entry point ``rules`` of ``autotune.rewriters``."""

    def read(self, file: str | Path | None, *, exact: bool = False) -> Rules:
        """Read and validate the rules that a user selects.

        Args:
            file: File of rules; ``none`` for no rules at all, `None` for those that come with the rewriter.
            exact: Whether rules that change rounding are left out.

        Raises:
            RuleError: The file cannot be read, or contains no rules.
        """
        ...

    def apply(self, module: Any, rules: Rules) -> tuple[Any, Rewriting]:  # noqa: ANN401 - MLIR's module
        """Apply rules to a payload's module, in the isolated process.

        Returns:
            The module itself where no rule fired, else a new one; and the firings.

        Raises:
            RuleError: The rules cannot be applied.
        """
        ...

    def check(self, text: str, where: str) -> None:
        """Raise unless a text contains rules only, in the isolated process.

        Raises:
            RuleError: The text contains anything else.
        """
        ...

    def rewriting(self, payload: Payload) -> Rewriting:
        """Apply a payload's rules in a process of its own, and return the result.

        Raises:
            RuleError: The rules cannot be applied, or the process fails in one; the error names it.
        """
        ...

    def prove(self, payload: Payload, parts: Partition, machine: Machine, seed: int, worker: Bench) -> tuple[str, ...]:
        """Verify the payload after a user's rules against its oracle, and return notes, a sentence each.

        Raises:
            RuleError: The rules changed the results.
        """
        ...

    def choose(
        self, payload: Payload, parts: Partition, machine: Machine, *, floor: float, seed: int, worker: Bench
    ) -> tuple[Payload, Partition, tuple[str, ...]]:
        """Measure the optional rules, and return the payload without unprofitable ones, its partition, and notes.

        Raises:
            RuleError: There are too many combinations to try.
        """
        ...


class NoRewriter:
    """Stand-in for a `Rewriter` where none is installed: payloads are unchanged, rules are refused."""

    def read(self, file: str | Path | None, *, exact: bool = False) -> Rules:
        """Return no rules; refuse a file of rules."""
        if file is not None and str(file) != NONE:
            refuse(str(file))
        return Rules(exact=exact) if file is None else NO_RULES

    def apply(self, module: Any, rules: Rules) -> tuple[Any, Rewriting]:  # noqa: ANN401 - MLIR's module
        """Return the module itself; refuse a user's rules."""
        if rules.source:
            refuse(rules.source)
        return module, Rewriting()

    def check(self, text: str, where: str) -> None:
        """Refuse any rules."""
        refuse(where)

    def rewriting(self, payload: Payload) -> Rewriting:
        """Return an empty result."""
        return Rewriting()

    def prove(self, payload: Payload, parts: Partition, machine: Machine, seed: int, worker: Bench) -> tuple[str, ...]:
        """Return no notes: there are no rules to verify."""
        return ()

    def choose(
        self, payload: Payload, parts: Partition, machine: Machine, *, floor: float, seed: int, worker: Bench
    ) -> tuple[Payload, Partition, tuple[str, ...]]:
        """Return the payload and its partition: there are no rules to choose among."""
        return payload, parts, ()


def refuse(where: str) -> None:
    """Refuse rules, since no rewriter is installed.

    Raises:
        RuleError: Always.
    """
    raise RuleError(f"rules need an entry point of autotune.rewriters, none is installed for {where}; install one")


NO_REWRITER = NoRewriter()
