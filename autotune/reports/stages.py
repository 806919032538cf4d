"""What `show` can print: the stages of a compilation, and those that plug-ins add."""

from autotune.compiler.lowering.stages import COMPILED
from autotune.core.errors import PayloadError
from autotune.core.plugs.verb import PayloadStage, ShownStage
from autotune.registry import PAYLOAD_STAGES, STAGES, loaded_points

OWN = ("dialect", "payload", "tasks", "space", "schedule", *COMPILED[:-1], "asm", COMPILED[-1])


def plugged_stages() -> dict[str, ShownStage]:
    """Stages of plug-ins that a payload has once it is scheduled, by name.

    Raises:
        PayloadError: One does not load.
    """
    return {point.name: stage for point, stage in loaded_points(STAGES, ShownStage, refuse)}


def payload_stages() -> dict[str, PayloadStage]:
    """Stages of plug-ins that a payload has before, by name; raises as `plugged_stages`."""
    return {point.name: stage for point, stage in loaded_points(PAYLOAD_STAGES, PayloadStage, refuse)}


def refuse(message: str) -> None:
    """Refuse a plug-in that does not load."""
    raise PayloadError(message)


def stages() -> tuple[str, ...]:
    """Names of all stages, in the order of the flow."""
    names = list(OWN)
    before = {name: stage.after for name, stage in payload_stages().items()}
    for name, after in (before | {name: stage.after for name, stage in plugged_stages().items()}).items():
        names.insert(names.index(after) + 1 if after in names else len(names), name)
    return tuple(names)
