"""Content by name, through Python entry points: payloads, schedules, baselines, ... Plug-ins count."""

import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from autotune.core.comparator import Comparator
from autotune.core.errors import AutotuneError, ComparatorError, GenerationError, PayloadError, ScheduleError
from autotune.core.family import Baseline, Family
from autotune.core.generator import Generator
from autotune.core.imported import Importer
from autotune.core.payload import Payload
from autotune.core.task import Task
from autotune.core.technique import Technique

PAYLOADS, SCHEDULES, BASELINES = "autotune.payloads", "autotune.schedules", "autotune.baselines"
COMPARATORS, TECHNIQUES = "autotune.comparators", "autotune.techniques"
GENERATORS, IMPORTERS = "autotune.generators", "autotune.importers"
GROUPS = (PAYLOADS, IMPORTERS, SCHEDULES, TECHNIQUES, BASELINES, COMPARATORS, GENERATORS)


@cache
def registered(group: str) -> dict[str, EntryPoint]:
    """Entry points of a group by name."""
    return {point.name: point for point in sorted(entry_points(group=group), key=lambda point: point.name)}


def parse_spec(spec: str) -> tuple[str, dict[str, str]]:
    """Split ``name,key=value,...`` into its name and parameters.

    Raises:
        PayloadError: A part after the name is not ``key=value``, or a key comes twice.

    Example:
        >>> parse_spec("matmul,m=512,n=64")
        ('matmul', {'m': '512', 'n': '64'})
    """
    name, *parts = spec.split(",")
    parameters: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise PayloadError(
                f"parameters of a payload must read key=value, got {part!r} in {spec!r}; try {name},m=64"
            )
        if key in parameters:
            raise PayloadError(f"a parameter must be given once, got {key!r} twice in {spec!r}; drop one")
        parameters[key] = value
    return name, parameters


def load_payload(spec: str) -> Payload:
    """Build the payload of a registered name with parameters.

    Raises:
        PayloadError: The name is unknown, or its parameters are impossible.
    """
    name, parameters = parse_spec(spec)
    points = registered(PAYLOADS)
    if name not in points:
        close = get_close_matches(name, points, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "give a path ending in .mlir, or see `autotune list`"
        raise PayloadError(f"payload must be one of {', '.join(points)} or a path; got {name!r}; {hint}")
    factory = cast(Callable[[dict[str, str]], Payload], points[name].load())
    return factory(parameters)


def is_registered(spec: str) -> bool:
    """Whether a spec begins with the name of a payload."""
    return spec.partition(",")[0] in registered(PAYLOADS)


def is_importable(spec: str) -> bool:
    """Whether a spec names a file that an importer reads."""
    return suffix_of(spec) in registered(IMPORTERS)


def suffix_of(spec: str) -> str:
    """The suffix of the file that a spec names, without its dot."""
    return Path(spec.partition(",")[0]).suffix.removeprefix(".")


def import_file(spec: str, folder: Path) -> None:
    """Read a model's file into a folder, by the importer of its suffix.

    Args:
        spec: Path of the file, and sizes of dimensions that it leaves open, ``model.onnx,batch=1``.
        folder: Folder to write.

    Raises:
        PayloadError: There is no such importer, or the file cannot be imported.
    """
    name, given = parse_spec(spec)
    points = registered(IMPORTERS)
    if not is_importable(spec):
        raise PayloadError(f"a model must end in one of {', '.join(points)}, mlir; got {name!r}; export it as ONNX")
    wrong = [f"{key}={size}" for key, size in given.items() if not re.fullmatch("[1-9][0-9]{0,9}", size)]
    if wrong:
        raise PayloadError(f"sizes of {name} must be whole numbers of at least 1, got {', '.join(wrong)}; give name=1")
    importer = cast(Importer, points[suffix_of(spec)].load())
    importer(Path(name), folder, {key: int(size) for key, size in given.items()})


@cache
def families() -> tuple[Family, ...]:
    """Every schedule family; those that only step in where no other covers a task come last."""
    loaded = [cast(Family, point.load()) for point in registered(SCHEDULES).values()]
    return tuple(sorted(loaded, key=lambda family: family.fallback))


def family_for(task: Task) -> Family | None:
    """The first family that covers a task; `None` if none does."""
    return next((family for family in families() if family.covers(task)), None)


def load_family(name: str) -> Family:
    """The family called `name`.

    Raises:
        ScheduleError: The family is not installed.
    """
    for family in families():
        if family.name == name:
            return family
    raise ScheduleError(f"schedule must be one of {', '.join(f.name for f in families())}; got {name!r}")


@cache
def load_techniques() -> tuple[Technique, ...]:
    """Every technique, in the order in which one builds on another; those of plug-ins behind."""
    own, *others = sorted(registered(TECHNIQUES).values(), key=lambda point: point.name != "schedules")
    return tuple(t for point in (own, *others) for t in cast(tuple[Technique, ...], point.load()))


def load_baseline(name: str) -> Baseline:
    """The baseline called `name`.

    Raises:
        ScheduleError: The baseline is not installed.
    """
    return cast(Baseline, find_point(BASELINES, "baseline", name, ScheduleError).load())


def load_comparator(name: str) -> Comparator:
    """The comparator called `name`. It imports its library later, when it prepares a payload.

    Raises:
        ComparatorError: The comparator is not installed.
    """
    return cast(Comparator, find_point(COMPARATORS, "comparator", name, ComparatorError).load())


def load_generator(name: str) -> Generator:
    """The generator of the model called `name`.

    Raises:
        GenerationError: There is none.
    """
    return cast(Generator, find_point(GENERATORS, "model", name, GenerationError).load())


def find_point(group: str, kind: str, name: str, error: type[AutotuneError]) -> EntryPoint:
    """The entry point of a group called `name`; `kind` is the word for it in the message.

    Raises:
        AutotuneError: No such entry point is installed; raised as the class `error`.
    """
    points = registered(group)
    if name not in points:
        raise error(f"{kind} must be one of {', '.join(points)}; got {name!r}")
    return points[name]
