"""Verification of a user's rules before a search: the rewritten payload must compute the same results."""

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
from autotune.core.trial import INCONCLUSIVE, RIGHT

ONCE = Effort(samples=1, seconds=0.0)
BUDGET_SECONDS = 120.0  # for one run of the plain lowering


def prove_rules(payload: Payload, parts: Partition, machine: Machine, seed: int, worker: Bench) -> tuple[str, ...]:
    """Run the payload that a user's rules rewrite, by the plain lowering, and compare it with the oracle.

    Args:
        payload: Payload with its rules.
        parts: Partition of the rewritten payload.
        machine: The host.
        seed: Seed of the input data.
        worker: Bench to run it in.

    Returns:
        Notes on the rules, a sentence each.

    Raises:
        RuleError: The rewritten payload computes other results, or does not compile; the error names the rule.
    """
    rewriting = parts.rewriting
    notes = replace(rewriting, rules=()).notes if not payload.rules.ours else rewriting.notes
    if not payload.rules.source or not rewriting.firings:
        return notes
    evaluation = run_plain(payload, rewriting.after, machine, seed, worker)
    if evaluation.outcome in RIGHT:
        return notes
    message = f"{evaluation.outcome}: {evaluation.diagnostic}"
    if evaluation.outcome in INCONCLUSIVE:
        return (*notes, f"rules are proved with the whole alone: before the search that was {message}")
    names = ", ".join(guilty(payload, rewriting, machine, seed, worker))
    raise RuleError(f"rules must change no result, {names} of {payload.rules.source} did ({message}); mend or drop it")


def guilty(payload: Payload, rewriting: Rewriting, machine: Machine, seed: int, worker: Bench) -> list[str]:
    """Return the rules whose removal alone makes the payload correct; all that fired if there is no such rule."""
    theirs = {rule.name for rule in rewriting.rules if rule.source}
    fired = [name for name in rewriting.counts if name in theirs] or list(rewriting.counts)
    culprits = []
    for name in fired if len(fired) > 1 else ():
        without = rewriting_of(without_rules(payload, (name,)))
        text = without.after or payload.text
        if run_plain(payload, text, machine, seed, worker).outcome in RIGHT:
            culprits.append(name)
    return culprits or fired


def run_plain(payload: Payload, text: str, machine: Machine, seed: int, worker: Bench) -> Evaluation:
    """Run a text by the plain lowering and compare it with a payload's oracle."""
    job = Job(payload, (Candidate(None, PLAIN, text),), machine, seed, ONCE)
    (evaluation,) = worker.evaluate(job, BUDGET_SECONDS)
    return evaluation
