"""Variants of a library: a bundle's payload compiled for each level that the library supports.

bundles, levels --schedules--> Candidate --worker, LLVM--> LevelProgram: an object that exports one function
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from autotune.bundles.candidates import recorded_candidate
from autotune.compiler.lowering.emit import Emission, Emitted, emit_program
from autotune.contrib.emit.levels import INTRINSICS, Level, features_for, find_level, level_of
from autotune.core.candidate import Candidate, Claim
from autotune.core.errors import BundleError, OptionError
from autotune.core.evaluator import Evaluation
from autotune.core.host.machine import Machine, this_machine
from autotune.core.payload import Payload
from autotune.core.plugs.any_size import AnySizePrograms
from autotune.core.plugs.family import Family
from autotune.core.task import Task
from autotune.registry import family_for
from autotune.store.bundle import BundleFiles
from autotune.store.records import WeightRecord
from autotune.tuning.candidates import default_candidate
from autotune.tuning.half_results import family_as_typed
from autotune.tuning.options import parse_command
from autotune.tuning.stages.record import weight_record
from autotune.worker.isolation.limits import MODEL_SECONDS
from autotune.worker.loading.reading import partition
from autotune.worker.loading.resolve import is_same
from autotune.worker.worker import Worker


@dataclass(frozen=True)
class LevelProgram:
    """A payload compiled for a level.

    Attributes:
        level: The level.
        symbol: Function exported by the object.
        code: Bytes of the object file.
        others: Bytes of the object files that it calls, by file name.
        weights: Packed weights, which it takes after the payload's arguments.
        features: CPU features needed in addition to the level's.
        arena_bytes: Bytes of memory for intermediates.
        threads: Maximum number of threads.
        tuned: Whether its schedules are from a bundle; otherwise they are default ones.
        allocates: Whether a call allocates memory.
        extents: Whether it has a setter for the extent of its loops.
    """

    level: Level
    symbol: str
    code: bytes
    others: tuple[tuple[str, bytes], ...]
    weights: tuple[WeightRecord, ...]
    features: tuple[str, ...]
    arena_bytes: int
    threads: int
    tuned: bool
    allocates: bool
    extents: bool = False


def compile_variants(bundles: Sequence[BundleFiles], targets: Sequence[str]) -> tuple[LevelProgram, ...]:
    """Compile the payload of bundles for each level, the best level first.

    Args:
        bundles: Bundles of one payload, each tuned on a machine of a different level.
        targets: Names of levels; empty for those of the bundles. A level without a bundle gets default schedules.

    Raises:
        BundleError: The bundles have different payloads or the same level; or a program does not compile.
        MachineError: A level is unknown, or a program needs a feature that a library cannot check.
    """
    payload, tuned = bundles[0].payload, levels_of(bundles)
    levels = best_first(targets, tuned)
    choose = family_for if any(map(is_exact, bundles)) else family_as_typed
    with Worker(MODEL_SECONDS) as worker:
        return tuple(compile_level(payload, level, tuned.get(level.name), worker, choose=choose) for level in levels)


def is_exact(bundle: BundleFiles) -> bool:
    """Return whether a bundle was tuned with `--error 0`, so that nothing may be rounded beyond the payload's types."""
    with suppress(OptionError):  # the command is of another version
        return parse_command(bundle.manifest.command).error == 0
    return False


def best_first(targets: Sequence[str], tuned: Iterable[str]) -> list[Level]:
    """Return the requested levels, or those that were tuned, the best first.

    Raises:
        MachineError: A level is unknown.
    """
    names = {find_level(name).name for name in targets} or set(tuned)
    return sorted((find_level(name) for name in names), key=lambda level: -len(level.features))


def levels_of(bundles: Sequence[BundleFiles]) -> dict[str, BundleFiles]:
    """Return the bundle of each level.

    Raises:
        BundleError: Two bundles have the same level or different payloads.
    """
    tuned: dict[str, BundleFiles] = {}
    for bundle in bundles:
        if not is_same(bundle.payload, bundles[0].payload):
            raise BundleError(
                f"bundles of one library must compute the same, {bundle.folder} computes {bundle.payload.name} and "
                f"{bundles[0].folder} {bundles[0].payload.name}; emit them apart"
            )
        level = level_of(bundle.manifest.machine, bundle.script).name
        if level in tuned:
            raise BundleError(
                f"bundles of one library must be of different levels, {tuned[level].folder} and {bundle.folder} are of "
                f"{level}; leave one out"
            )
        tuned[level] = bundle
    return tuned


