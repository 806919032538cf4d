"""Schedules applied: every rewrite and the script, a step at a time."""

from collections.abc import Iterable, Iterator

from autotune.compiler.lowering.rewrites import REWRITES, SCRIPT, Rewrite, Unit
from autotune.registry import REWRITES as GROUP
from autotune.registry import complain, loaded_points

# Those of features are parts of steps. They are loaded with this module, once for all processes that are forked.
KNOWN = (*REWRITES, *(rewrite for _, rewrite in loaded_points(GROUP, Rewrite, complain)))
STEPS = {each.name: each for each in REWRITES if each.is_step}
ARENA, REGIONS = "arena", "regions"  # the steps that stand in pass pipelines
SCHEDULING = tuple(name for name in STEPS if name not in (ARENA, REGIONS))  # in order
BEFORE_SCRIPT = SCHEDULING[: SCHEDULING.index(SCRIPT)]
UNASKED = tuple(each for each in REWRITES if each.version and (each.is_step or each.least_threads > 1))
ASKED = tuple(each for each in KNOWN if each.version and each not in UNASKED)


def take_step(unit: Unit, name: str) -> None:
    """Apply a step with its parts, as far as a unit asks for them."""
    step = STEPS[name]
    first = (each for each in KNOWN if each.before == name)
    last = (each for each in KNOWN if each.behind == name)
    for each in (*first, step, *last):
        if each.needed(unit):
            each.apply(unit)


def rewrite(unit: Unit) -> Iterator[str]:
    """Apply the rewrites before the script, the script, and those after it, one a step, each with its parts.

    Yields:
        The name of what was applied.

    Raises:
        CompileError: Stage ``transform``; an op is not what its schedule takes it for, or the interpreter refuses.
    """
    for name in SCHEDULING:
        take_step(unit, name)
        yield name


def rewrites_on(threads: int) -> tuple[str, ...]:
    """The rewrites that decide, besides its script, which program of so many threads a candidate becomes."""
    return tuple(str(each) for each in UNASKED if threads >= each.least_threads)


def asked_for(unit: Unit) -> tuple[str, ...]:
    """Names and versions of the rewrites that a unit asks for, besides those that all go through."""
    return tuple(dict.fromkeys(str(each) for each in ASKED if each.needed(unit)))


def rewrites_now(threads: int, recorded: Iterable[str]) -> tuple[str, ...]:
    """What `rewrites_on` gives, and of those that only some units ask for, such as a record names.

    Args:
        threads: Threads that parallel loops run on.
        recorded: Rewrites as ``name@version``.
    """
    names = {each.partition("@")[0] for each in recorded}
    return (*rewrites_on(threads), *dict.fromkeys(str(each) for each in ASKED if each.name in names))


def apply_schedule(unit: Unit) -> None:
    """Take all steps of `rewrite`; a unit without a script stays as it is."""
    if unit.script is not None:
        for _ in rewrite(unit):
            pass
