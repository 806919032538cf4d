"""Warm start: winning configs that bundles record, and the selection of those that a new task starts from.

Only tasks of the same family, structure and dtypes are compared. Their distance is a sum of absolute binary logarithms
of ratios: trip counts, vector width and number of registers have weight 1, cache sizes a quarter (a config for half the
L2 is nearly as good), and another vector extension of the same width has none.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path

from autotune.core.errors import BundleError
from autotune.core.host.machine import Machine
from autotune.core.ops.op import Contraction, LoopNest
from autotune.core.plugs.family import Family
from autotune.core.space import Config, Knob, Space, Value
from autotune.core.task import Task
from autotune.store.manifest import MANIFEST_FILE, Manifest, parse_manifest, read_bytes

WEIGHT_OF_CACHES = 0.25
MOST_STARTS = 4  # recorded configs that are tried before those of the search


@dataclass(frozen=True)
class KnownConfig:
    """Winning config of an earlier run.

    Attributes:
        family: Name of the family.
        structure: Structure of the task, without sizes; see `structure_of`.
        sizes: Trip counts of the task's loops.
        machine: Machine that the config won on.
        config: The config.
        source: Folder of the bundle that records it.
    """

    family: str
    structure: str
    sizes: tuple[int, ...]
    machine: Machine
    config: Config
    source: str


def structure_of(task: Task, family: Family | None = None) -> str:
    """Return the structure of a task without sizes: iterator types, layouts, dtypes, and producer-consumer relations.

    For a user script its hash is included, so that its configs are compared with those of the same script only.
    """
    dtypes = ",".join(argument.dtype for argument in task.payload.arguments)
    several = task.ops if task.is_group else ()
    members = [
        f"{describe_nest(op.nest)}>{op.reader}.{op.operand}{describe_contraction(op.contraction)}" for op in several
    ]
    own = [family.script.digest] if family is not None and family.script is not None else []
    return " ".join([describe_nest(task.nest) + describe_contraction(task.contraction), *members, dtypes, *own])


def describe_nest(nest: LoopNest) -> str:
    """Return the iterator types by a letter each: p parallel, r reduction."""
    return "".join(iterator[0] for iterator in nest.iterators)


def describe_contraction(contraction: Contraction | None) -> str:
    """Return the layout of a contraction's operands; empty where there is none."""
    if contraction is None:
        return ""
    flags = {"a": contraction.transposed_a, "b": contraction.transposed_b, "w": contraction.constant_b}
    return "*" + "".join(letter for letter, is_set in flags.items() if is_set)


def sizes_of(task: Task) -> tuple[int, ...]:
    """Return the trip counts of a task's loops: of its root, and, in a group, of all its ops."""
    return (*task.nest.sizes, *(size for op in task.ops * task.is_group for size in op.nest.sizes))


def read_known(folders: Iterable[Path], payload: str = "") -> list[KnownConfig]:
    """Read the configs recorded in the bundles of some folders; folders that are no bundle of this format are ignored.

    Args:
        folders: Folders of bundles.
        payload: Payload whose own bundles are left out: its trials are in the store, and a repeated sweep must start
            as the first one did.
    """
    configs = []
    for manifest in sorted(path for folder in folders for path in folder.glob(f"*/{MANIFEST_FILE}")):
        try:
            recorded = parse_manifest(read_bytes(manifest), str(manifest))
        except BundleError:
            continue
        configs += known_in(recorded, str(manifest.parent)) if recorded.payload != payload else []
    return configs


def known_in(manifest: Manifest, source: str) -> list[KnownConfig]:
    """Return the winning configs that a bundle records."""
    return [
        KnownConfig(task.schedule, task.structure, task.sizes, manifest.machine, task.config, source)
        for task in manifest.tasks.values()
        if task.config is not None
    ]


def distance(known: KnownConfig, sizes: Sequence[int], machine: Machine) -> float:
    """Return the distance of a recorded task to one of `sizes` on `machine`; 0 for the same, 1 for one size doubled."""
    theirs = known.machine
    shapes = sum(abs(log2(a / b)) for a, b in zip(known.sizes, sizes, strict=True))
    vectors = abs(log2(theirs.vector_bits / machine.vector_bits))
    registers = abs(log2(theirs.vector_registers / machine.vector_registers))
    caches = sum(
        abs(log2(max(a, 1) / max(b, 1)))
        for a, b in (
            (theirs.l1_bytes, machine.l1_bytes),
            (theirs.l2_bytes, machine.l2_bytes),
            (theirs.l3_bytes, machine.l3_bytes),
        )
    )
    return shapes + vectors + registers + WEIGHT_OF_CACHES * min(caches, 8.0)


def starts(
    known: Sequence[KnownConfig], task: Task, family: Family, space: Space, machine: Machine
) -> list[dict[str, Value]]:
    """Return the configs of the nearest recorded tasks, nearest first, fitted to a space.

    Args:
        known: Recorded configs.
        task: Task to be tuned.
        family: Family that covers it.
        space: Search space of the task; a value that a knob lacks is replaced by its nearest one, and a missing knob
            has the value of the default config.
        machine: The host.
    """
    structure, sizes = structure_of(task, family), sizes_of(task)
    same = [k for k in known if k.family == family.name and k.structure == structure and len(k.sizes) == len(sizes)]
    default = family.default(task, machine)
    configs: list[dict[str, Value]] = []
    for each in sorted(same, key=lambda k: (distance(k, sizes, machine), k.source)):
        config = fit({**default, **each.config}, space)
        if config is not None and config not in configs:
            configs.append(config)
    return configs[:MOST_STARTS]


def fit(config: Config, space: Space) -> dict[str, Value] | None:
    """Fit a config to a space; return `None` where a value fits no knob, or a constraint is violated."""
    fitted: dict[str, Value] = {}
    for knob in space.knobs:
        value = nearest(config[knob.name], knob)
        if value is None:
            return None
        fitted[knob.name] = value
    return fitted if space.broken_constraint(fitted) is None else None


def nearest(value: Value, knob: Knob) -> Value | None:
    """Return the nearest value of a knob: the same one, or the nearest integer by ratio; `None` if there is none."""
    if value in knob.values:
        return value
    numbers = [each for each in knob.values if type(each) is int]
    if type(value) is not int or not numbers:
        return None
    return min(numbers, key=lambda each: abs(log2((each + 1) / (value + 1))))
