"""Users' rule files: they are read here, and parsed in the isolated process only."""

from dataclasses import replace
from pathlib import Path

from autotune.contrib.rules.apply import rewrite_text
from autotune.contrib.rules.read import describe_rules
from autotune.core.errors import AutotuneError, RuleError
from autotune.core.evaluator import Evaluation
from autotune.core.host.files import read_text
from autotune.core.payload import Payload
from autotune.core.printable import one_line
from autotune.core.scripts.rules import NO_RULES, NONE, Rewriting, Rule, Rules
from autotune.worker.isolation.limits import READ_SECONDS, SCRIPT_SECONDS
from autotune.worker.loading.reading import bare, read_apart, reader

MOST_BYTES = 1 << 20
REQUIREMENT = "be rules that MLIR takes and applies to an end, it {}"


def read_rules(file: str | Path | None, *, exact: bool = False) -> Rules:
    """Read and check the rules of a file.

    Args:
        file: File of patterns; ``none`` for no rules at all, `None` for the built-in rules.
        exact: Whether to drop rules that change rounding.

    Raises:
        RuleError: The file cannot be read, or contains no valid rules.
    """
    if file is None:
        return Rules(exact=exact)
    if str(file) == NONE:
        return NO_RULES
    text = read_text(file, MOST_BYTES, "rules must be a readable file of MLIR's PDL", RuleError)
    rules = Rules(one_line(str(file)), text, exact=exact)
    rules_in_force(rules)
    return rules


def rules_in_force(rules: Rules) -> tuple[Rule, ...]:
    """Return the descriptions of the active rules.

    Raises:
        RuleError: The user's text contains no valid rules.
    """
    return read_apart(
        describe_rules, rules, rules.source or "rules", RuleError, requirement=REQUIREMENT, seconds=SCRIPT_SECONDS
    )


def rewriting_of(payload: Payload) -> Rewriting:
    """Apply a payload's rules, in the isolated process.

    Raises:
        RuleError: The rules cannot be applied, do not terminate, crash, or leave an invalid payload.
    """
    rewriting = reader().call(rewrite_here, bare(payload), READ_SECONDS)
    if not isinstance(rewriting, Evaluation):
        return rewriting
    names = [rule.name for rule in rules_in_force(payload.rules) if rule.source]
    guilty = [
        name for name in names if not stands(without_rules(payload, tuple(each for each in names if each != name)))
    ]
    message = f"{rewriting.outcome}: {rewriting.diagnostic}"
    source = payload.rules.source or payload.name
    raise RuleError(
        f"rules must not crash the compiler, {', '.join(guilty) or 'those'} of {source} did not ({message})"
    )


def stands(payload: Payload) -> bool:
    """Return whether the process survives the application of a payload's rules."""
    try:
        return not isinstance(reader().call(rewrite_here, bare(payload), READ_SECONDS), Evaluation)
    except AutotuneError:
        return True


def rewrite_here(payload: Payload) -> Rewriting:
    """Apply a payload's rules, in this process."""
    return rewrite_text(payload.text, payload.name, payload.rules)


def without_rules(payload: Payload, names: tuple[str, ...]) -> Payload:
    """Return a payload with the named rules excluded."""
    return replace(payload, rules=payload.rules.leaving_out(*names))
