"""Schedules applied: every rewrite and the script, a step at a time."""

from collections.abc import Iterable, Iterator

from autotune.compiler.lowering.rewrites import (
    AFTER_SCRIPT,
    BEFORE_SCRIPT,
    OPTIONAL,
    SCRIPT,
    Rewrite,
    Unit,
    rewrites_on,
)
from autotune.compiler.script.apply import run_script
from autotune.registry import REWRITES, complain, loaded_points

# Those of features, too. They are loaded with this module, once for all processes that are forked.
PARTS = (*OPTIONAL, *(rewrite for _, rewrite in loaded_points(REWRITES, Rewrite, complain)))
RUN_SCRIPT = Rewrite(SCRIPT, 0, lambda unit: run_script(unit.module, unit.script, unit.text or "", unit.source))


def rewrite(unit: Unit) -> Iterator[str]:
    """Apply the rewrites before the script, the script, and those after it, one a step, each with its parts.

    Yields:
        The name of what was applied.

    Raises:
        CompileError: Stage ``transform``; an op is not what its schedule takes it for, or the interpreter refuses.
    """
    for step in (*BEFORE_SCRIPT, RUN_SCRIPT, *AFTER_SCRIPT):
        for each in in_step(step):
            if each.needed(unit):
                each.apply(unit)
        yield step.name


def in_step(step: Rewrite) -> tuple[Rewrite, ...]:
    """A step with its parts, in order."""
    first = (each for each in PARTS if each.before == step.name)
    last = (each for each in PARTS if each.behind == step.name)
    return (*first, step, *last)


def asked_for(unit: Unit) -> tuple[str, ...]:
    """Names and versions of the rewrites that a unit asks for, besides those that all go through."""
    return tuple(dict.fromkeys(str(part) for part in PARTS if part.needed(unit)))


def rewrites_now(threads: int, recorded: Iterable[str]) -> tuple[str, ...]:
    """What `rewrites_on` gives, and of those that only some units ask for, such as a record names.

    Args:
        threads: Threads that parallel loops run on.
        recorded: Rewrites as ``name@version``.
    """
    names = {each.partition("@")[0] for each in recorded}
    return (*rewrites_on(threads), *dict.fromkeys(str(part) for part in PARTS if part.name in names))


def apply_schedule(unit: Unit) -> None:
    """Take all steps of `rewrite`; a unit without a script stays as it is."""
    if unit.script is not None:
        for _ in rewrite(unit):
            pass
