"""Configs known to be good: the configs that bundles record, and which of them a new task starts from.

Only tasks of one family, structure and dtype are compared. How far apart two are is a sum over what differs, each as
the binary logarithm of a ratio: sizes of loops count fully, vectors and registers too, caches a quarter (a config
that suits half the L2 is nearly as good), another extension of the same width not at all.
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
MOST_STARTS = 4  # configs tried before the search's own


@dataclass(frozen=True)
class KnownConfig:
    """Winning config of an earlier run.

    Attributes:
        family: Name of the family.
        structure: Description of what the task computes, without sizes; see `structure_of`.
        sizes: Trip counts of the task's loops.
        machine: Machine that the config won on.
        config: The config.
        source: The bundle that it is from.
    """

    family: str
    structure: str
    sizes: tuple[int, ...]
    machine: Machine
    config: Config
    source: str


def structure_of(task: Task, family: Family | None = None) -> str:
    """What a task computes, without sizes: loops, operand layouts, dtypes, and how its ops use each other's results.

    Configs of a user's own script are compared with those of the same script alone: its hash is part of it.
    """
    dtypes = ",".join(argument.dtype for argument in task.payload.arguments)
    several = task.ops if task.is_group else ()
    members = [
        f"{describe_nest(op.nest)}>{op.reader}.{op.operand}{describe_contraction(op.contraction)}" for op in several
    ]
    own = [family.script.digest] if family is not None and family.script is not None else []
    return " ".join([describe_nest(task.nest) + describe_contraction(task.contraction), *members, dtypes, *own])


def describe_nest(nest: LoopNest) -> str:
    """Loops by a letter each: p parallel, r reduction."""
    return "".join(iterator[0] for iterator in nest.iterators)


def describe_contraction(contraction: Contraction | None) -> str:
    """Layout of the operands; empty where there is no contraction."""
    if contraction is None:
        return ""
    flags = {"a": contraction.transposed_a, "b": contraction.transposed_b, "w": contraction.constant_b}
    return "*" + "".join(letter for letter, is_set in flags.items() if is_set)


def sizes_of(task: Task) -> tuple[int, ...]:
    """Trip counts of all loops of a task, those of all its ops included."""
    return (*task.nest.sizes, *(size for op in task.ops * task.is_group for size in op.nest.sizes))


def read_known(folders: Iterable[Path], payload: str = "") -> list[KnownConfig]:
    """Every config recorded in the bundles below some folders; what is no bundle of this format is passed over.

    Args:
        folders: Folders of bundles.
        payload: A payload whose own bundles are left out: its trials are in the store, and a sweep that is run again
            must begin as it did.
    """
    found = []
    for manifest in sorted(path for folder in folders for path in folder.glob(f"*/{MANIFEST_FILE}")):
        try:
            recorded = parse_manifest(read_bytes(manifest), str(manifest))
        except BundleError:
            continue
        found += known_in(recorded, str(manifest.parent)) if recorded.payload != payload else []
    return found


def known_in(manifest: Manifest, source: str) -> list[KnownConfig]:
    """The configs that a bundle records."""
    return [
        KnownConfig(task.schedule, task.structure, task.sizes, manifest.machine, task.config, source)
        for task in manifest.tasks.values()
        if task.config is not None
    ]


def distance(known: KnownConfig, sizes: Sequence[int], machine: Machine) -> float:
    """How far a recorded task is from one of `sizes` on `machine`; 0 for the same, 1 for one size doubled."""
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
    """The configs of the nearest recorded tasks, nearest first, as configs of a space.

    Args:
        known: Recorded configs.
        task: Task to be tuned.
        family: Covers it.
        space: Knobs of the task; a value that a knob does not have becomes the nearest it has, one that is not recorded
            the default config's.
        machine: The host.
    """
    structure, sizes = structure_of(task, family), sizes_of(task)
    same = [k for k in known if k.family == family.name and k.structure == structure and len(k.sizes) == len(sizes)]
    default = family.default(task, machine)
    found: list[dict[str, Value]] = []
    for each in sorted(same, key=lambda k: (distance(k, sizes, machine), k.source)):
        config = fit({**default, **each.config}, space)
        if config is not None and config not in found:
            found.append(config)
    return found[:MOST_STARTS]


def fit(config: Config, space: Space) -> dict[str, Value] | None:
    """A config of another space as one of this; `None` where a value fits no knob or a constraint is broken."""
    fitted: dict[str, Value] = {}
    for knob in space.knobs:
        value = nearest(config[knob.name], knob)
        if value is None:
            return None
        fitted[knob.name] = value
    return fitted if space.broken_constraint(fitted) is None else None


def nearest(value: Value, knob: Knob) -> Value | None:
    """The value of a knob that is most like another: itself, or the nearest number by ratio; `None` if none is."""
    if value in knob.values:
        return value
    numbers = [each for each in knob.values if type(each) is int]
    if type(value) is not int or not numbers:
        return None
    return min(numbers, key=lambda each: abs(log2((each + 1) / (value + 1))))
