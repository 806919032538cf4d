"""Rules shown: what each says of itself and how often it fires, and what they made of a payload."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff

from autotune.contrib.rules.files import rewriting_of, rules_in_force
from autotune.core.payload import Payload
from autotune.core.scripts.rules import Rewriting, Rule
from autotune.registry import PAYLOADS, registered

NUMBERED = re.compile(r"%(?:\d+|c[\w-]+|cst(?:_\d+)?)")  # names that every op behind a change gets anew


@dataclass(frozen=True)
class RuleCount:
    """A rule, and how often it fires.

    Attributes:
        rule: The rule.
        fired: Number of times it fires, by name of the payload; those where it does not are left out.
    """

    rule: Rule
    fired: dict[str, int]


def payloads_there_are() -> list[str]:
    """Names of all installed payloads."""
    return list(registered(PAYLOADS))


def count_firings(payloads: Sequence[Payload]) -> list[RuleCount]:
    """How often each rule fires on some payloads, which have the same rules.

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
    """What a rule does to results: ``exact``, how far they may be apart, or that it does not say."""
    if rule.tolerance is None:
        return "not said"
    return "exact" if rule.is_exact else f"to {rule.tolerance:g}"


def rewritten(payload: Payload) -> tuple[str, str]:
    """The text of a payload as its rules leave it, and a line on what fired where."""
    found = rewriting_of(payload)
    return found.after or payload.text, note_on(found)


def note_on(found: Rewriting) -> str:
    """A line on what fired where."""
    where = "; ".join(map(str, found.firings))
    return f"rules fired {len(found.firings)} times: {where}" if found.firings else "no rule fired"


def rewriting_difference(payload: Payload, first: str, second: str) -> tuple[str, str]:
    """What rules changed in a payload's text as a unified diff, from one stage to the other, and what fired where.

    Both sides are as MLIR prints them. Names of values are numbers, which shift behind every change: lines that differ
    in those alone count as the same.
    """
    found = rewriting_of(payload)
    sides = {"payload": found.before, "rewritten": found.after}
    lines = unlike(sides[first].splitlines(), sides[second].splitlines(), first, second)
    return "\n".join(lines) or f"{first} and {second} are the same", note_on(found)


def unlike(before: Sequence[str], after: Sequence[str], first: str, second: str) -> Iterator[str]:
    """A unified diff of two texts in which numbers of values do not count."""
    keys = [[NUMBERED.sub("%", line) for line in side] for side in (before, after)]
    same = list(after)
    for tag, start, end, other, _ in SequenceMatcher(a=keys[0], b=keys[1], autojunk=False).get_opcodes():
        if tag == "equal":
            same[other : other + end - start] = before[start:end]
    return unified_diff(list(before), same, first, second, n=3, lineterm="")
