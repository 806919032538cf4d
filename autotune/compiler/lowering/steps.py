"""Apply a schedule: the rewrites and the script, one step at a time."""

from collections.abc import Iterable, Iterator

from autotune.compiler.lowering.rewrites import REWRITES, SCRIPT, Rewrite, Unit
from autotune.registry import REWRITES as GROUP
from autotune.registry import complain, loaded_points

# Rewrites of plugins are parts of steps. They are loaded with this module, once for all forked processes.
KNOWN = (*REWRITES, *(rewrite for _, rewrite in loaded_points(GROUP, Rewrite, complain)))
STEPS = {each.name: each for each in REWRITES if each.is_step}
ARENA, REGIONS = "arena", "regions"  # steps within pass pipelines
SCHEDULING = tuple(name for name in STEPS if name not in (ARENA, REGIONS))  # in order
BEFORE_SCRIPT = SCHEDULING[: SCHEDULING.index(SCRIPT)]
UNREQUESTED = tuple(each for each in REWRITES if each.version and (each.is_step or each.least_threads > 1))
REQUESTED = tuple(each for each in KNOWN if each.version and each not in UNREQUESTED)


def take_step(unit: Unit, name: str) -> None:
    """Apply a step with its parts, as far as a unit requests them."""
    step = STEPS[name]
    first = (each for each in KNOWN if each.before == name)
    last = (each for each in KNOWN if each.behind == name)
    for each in (*first, step, *last):
        if each.needed(unit):
            each.apply(unit)


def rewrite(unit: Unit) -> Iterator[str]:
    """Apply the rewrites before the script, the script, and those after it, step by step.

    Yields:
        The name of the step that was applied.

    Raises:
        CompileError: Stage ``transform``; an op does not match its schedule, or the interpreter fails.
    """
    for name in SCHEDULING:
        take_step(unit, name)
        yield name


def rewrites_on(threads: int) -> tuple[str, ...]:
    """Return the rewrites that apply to all candidates for a number of threads, as ``name@version``."""
    return tuple(str(each) for each in UNREQUESTED if threads >= each.least_threads)


def requested_rewrites(unit: Unit) -> tuple[str, ...]:
    """Return the rewrites, as ``name@version``, that a unit requests besides those applied to all candidates."""
    return tuple(dict.fromkeys(str(each) for each in REQUESTED if each.needed(unit)))


def rewrites_now(threads: int, recorded: Iterable[str]) -> tuple[str, ...]:
    """Return the current versions of `rewrites_on`, and of the recorded rewrites that only some units request.

    Args:
        threads: Threads that run parallel loops.
        recorded: Rewrites of a record as ``name@version``.
    """
    names = {each.partition("@")[0] for each in recorded}
    return (*rewrites_on(threads), *dict.fromkeys(str(each) for each in REQUESTED if each.name in names))


def apply_schedule(unit: Unit) -> None:
    """Apply all steps of `rewrite`, in place; a unit without a script is left unchanged."""
    if unit.script is not None:
        for _ in rewrite(unit):
            pass
