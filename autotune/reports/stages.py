"""What `show` can print: the stages of a compilation, and those that plug-ins add."""

from autotune.compiler.lowering.stages import COMPILED
from autotune.core.errors import PayloadError
from autotune.core.plugs.verb import ShownStage
from autotune.registry import STAGES, loaded_points

REWRITTEN = "rewritten"
OWN = ("dialect", "payload", REWRITTEN, "tasks", "space", "schedule", *COMPILED[:-1], "asm", COMPILED[-1])


def plugged_stages() -> dict[str, ShownStage]:
    """Stages of plug-ins by name.

    Raises:
        PayloadError: One does not load.
    """
    return {point.name: stage for point, stage in loaded_points(STAGES, ShownStage, refuse)}


def refuse(message: str) -> None:
    """Refuse a plug-in that does not load."""
    raise PayloadError(message)


def stages() -> tuple[str, ...]:
    """Names of all stages, in the order of the flow."""
    names = list(OWN)
    for name, stage in plugged_stages().items():
        names.insert(names.index(stage.after) + 1 if stage.after in names else len(names), name)
    return tuple(names)
