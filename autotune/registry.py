"""Registry of payloads, schedule families, baselines and other plug-ins, by name of their Python entry points."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import Distribution, EntryPoint, EntryPoints, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, TypeVar, cast

from autotune.core.errors import AutotuneError, ComparatorError, PayloadError, PluginError, ScheduleError
from autotune.core.host.extras import DISTRIBUTION
from autotune.core.host.files import kind_at
from autotune.core.host.machine import Machine
from autotune.core.ops.dialect import Dialect, WrittenFunction
from autotune.core.payload import Payload
from autotune.core.plugs.any_size import NO_READER, AnySizeReader
from autotune.core.plugs.comparator import Comparator
from autotune.core.plugs.family import Baseline, Family
from autotune.core.plugs.guarded_family import GuardedFamily
from autotune.core.plugs.imported import Importer
from autotune.core.plugs.rewriter import NO_REWRITER, Rewriter
from autotune.core.plugs.rivals import NO_RIVALS, Rivals
from autotune.core.plugs.verb import Listing, PageSection, Verb, VerbOption
from autotune.core.plugs.weight_form import PluggedForm
from autotune.core.precision import roof_of
from autotune.core.printable import did_you_mean, is_unicode, one_line
from autotune.core.space import Config
from autotune.core.task import Task

T = TypeVar("T")
OURS = "autotune."  # prefix of the names of groups
PAYLOADS, SCHEDULES, BASELINES = "autotune.payloads", "autotune.schedules", "autotune.baselines"
COMPARATORS = "autotune.comparators"
IMPORTERS, DIALECTS = "autotune.importers", "autotune.dialects"
READERS, WRITTEN = "autotune.readers", "dialect"
VERBS, OPTIONS, SECTIONS = "autotune.verbs", "autotune.options", "autotune.sections"
ALIASES = "autotune.schedule_aliases"  # former names of families
PAYLOAD_STAGES = "autotune.payload_stages"
STAGES, LISTS, WRITERS = "autotune.stages", "autotune.lists", "autotune.writers"
FACTS = "autotune.facts"
SAMPLERS = "autotune.samplers"
TRANSFER, SPACES = "autotune.transfer", "spaces"
REWRITES = "autotune.rewrites"  # of compiled code
REWRITERS, RULES = "autotune.rewriters", "rules"
RIVALS, CODE = "autotune.rivals", "code"
ANY_SIZE, FOLDERS = "autotune.any_size", "folders"
SERVERS, POSTGRES = "autotune.servers", "postgres"
PRECISIONS = "autotune.precisions"
WEIGHT_FORMS = "autotune.weight_forms"
PLAIN_VALUE = re.compile(r"[A-Za-z0-9_+-]*(\.[0-9]+)?", re.ASCII)  # a parameter that is a word or a number, not a path
METHODS = ("name", "fallback", "covers", "space", "default", "build", "rewrites")  # attributes of a family
GROUPS = (PAYLOADS, IMPORTERS, DIALECTS, SCHEDULES, PRECISIONS, BASELINES, COMPARATORS)  # whose names users type


@cache
def registered(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name."""
    return {point.name: point for point in sorted(every_point().select(group=group), key=lambda point: point.name)}


@cache
def every_point() -> EntryPoints:
    """Return the entry points of all groups; the metadata of installed packages is read once in a process."""
    return cast("EntryPoints", entry_points())


def load_point(point: EntryPoint) -> Any:  # noqa: ANN401 - the type depends on the group
    """Load the object of an entry point.

    Raises:
        PluginError: The plug-in does not load: it is broken, or was renamed since its package was installed.
    """
    try:
        return point.load()
    except Exception as error:  # a plug-in raises whatever it raises
        raise PluginError(
            f"plug-in {point.name!r} of {point.group} must load, {point.value} raised {one_line(str(error))[:200]}; "
            "reinstall or remove it"
        ) from error


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
        hint = did_you_mean(name, points) or "give a path ending in .mlir, or see `autotune list`"
        if kind := kind_at(name):
            hint = f"{kind}: give the folder of an import, or a path ending in .mlir"
        raise PayloadError(f"payload must be one of {', '.join(points)} or a path; got {name!r}; {hint}")
    factory = cast(Callable[[dict[str, str]], Payload], load_point(points[name]))
    return factory(parameters)


def is_registered(spec: str) -> bool:
    """Return whether a spec begins with the name of a registered payload."""
    return spec.partition(",")[0] in registered(PAYLOADS)


