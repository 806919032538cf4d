"""`Rewriter`: what changes a payload before its tasks are looked for, and `NO_REWRITER`, which changes none."""

from pathlib import Path
from typing import Any, Protocol

from autotune.core.bench import Bench
from autotune.core.errors import RuleError
from autotune.core.host.machine import Machine
from autotune.core.partition import Partition
from autotune.core.payload import Payload
from autotune.core.scripts.rules import NO_RULES, NONE, Rewriting, Rules


class Rewriter(Protocol):
    """Rewrite rules on payloads: the entry point ``rules`` of ``autotune.rewriters``."""

    def read(self, file: str | Path | None, *, exact: bool = False) -> Rules:
        """The rules that a user asks for, checked before anything is done with them.

        Args:
            file: File of rules; ``none`` for no rules at all, `None` for those that come with the rewriter.
            exact: Leave out rules that change rounding.

        Raises:
            RuleError: The file cannot be read, or holds no rules.
        """
        ...

    def apply(self, module: Any, rules: Rules) -> tuple[Any, Rewriting]:  # noqa: ANN401 - MLIR's module
        """Apply rules to a payload's module, in the isolated process.

        Returns:
            The module itself where nothing fired, else another one; and what fired.

        Raises:
            RuleError: The rules cannot be applied.
        """
        ...

    def check(self, text: str, where: str) -> None:
        """Refuse a text that holds anything but rules, in the isolated process.

        Raises:
            RuleError: The text does.
        """
        ...

    def rewriting(self, payload: Payload) -> Rewriting:
        """What a payload's rules make of it, in a process of its own.

        Raises:
            RuleError: The rules cannot be applied, or the process fails over one; the error names it.
        """
        ...

    def prove(self, payload: Payload, parts: Partition, machine: Machine, seed: int, worker: Bench) -> tuple[str, ...]:
        """Run what a user's rules leave of a payload beside its oracle; notes, a sentence each.

        Raises:
            RuleError: What they leave computes something else.
        """
        ...

    def choose(
        self, payload: Payload, parts: Partition, machine: Machine, *, floor: float, seed: int, worker: Bench
    ) -> tuple[Payload, Partition, tuple[str, ...]]:
        """Leave out the rules that are not worth it: the payload without them, its partition, and notes.

        Raises:
            RuleError: There are more to choose among than can be tried.
        """
        ...


class NoRewriter:
    """What stands in for a `Rewriter` where none is installed: payloads stay as they are, rules are refused."""

    def read(self, file: str | Path | None, *, exact: bool = False) -> Rules:
        """No rules; a file of some is refused."""
        if file is not None and str(file) != NONE:
            refuse(str(file))
        return Rules(exact=exact) if file is None else NO_RULES

    def apply(self, module: Any, rules: Rules) -> tuple[Any, Rewriting]:  # noqa: ANN401 - MLIR's module
        """The module itself."""
        if rules.source:
            refuse(rules.source)
        return module, Rewriting()

    def check(self, text: str, where: str) -> None:
        """Refuse any rules."""
        refuse(where)

    def rewriting(self, payload: Payload) -> Rewriting:
        """Nothing."""
        return Rewriting()

    def prove(self, payload: Payload, parts: Partition, machine: Machine, seed: int, worker: Bench) -> tuple[str, ...]:
        """Nothing is to be proved."""
        return ()

    def choose(
        self, payload: Payload, parts: Partition, machine: Machine, *, floor: float, seed: int, worker: Bench
    ) -> tuple[Payload, Partition, tuple[str, ...]]:
        """Nothing is to be chosen."""
        return payload, parts, ()


def refuse(where: str) -> None:
    """Refuse rules, for want of what applies them.

    Raises:
        RuleError: Always.
    """
    raise RuleError(f"rules need an entry point of autotune.rewriters, none is installed for {where}; install one")


NO_REWRITER = NoRewriter()
