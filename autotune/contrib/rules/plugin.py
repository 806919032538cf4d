"""The feature as the engine knows it: the `Rewriter`, and stage `rewritten` of `show`. MLIR is loaded late."""

from pathlib import Path
from typing import Any

from autotune.core.bench import Bench
from autotune.core.host.machine import Machine
from autotune.core.partition import Partition
from autotune.core.scripts.rules import Rewriting, Rules
from autotune.plugins import Payload, PayloadStage


class PdlRewriter:
    """Rules in MLIR's PDL; see `Rewriter`."""

    def read(self, file: str | Path | None, *, exact: bool = False) -> Rules:
        """The rules that a user asks for."""
        from autotune.contrib.rules.files import read_rules

        return read_rules(file, exact=exact)

    def apply(self, module: Any, rules: Rules) -> tuple[Any, Rewriting]:  # noqa: ANN401 - MLIR's module
        """Apply rules to a payload's module."""
        from autotune.contrib.rules.apply import rewrite

        return rewrite(module, rules)

    def check(self, text: str, where: str) -> None:
        """Refuse a text that holds anything but rules."""
        from autotune.contrib.rules.read import parse_rules

        parse_rules(text, where)

    def rewriting(self, payload: Payload) -> Rewriting:
        """What a payload's rules make of it."""
        from autotune.contrib.rules.files import rewriting_of

        return rewriting_of(payload)

    def prove(self, payload: Payload, parts: Partition, machine: Machine, seed: int, worker: Bench) -> tuple[str, ...]:
        """Run what a user's rules leave of a payload beside its oracle."""
        from autotune.contrib.rules.prove import prove_rules

        return prove_rules(payload, parts, machine, seed, worker)

    def choose(
        self, payload: Payload, parts: Partition, machine: Machine, *, floor: float, seed: int, worker: Bench
    ) -> tuple[Payload, Partition, tuple[str, ...]]:
        """Leave out the rules of choice that are not worth it."""
        from autotune.contrib.rules.choose import choose_rules

        return choose_rules(payload, parts, machine, floor=floor, seed=seed, worker=worker)


def describe(payload: Payload) -> tuple[str, str]:
    """A payload after its rules, and what fired where."""
    from autotune.contrib.rules.report import rewritten

    return rewritten(payload)


def differ(payload: Payload, first: str, second: str) -> tuple[str, str]:
    """What rules changed in a payload's text, and what fired where."""
    from autotune.contrib.rules.report import rewriting_difference

    return rewriting_difference(payload, first, second)


REWRITER = PdlRewriter()
REWRITTEN = PayloadStage(describe, differ, after="payload")
