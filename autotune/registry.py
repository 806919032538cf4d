"""Content by name, through Python entry points: payloads, schedules, baselines, ... Plug-ins count."""

import hashlib
import os
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
from autotune.core.imported import DESCRIPTION, Importer
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
    """Build the payload a user names.

    Args:
        spec: A registered name with parameters, a path to an ``.mlir`` file or to an imported folder, or
            a model's file, which is then imported once.

    Raises:
        PayloadError: The name is unknown, its parameters are impossible, or a file is no payload.
    """
    name, points = spec.partition(",")[0], registered(PAYLOADS)
    if name in points:
        factory = cast(Callable[[dict[str, str]], Payload], points[name].load())
        return factory(parse_spec(spec)[1])
    if Path(name).suffix.removeprefix(".") in registered(IMPORTERS):
        return load_folder(import_once(spec), spec)
    if (Path(name) / DESCRIPTION).is_file():
        return load_folder(Path(spec), spec)
    if spec.endswith(".mlir") or "/" in name:
        from autotune.compiler.tasks.payload_file import load_mlir_file  # noqa: PLC0415 - names must list without MLIR

        return load_mlir_file(Path(spec))
    parse_spec(spec)
    close = get_close_matches(name, points, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "give a path ending in .mlir, or see `autotune list`"
    raise PayloadError(f"payload must be one of {', '.join(points)} or a path; got {name!r}; {hint}")


def load_folder(folder: Path, name: str) -> Payload:
    """The payload in a folder that `import_model` wrote.

    Args:
        folder: Folder to read.
        name: Spec that the payload is known by.

    Raises:
        PayloadError: A file is missing or damaged, or the text is no payload.
    """
    from autotune.compiler.tasks.payload_folder import load_payload_folder  # noqa: PLC0415 - as above

    return load_payload_folder(folder, name)


def import_once(spec: str) -> Path:
    """The folder of a model's file, imported the first time that this file is asked for at these sizes.

    Raises:
        PayloadError: The file is missing, or cannot be imported.
    """
    path = Path(spec.partition(",")[0])
    if not path.is_file():
        raise PayloadError(f"a model must be a file, {path} is none; check the path")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update(spec.partition(",")[2].encode())
    folder = imports() / f"{path.stem}-{digest.hexdigest()[:16]}"
    if not (folder / DESCRIPTION).is_file():
        import_model(spec, folder)
    return folder


def imports() -> Path:
    """Where models that were imported on the way are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autotune" / "imports"


def import_model(spec: str, folder: Path) -> None:
    """Import a model's file into a folder, by the importer of its suffix.

    Args:
        spec: Path of the file, and sizes of dimensions that it leaves open, ``model.onnx,batch=1``.
        folder: Folder to write.

    Raises:
        PayloadError: There is no such importer, or the file cannot be imported.
    """
    name, given = parse_spec(spec)
    suffix = Path(name).suffix.removeprefix(".")
    points = registered(IMPORTERS)
    if suffix not in (*points, "mlir"):
        raise PayloadError(f"a model must end in one of {', '.join(points)}, mlir; got {name!r}; export it as ONNX")
    check_empty(folder)
    if suffix == "mlir":
        from autotune.compiler.tasks.payload_folder import write_text_folder  # noqa: PLC0415 - as above

        write_text_folder(Path(spec), folder)
        return
    wrong = [f"{key}={size}" for key, size in given.items() if not size.isdigit() or int(size) < 1]
    if wrong:
        raise PayloadError(f"sizes of {name} must be whole numbers of at least 1, got {', '.join(wrong)}; give name=1")
    importer = cast(Importer, points[suffix].load())
    importer(Path(name), folder, {key: int(size) for key, size in given.items()})


def check_empty(folder: Path) -> None:
    """Refuse a place that holds something else, before any work is done for it.

    Raises:
        PayloadError: A file is there, or a folder that no importer wrote.
    """
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not (folder / DESCRIPTION).is_file()):
        raise PayloadError(f"a model must be imported into a folder of its own, {folder} is in use; pass --output")


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
