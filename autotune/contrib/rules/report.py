"""Reports on rules: how often each fires, and the payload before and after."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff

from autotune.contrib.rules.files import rewriting_of, rules_in_force
from autotune.core.payload import Payload
from autotune.core.scripts.rules import Rewriting, Rule
from autotune.registry import PAYLOADS, registered

NUMBERED = re.compile(r"%(?:\d+|c[\w-]+|cst(?:_\d+)?)")  # numbered names, which change after every insertion


@dataclass(frozen=True)
class RuleCount:
    """A rule and its number of firings.

    Attributes:
        rule: The rule.
        fired: Number of firings by name of the payload, without payloads on which it does not fire.
    """

    rule: Rule
    fired: dict[str, int]


def payloads_there_are() -> list[str]:
    """Return the names of all installed payloads."""
    return list(registered(PAYLOADS))


def count_firings(payloads: Sequence[Payload]) -> list[RuleCount]:
    """Count the firings of each rule on payloads with the same rules.

    Raises:
        RuleError: The rules cannot be read or applied.
    """
    rules = rules_in_force(payloads[0].rules)
    counts = {payload.name: rewriting_of(payload).counts for payload in payloads}
    return [
        RuleCount(rule, {name: fired[rule.name] for name, fired in counts.items() if rule.name in fired})
        for rule in rules
    ]


def rounding_of(rule: Rule) -> str:
    """Describe the effect of a rule on rounding: ``exact``, its tolerance, or that it states none."""
    if rule.tolerance is None:
        return "not said"
    return "exact" if rule.is_exact else f"to {rule.tolerance:g}"


def rewritten(payload: Payload) -> tuple[str, str]:
    """Return the rewritten text of a payload, and a line on the rules that fired."""
    rewriting = rewriting_of(payload)
    return rewriting.after or payload.text, note_on(rewriting)


def note_on(rewriting: Rewriting) -> str:
    """Describe which rules fired on which operations in a line."""
    where = "; ".join(map(str, rewriting.firings))
    return f"rules fired {len(rewriting.firings)} times: {where}" if rewriting.firings else "no rule fired"


def rewriting_difference(payload: Payload, first: str, second: str) -> tuple[str, str]:
    """Return a unified diff of a payload's text between two stages, and a line on the rules that fired.

    Both sides are printed by MLIR. Lines that differ only in the numbers of values are considered equal.
    """
    rewriting = rewriting_of(payload)
    sides = {"payload": rewriting.before, "rewritten": rewriting.after}
    lines = unlike(sides[first].splitlines(), sides[second].splitlines(), first, second)
    return "\n".join(lines) or f"{first} and {second} are the same", note_on(rewriting)


def unlike(before: Sequence[str], after: Sequence[str], first: str, second: str) -> Iterator[str]:
    """Yield a unified diff of two texts that ignores the numbers of values."""
    keys = [[NUMBERED.sub("%", line) for line in side] for side in (before, after)]
    normalized = list(after)
    for tag, start, end, after_start, _ in SequenceMatcher(a=keys[0], b=keys[1], autojunk=False).get_opcodes():
        if tag == "equal":
            normalized[after_start : after_start + end - start] = before[start:end]
    return unified_diff(list(before), normalized, first, second, n=3, lineterm="")
