"""Combinations of options in which one would have no effect: verbs refuse them instead of ignoring it."""

from collections.abc import Collection

from autotune.core.errors import OptionError

# By verb and option: options of which at least one must be given as well.
NEEDS: dict[str, dict[str, tuple[str, ...]]] = {
    "replay": {
        "--trials": ("--retune",),
        "--output": ("--emit", "--retune", "--store"),
        "--family": ("--store",),
    },
    "explain": {"--baseline": ("--steps",)},
}
# By verb and option: options that have no effect next to it.
WITHOUT: dict[str, dict[str, tuple[str, ...]]] = {
    "replay": {"--emit": ("--retune", "--store", "--payload", "--json", "--timeout")},
    "show": {"--diff": ("--family",)},
    "explain": {"--against": ("--steps",)},
    "inspect": {"--why": ("--full", "--top"), "--compare": ("--full", "--top")},
}


def check_together(verb: str, options: Collection[str]) -> None:
    """Refuse an option that would have no effect.

    Args:
        verb: Name of the verb.
        options: Options on the command line, such as ``--trials``.

    Raises:
        OptionError: An option would have no effect.

    Example:
        >>> check_together("replay", {"--retune", "--trials"})
    """
    for option, others in NEEDS.get(verb, {}).items():
        if option in options and not any(other in options for other in others):
            needed = " or ".join(others)
            raise OptionError(f"{option} must go with {needed}, which is missing; add it, or drop {option}")
    for option, others in WITHOUT.get(verb, {}).items():
        idle = [other for other in others if other in options]
        if option in options and idle:
            raise OptionError(f"{idle[0]} has no effect beside {option}; drop one of them")