def may_open_file(spec: str) -> bool:
    """Return whether a parameter of a registered payload may be a path: it is neither a plain word nor a number."""
    values = [value for _, equals, value in (each.partition("=") for each in spec.split(",")[1:]) if equals]
    return any(not PLAIN_VALUE.fullmatch(value) or os.path.lexists(value) for value in values)


def is_importable(spec: str) -> bool:
    """Return whether a spec names a file with the suffix of an importer, and not a folder (an imported model)."""
    return suffix_of(spec) in registered(IMPORTERS) and not os.path.isdir(spec.partition(",")[0])


def dialect_of(text: str) -> Dialect | None:
    """Return the registered dialect of which a text contains an operation; `None` if there is none."""
    for name, point in registered(DIALECTS).items():
        if f"{name}." in text and re.search(rf"(?<![\w.@%#!$-]){name}\.[a-z_]+\"?\(", re.sub("//.*", "", text)):
            return cast(Dialect, load_point(point))
    return None


def dialect_reader() -> Callable[[str, str, str, str], WrittenFunction]:
    """Return the function that reads a payload written in a registered dialect.

    Returns:
        Function of the file's path, the dialect's name and definition, and the text.

    Raises:
        PayloadError: No such function is installed.
    """
    points = registered(READERS)
    if WRITTEN not in points:
        raise PayloadError(
            f"a payload in a dialect needs an entry point of {READERS}, there is none; write it in linalg"
        )
    return cast(Callable[..., WrittenFunction], load_point(points[WRITTEN]))


def suffix_of(spec: str) -> str:
    """Return the suffix of the file that a spec names, without its dot."""
    return Path(spec.partition(",")[0]).suffix.removeprefix(".")


def import_file(spec: str, folder: Path) -> None:
    """Import a model file into a folder, with the importer registered for its suffix.

    Args:
        spec: Path of the file and sizes of its dynamic dimensions, ``model.onnx,batch=1``.
        folder: Folder to write.

    Raises:
        PayloadError: No importer has this suffix, or the file cannot be imported.
    """
    name, given = parse_spec(spec)
    points = registered(IMPORTERS)
    if not is_unicode(name):  # JSON, which records it, holds nothing else
        raise PayloadError(f"a model's path must be UTF-8, {name!r} is not; rename it")
    if os.path.isdir(name):
        raise PayloadError(f"a model must be a file, {name!r} is a folder; an imported one is tuned as it is")
    if not is_importable(spec):
        raise PayloadError(f"a model must end in one of {', '.join(points)}, mlir; got {name!r}; export it as ONNX")
    wrong = [f"{key}={size}" for key, size in given.items() if not re.fullmatch("[1-9][0-9]{0,9}", size)]
    if wrong:
        raise PayloadError(f"sizes of {name} must be whole numbers of at least 1, got {', '.join(wrong)}; give name=1")
    importer = importer_of(spec)
    if Path(name).is_file():
        importer.files(Path(name))  # refuses what lies elsewhere
    importer.read(Path(name), folder, {key: int(size) for key, size in given.items()})


def importer_of(spec: str) -> Importer:
    """Return the importer of the file that a spec names; one must be registered for its suffix."""
    loaded = load_point(registered(IMPORTERS)[suffix_of(spec)])
    return loaded if isinstance(loaded, Importer) else Importer(loaded)


@cache
def families() -> tuple[Family, ...]:
    """Return all schedule families in order of `rank`; at equal rank, those of other distributions come first."""
    points = sorted(registered(SCHEDULES).values(), key=is_ours)
    loaded = [cast(Family, load_point(point)) for point in points]
    guarded = [
        family if is_ours(point) else GuardedFamily(family) for family, point in zip(loaded, points, strict=True)
    ]
    return tuple(sorted(guarded, key=rank))


@cache
def rounding_families() -> tuple[Family, ...]:
    """Return the families that round their operands to a lower precision, by ascending error.

    They are searched beside the exact families where the options allow an error.
    """
    loaded = [cast(Family, load_point(point)) for point in registered(PRECISIONS).values()]
    return tuple(sorted(loaded, key=lambda family: family.error))


def rounding_names() -> frozenset[str]:
    """Return the names of the families that round their operands."""
    return frozenset(registered(PRECISIONS))


@cache
def saving_of(name: str) -> float:
    """Return the ratio of a task's nominal multiplications to those that a family's programs execute.

    Only a family with a weight form of its own can execute fewer. The others are not loaded for this, because some
    import MLIR.
    """
    point = registered(PRECISIONS).get(name) if name in registered(WEIGHT_FORMS) else None
    return cast(Family, load_point(point)).saving if point is not None else 1.0


