"""Interface to the engine: the `Rewriter`, and stage `rewritten` of `show`. MLIR is imported lazily."""

from pathlib import Path
from typing import Any

from autotune.core.bench import Bench
from autotune.core.host.machine import Machine
from autotune.core.partition import Partition
from autotune.core.scripts.rules import Rewriting, Rules
from autotune.plugins import Payload, PayloadStage


class PdlRewriter:
    """The `Rewriter` of rules in MLIR's PDL."""

    def read(self, file: str | Path | None, *, exact: bool = False) -> Rules:
        """Read the rules of a file."""
        from autotune.contrib.rules.files import read_rules

        return read_rules(file, exact=exact)

    def apply(self, module: Any, rules: Rules) -> tuple[Any, Rewriting]:  # noqa: ANN401 - MLIR's module
        """Apply rules to a payload's module."""
        from autotune.contrib.rules.apply import rewrite

        return rewrite(module, rules)

    def check(self, text: str, where: str) -> None:
        """Check that a text contains valid rules only."""
        from autotune.contrib.rules.read import parse_rules

        parse_rules(text, where)

    def rewriting(self, payload: Payload) -> Rewriting:
        """Apply a payload's rules, in the isolated process."""
        from autotune.contrib.rules.files import rewriting_of

        return rewriting_of(payload)

    def prove(self, payload: Payload, parts: Partition, machine: Machine, seed: int, worker: Bench) -> tuple[str, ...]:
        """Verify the payload that a user's rules rewrite against its oracle."""
        from autotune.contrib.rules.prove import prove_rules

        return prove_rules(payload, parts, machine, seed, worker)

    def choose(
        self, payload: Payload, parts: Partition, machine: Machine, *, floor: float, seed: int, worker: Bench
    ) -> tuple[Payload, Partition, tuple[str, ...]]:
        """Drop the optional rules without which the payload is faster."""
        from autotune.contrib.rules.choose import choose_rules

        return choose_rules(payload, parts, machine, floor=floor, seed=seed, worker=worker)


def describe(payload: Payload) -> tuple[str, str]:
    """Return the rewritten text of a payload, and a line on the rules that fired."""
    from autotune.contrib.rules.report import rewritten

    return rewritten(payload)


def differ(payload: Payload, first: str, second: str) -> tuple[str, str]:
    """Return a diff of a payload's text before and after its rules, and a line on the rules that fired."""
    from autotune.contrib.rules.report import rewriting_difference

    return rewriting_difference(payload, first, second)


REWRITER = PdlRewriter()
REWRITTEN = PayloadStage(describe, differ, after="payload")
