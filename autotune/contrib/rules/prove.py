"""Rules that a user brings, proved before anything is searched: what they leave of a payload computes the same."""

from dataclasses import replace

from autotune.compiler.passes.pipelines import PLAIN
from autotune.contrib.rules.files import rewriting_of, without_rules
from autotune.core.bench import Bench
from autotune.core.candidate import Candidate
from autotune.core.errors import RuleError
from autotune.core.evaluator import Effort, Evaluation, Job
from autotune.core.host.machine import Machine
from autotune.core.partition import Partition
from autotune.core.payload import Payload
from autotune.core.scripts.rules import Rewriting
from autotune.core.trial import RIGHT, UNTOLD

ONCE = Effort(samples=1, seconds=0.0)
BUDGET_SECONDS = 120.0  # for one run of the plain lowering


def prove_rules(payload: Payload, parts: Partition, machine: Machine, seed: int, worker: Bench) -> tuple[str, ...]:
    """Run what a user's rules leave of a payload, by its plain lowering, beside the oracle.

    Args:
        payload: The payload, with its rules.
        parts: Partition of what they leave.
        machine: The host.
        seed: Seed of the input data.
        worker: Bench to run it in.

    Returns:
        What is to be known of the rules, a sentence each.

    Raises:
        RuleError: What they leave computes something else, or does not compile; the error names the rule.
    """
    rewriting = parts.rewriting
    notes = replace(rewriting, rules=()).notes if not payload.rules.ours else rewriting.notes
    if not payload.rules.source or not rewriting.firings:
        return notes
    found = run_plain(payload, rewriting.after, machine, seed, worker)
    if found.outcome in RIGHT:
        return notes
    message = f"{found.outcome}: {found.diagnostic}"
    if found.outcome in UNTOLD:
        return (*notes, f"rules are proved with the whole alone: before the search that was {message}")
    names = ", ".join(guilty(payload, rewriting, machine, seed, worker))
    raise RuleError(f"rules must change no result, {names} of {payload.rules.source} did ({message}); mend or drop it")


def guilty(payload: Payload, rewriting: Rewriting, machine: Machine, seed: int, worker: Bench) -> list[str]:
    """Rules without any one of which the payload is right; all that fired where there is no such rule."""
    theirs = {rule.name for rule in rewriting.rules if rule.source}
    fired = [name for name in rewriting.counts if name in theirs] or list(rewriting.counts)
    found = []
    for name in fired if len(fired) > 1 else ():
        without = rewriting_of(without_rules(payload, (name,)))
        text = without.after or payload.text
        if run_plain(payload, text, machine, seed, worker).outcome in RIGHT:
            found.append(name)
    return found or fired


def run_plain(payload: Payload, text: str, machine: Machine, seed: int, worker: Bench) -> Evaluation:
    """The outcome of the plain lowering of a text beside a payload's oracle."""
    job = Job(payload, (Candidate(None, PLAIN, text),), machine, seed, ONCE)
    (found,) = worker.evaluate(job, BUDGET_SECONDS)
    return found