def roof_of_family(name: str, rates: Mapping[str, float]) -> float | None:
    """Return the upper bound of a family's throughput in nominal operations of a task per second.

    It is the peak rate of the execution unit that the family uses, times `saving_of` the family.

    Args:
        name: Name of the family.
        rates: Rates of the machine, by names of fields of `autotune.core.host.machine.Roofs`.

    Returns:
        The rate; `None` if that of the unit was not measured.
    """
    roof = roof_of(name, rates)
    return roof * saving_of(name) if roof else None


@cache
def weight_form(name: str) -> PluggedForm:
    """Return the weight form of a name: how a weight is stored before any call.

    Raises:
        ScheduleError: No weight form has that name.
    """
    points = registered(WEIGHT_FORMS)
    if name not in points:
        raise ScheduleError(f"a weight must be in a precision, or stored as one of {', '.join(points)}; got {name!r}")
    return cast(PluggedForm, load_point(points[name]))


def is_ours(point: EntryPoint) -> bool:
    """Return whether this distribution brings an entry point."""
    return point.dist is None or name_of(point.dist) == DISTRIBUTION


@cache
def name_of(distribution: Distribution) -> str:
    """Return the name of a distribution; cached, because each access parses the metadata for about a millisecond."""
    return distribution.name


@cache
def plugins_of_others() -> tuple[str, ...]:
    """Return the entry points of other distributions, sorted, each with the version of its distribution."""
    groups = [group for group in every_point().groups if group.startswith(OURS)]
    others = (point for group in groups for point in registered(group).values() if not is_ours(point))
    return tuple(sorted(f"{p.group} {p.name} {p.value} {p.dist.name} {p.dist.version}" for p in others if p.dist))


def rank(family: Family) -> tuple[bool, bool, int]:
    """Return the sort key of a family among those that cover a task.

    More specific families come first, then fallbacks, then families that are searched on request only.
    """
    return family.asked, family.fallback, -family.specific


def families_for(task: Task) -> tuple[Family, ...]:
    """Return the families that cover a task and need no request, in order of `rank`; the first is the default."""
    return tuple(family for family in families() if not rank(family)[0] and family.covers(task))


def ambiguities(tasks: Sequence[Task], wanted: Family | None) -> tuple[str, ...]:
    """Return a sentence for every task whose family was chosen among several of equal `rank` by their order only."""
    sentences = []
    for task in tasks:
        candidates = families_for(task) if wanted is None or not wanted.covers(task) else ()
        first, *alike = [family.name for family in candidates if rank(family) == rank(candidates[0])] or [""]
        if alike:
            others = ", ".join(alike)
            sentences.append(f"{task.tag}: {others} would cover it as well as {first}, which is searched; see --family")
    return tuple(sentences)


def family_for(task: Task, machine: Machine | None = None) -> Family | None:
    """Return the first family that covers a task and needs no request; `None` if there is none.

    Args:
        task: Task to cover.
        machine: Machine that the family must run on; `None` for any.
    """
    candidates = (family for family in families_for(task) if machine is None or family.runs_on(machine))
    return next(candidates, None)


def load_family(spec: str) -> Family:
    """Load a family by the name of an installed one, or from a Python file as ``mine.py:FAMILY``.

    Raises:
        ScheduleError: The family is not installed, or not in the file.
    """
    path, colon, name = spec.rpartition(":")
    if colon and path.endswith(".py"):
        return load_family_file(Path(path), name)
    have = ", ".join(family.name for family in (*families(), *rounding_families()))
    for family in (*families(), *rounding_families()):
        if family.name == current_name(spec):
            return family
    raise ScheduleError(f"schedule must be one of {have}, or in a file as mine.py:FAMILY; got {spec!r}")


def current_name(family: str) -> str:
    """Return the present name of a family, given that name or a former one, as files of earlier versions have it."""
    return former_names().get(family, family)


def first_name(family: str) -> str:
    """Return the name under which a family was first recorded.

    Identities of sweeps contain this name, so that a renamed family still finds its earlier trials.
    """
    return next((former for former, name in former_names().items() if name == family), family)


@cache
def former_names() -> dict[str, str]:
    """Return the present names of families by their former names."""
    names = {point.value: point.name for point in registered(SCHEDULES).values()}
    return {point.name: names.get(point.value, point.name) for point in registered(ALIASES).values()}


def load_family_file(path: Path, name: str) -> Family:
    """Execute a Python file and return a family that it defines.

    Raises:
        ScheduleError: The file does not run, or has no such family.
    """
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ScheduleError(f"a family's file must be readable Python, {path} is not")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up the module of their class here
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ScheduleError(f"{path} must run, it raised {type(error).__name__}: {error}") from error
    family = getattr(module, name, None)
    missing = [method for method in METHODS if not hasattr(family, method)]
    if missing:
        problem = "holds none" if family is None else f"lacks {', '.join(missing)}"
        raise ScheduleError(f"{path}:{name} must be a family of schedules, it {problem}; see at.Family")
    return GuardedFamily(cast(Family, family))