def compile_level(
    payload: Payload,
    level: Level,
    bundle: BundleFiles | None,
    worker: Worker,
    like: Machine | None = None,
    choose: Callable[[Task, Machine], Family | None] = family_as_typed,
) -> LevelProgram:
    """Compile a payload for a level by a bundle's or default schedules, with other machine properties of `like`."""
    like = like or this_machine()
    machine = level.machine(like)
    candidate = default_candidate(partition(payload), machine, choose) if bundle is None else schedules(bundle)
    claim = Claim(bundle.payload if bundle else payload, candidate)
    return compile_claim(claim, level, symbol_of(level), worker, like, tuned=bundle is not None)


def level_of_sizes(model: AnySizePrograms) -> Level:
    """Return the level that all sizes of a model were tuned on, with the matrix unit if any size uses it.

    Raises:
        BundleError: Sizes were tuned on machines of different levels.
        MachineError: A machine is not x86-64.
    """
    levels = [level_of(program.machine, program.candidate.script) for program in model.programs]
    if len({level.isa for level in levels}) > 1:
        raise BundleError(
            f"sizes of one library must be tuned on machines of one level, these were on "
            f"{' and '.join(sorted({level.name for level in levels}))}; tune the folder on one machine"
        )
    return max(levels, key=lambda level: len(level.features))


def compile_sizes(model: AnySizePrograms, level: Level, *, tuned: bool) -> tuple[LevelProgram, ...]:
    """Compile all sizes of a model for a level.

    Args:
        model: Programs of the model for that level.
        level: The level.
        tuned: Whether the sizes were tuned on it.

    Raises:
        BundleError: A program does not compile.
        MachineError: A program needs a feature that a library cannot check.
    """
    with Worker(MODEL_SECONDS) as worker:
        return tuple(
            compile_claim(
                Claim(program.payload, program.candidate),
                level,
                f"{symbol_of(level)}_{number}",
                worker,
                program.machine,
                tuned=tuned,
                setter=model.setter if program.extents else "",
            )
            for number, program in enumerate(model.programs)
        )


def symbol_of(level: Level) -> str:
    """Return the symbol prefix of a level's objects."""
    return f"variant_{level.name.replace('-', '_')}"


def compile_claim(
    claim: Claim, level: Level, symbol: str, worker: Worker, like: Machine, *, tuned: bool = True, setter: str = ""
) -> LevelProgram:
    """Compile a candidate for a level."""
    needed = tuple(INTRINSICS.items())
    emitted = emit(Emission(claim, "object", level.target(like, ()), symbol, needed, setter), worker)
    return LevelProgram(
        level,
        symbol,
        emitted.data,
        tuple((f"{kernel.symbol}.o", kernel.made.code) for kernel in claim.candidate.kernels),
        tuple(weight_record(claim.payload, weight) for weight in emitted.weights),
        features_for(emitted.intrinsics),
        emitted.arena_bytes,
        emitted.threads,
        tuned,
        bool(emitted.allocations),
        bool(setter),
    )


def schedules(bundle: BundleFiles) -> Candidate:
    """Return the candidate of a bundle, for as many threads as it was tuned on, whatever this host has."""
    return replace(recorded_candidate(bundle), pipeline=bundle.manifest.pipeline)


def emit(wanted: Emission, worker: Worker) -> Emitted:
    """Compile in an isolated process.

    Raises:
        BundleError: The program does not compile.
    """
    result = worker.call(emit_program, wanted)
    if isinstance(result, Evaluation):
        level = wanted.target.name if wanted.target else "this machine"
        raise BundleError(
            f"{wanted.claim.payload.name} must compile for {level}, it was {result.outcome}: {result.diagnostic}"
        )
    return result
