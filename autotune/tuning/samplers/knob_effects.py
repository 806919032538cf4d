"""Knobs without effect: knobs of a family that change nothing in the code."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from autotune.core.space import Value
from autotune.core.trial import Trial

ENOUGH = 3  # groups of trials that differ in one knob alone, before it is said to have no effect


def knobs_without_effect(trials: Sequence[Trial]) -> list[str]:
    """Knobs that made no difference to the code wherever trials differ in them alone.

    Args:
        trials: Trials of one task; what they became is told by their fingerprints, and by those of duplicates' twins.
    """
    names = sorted({name for trial in trials for name in trial.config})
    return [name for name in names if is_dead(name, trials)]


def is_dead(knob: str, trials: Sequence[Trial]) -> bool:
    """Tell whether every value of a knob led to the same code, in at least `ENOUGH` surroundings."""
    became: dict[object, set[str]] = defaultdict(set)
    values: dict[object, set[Value]] = defaultdict(set)
    by_key = {trial.key: trial for trial in trials}
    for trial in trials:
        rest = tuple(sorted((name, value) for name, value in trial.config.items() if name != knob))
        values[rest].add(trial.config.get(knob, ""))
        became[rest].add(code_of(trial, by_key))
    tried = [rest for rest in values if len(values[rest]) > 1]
    return len(tried) >= ENOUGH and all(len(became[rest]) == 1 for rest in tried)


def code_of(trial: Trial, by_key: Mapping[str, Trial]) -> str:
    """What a trial became: the key of the one it is a duplicate of, or its own."""
    return by_key[trial.twin].key if trial.twin in by_key else trial.key