@cache
def load_baseline(name: str) -> Baseline:
    """Load the baseline called `name`.

    Raises:
        ScheduleError: The baseline is not installed.
    """
    return cast(Baseline, load_point(find_point(BASELINES, "baseline", name, ScheduleError)))


def load_comparator(name: str) -> Comparator:
    """Load the comparator called `name`. It imports its library later, when it prepares a payload.

    Raises:
        ComparatorError: The comparator is not installed.
    """
    return cast(Comparator, load_point(find_point(COMPARATORS, "comparator", name, ComparatorError)))


def plugged_verbs(on_fault: Callable[[str], None]) -> dict[str, Verb]:
    """Return the verbs that plug-ins add to the command line, by name; those that fail to load are reported."""
    return {point.name: verb for point, verb in loaded_points(VERBS, Verb, on_fault)}


def plugged_options(on_fault: Callable[[str], None]) -> tuple[VerbOption, ...]:
    """Return the options that plug-ins add to verbs; those that fail to load are reported and left out."""
    return tuple(option for _, option in loaded_points(OPTIONS, VerbOption, on_fault))


def plugged_sections(on_fault: Callable[[str], None]) -> dict[str, PageSection]:
    """Return the sections that plug-ins add to the page of a bundle, by name; those that fail to load are reported."""
    return {point.name: section for point, section in loaded_points(SECTIONS, PageSection, on_fault)}


def listings(on_fault: Callable[[str], None]) -> dict[str, Mapping[str, EntryPoint | str]]:
    """Return what `autotune list` shows: by kind, a mapping from names to entry points or to lines of text.

    The groups of this package come first, then the listings of plug-ins.
    """
    listed: dict[str, Mapping[str, EntryPoint | str]] = {
        group.rpartition(".")[2]: registered(group) for group in GROUPS
    }
    for point, listing in loaded_points(LISTS, Listing, on_fault):
        listed[point.name] = listing.lines() if listing.lines is not None else registered(f"autotune.{point.name}")
    return listed


def loaded_points(group: str, kind: type[T], on_fault: Callable[[str], None]) -> Iterator[tuple[EntryPoint, T]]:
    """Yield the entry points of a group with their objects; report those that do not load or have another type."""
    for point in registered(group).values():
        try:
            loaded = load_point(point)
        except PluginError as error:
            on_fault(str(error))
            continue
        if isinstance(loaded, kind):
            yield point, loaded
        else:
            on_fault(f"plug-in {point.name!r} of {group} must be a {kind.__name__}, {point.value} is none; remove it")


@cache
def rewriter() -> Rewriter:
    """Return the rewriter that applies rewrite rules to payloads; if none is installed, one that changes nothing."""
    points = registered(REWRITERS)
    return cast(Rewriter, load_point(points[RULES])) if RULES in points else NO_REWRITER


@cache
def rivals() -> Rivals:
    """Return the plug-in that adds external kernels to searches; if none is installed, `NO_RIVALS`."""
    points = registered(RIVALS)
    return cast(Rivals, load_point(points[CODE])) if CODE in points else NO_RIVALS


@cache
def any_size_reader() -> AnySizeReader:
    """Return the reader of folders of models of any size; if none is installed, one that recognizes no folder."""
    points = registered(ANY_SIZE)
    return cast(AnySizeReader, load_point(points[FOLDERS])) if FOLDERS in points else NO_READER


def load_writer() -> Callable[[Family, Task, Machine, Config], str]:
    """Load the function that writes a family's schedule of a task as a parametric script.

    Raises:
        ScheduleError: No such function is installed.
    """
    return cast(Callable[..., str], load_point(find_point(WRITERS, "writer of scripts", "parametric", ScheduleError)))


def complain(message: str) -> None:
    """Write a message on stderr, such as that a plug-in is left out."""
    sys.stderr.write(f"{message}\n")


def find_point(group: str, kind: str, name: str, error: type[AutotuneError]) -> EntryPoint:
    """Return the entry point of a group called `name`; `kind` is the word for it in the message.

    Raises:
        AutotuneError: No such entry point is installed; raised as the class `error`.
    """
    points = registered(group)
    if name not in points:
        hint = did_you_mean(name, points)
        raise error(f"{kind} must be one of {', '.join(points)}; got {name!r}{'; ' * bool(hint)}{hint}")
    return points[name]
