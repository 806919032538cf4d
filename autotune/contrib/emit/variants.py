"""Variants: what a bundle computes, compiled for each level that a library is to run on.

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
        symbol: Function that the object exports.
        code: Bytes of the object file.
        others: Bytes of object files that it calls, by name.
        weights: Weights in panels, which it takes after the payload's arguments.
        features: Features that it needs besides the level's.
        arena_bytes: Bytes of memory that its intermediates take.
        threads: Most threads that it runs on.
        tuned: Whether a bundle has its schedules; else they are default ones.
        allocates: Whether a call allocates memory.
        extents: Whether it has a setter of where its loops end.
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
    """Compile what bundles compute, the best level first.

    Args:
        bundles: Bundles of one payload, each tuned on a machine of another level.
        targets: Names of levels; empty for those of the bundles. Where no bundle is of a level, default schedules for
            its vectors serve.

    Raises:
        BundleError: The bundles are of different payloads, or of one level; or a program does not compile.
        MachineError: A level is unknown, or a program needs what a library cannot ask for.
    """
    payload, tuned = bundles[0].payload, levels_of(bundles)
    levels = best_first(targets, tuned)
    choose = family_for if any(map(is_exact, bundles)) else family_as_typed
    with Worker(MODEL_SECONDS) as worker:
        return tuple(compile_level(payload, level, tuned.get(level.name), worker, choose=choose) for level in levels)


def is_exact(bundle: BundleFiles) -> bool:
    """Tell whether a bundle was tuned with `--error 0`: nothing is rounded that might have been unasked."""
    with suppress(OptionError):  # of another version
        return parse_command(bundle.manifest.command).error == 0
    return False


def best_first(targets: Sequence[str], tuned: Iterable[str]) -> list[Level]:
    """Levels by their names, the best first: those that are asked for, or those that were tuned on.

    Raises:
        MachineError: A level is unknown.
    """
    wanted = {find_level(name).name for name in targets} or set(tuned)
    return sorted((find_level(name) for name in wanted), key=lambda level: -len(level.features))


def levels_of(bundles: Sequence[BundleFiles]) -> dict[str, BundleFiles]:
    """The bundle of each level.

    Raises:
        BundleError: Two are of one level, or compute different things.
    """
    found: dict[str, BundleFiles] = {}
    for bundle in bundles:
        if not is_same(bundle.payload, bundles[0].payload):
            raise BundleError(
                f"bundles of one library must compute the same, {bundle.folder} computes {bundle.payload.name} and "
                f"{bundles[0].folder} {bundles[0].payload.name}; emit them apart"
            )
        level = level_of(bundle.manifest.machine, bundle.script).name
        if level in found:
            raise BundleError(
                f"bundles of one library must be of different levels, {found[level].folder} and {bundle.folder} are of "
                f"{level}; leave one out"
            )
        found[level] = bundle
    return found


def compile_level(
    payload: Payload,
    level: Level,
    bundle: BundleFiles | None,
    worker: Worker,
    like: Machine | None = None,
    choose: Callable[[Task, Machine], Family | None] = family_as_typed,
) -> LevelProgram:
    """Compile a payload for a level: as a bundle says, or by default schedules; all else as of a machine, this one."""
    like = like or this_machine()
    machine = level.machine(like)
    candidate = default_candidate(partition(payload), machine, choose) if bundle is None else schedules(bundle)
    claim = Claim(bundle.payload if bundle else payload, candidate)
    return compile_claim(claim, level, symbol_of(level), worker, like, tuned=bundle is not None)


def level_of_sizes(model: AnySizePrograms) -> Level:
    """The level that all sizes of a model of any size were tuned on, with a matrix unit if any leaves products to one.

    Raises:
        BundleError: Sizes were tuned on machines of different levels.
        MachineError: A machine is no x86-64.
    """
    levels = [level_of(program.machine, program.candidate.script) for program in model.programs]
    if len({level.isa for level in levels}) > 1:
        raise BundleError(
            f"sizes of one library must be tuned on machines of one level, these were on "
            f"{' and '.join(sorted({level.name for level in levels}))}; tune the folder on one machine"
        )
    return max(levels, key=lambda level: len(level.features))


def compile_sizes(model: AnySizePrograms, level: Level, *, tuned: bool) -> tuple[LevelProgram, ...]:
    """Compile every size of a model of any size for a level.

    Args:
        model: What serves the model on that level.
        level: The level.
        tuned: Whether the sizes were tuned on it.

    Raises:
        BundleError: A program does not compile.
        MachineError: A program needs what a library cannot ask for.
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
    """What objects of a level export."""
    return f"variant_{level.name.replace('-', '_')}"


def compile_claim(
    claim: Claim, level: Level, symbol: str, worker: Worker, like: Machine, *, tuned: bool = True, setter: str = ""
) -> LevelProgram:
    """Compile a program for a level."""
    needed = tuple(INTRINSICS.items())
    found = emit(Emission(claim, "object", level.target(like, ()), symbol, needed, setter), worker)
    return LevelProgram(
        level,
        symbol,
        found.data,
        tuple((f"{kernel.symbol}.o", kernel.made.code) for kernel in claim.candidate.kernels),
        tuple(weight_record(claim.payload, weight) for weight in found.weights),
        features_for(found.intrinsics),
        found.arena_bytes,
        found.threads,
        tuned,
        bool(found.allocations),
        bool(setter),
    )


def schedules(bundle: BundleFiles) -> Candidate:
    """How a bundle is compiled: on as many threads as it was tuned on, whatever this host has."""
    return replace(recorded_candidate(bundle), pipeline=bundle.manifest.pipeline)


def emit(wanted: Emission, worker: Worker) -> Emitted:
    """Compile in a process of its own.

    Raises:
        BundleError: The program does not compile.
    """
    found = worker.call(emit_program, wanted)
    if isinstance(found, Evaluation):
        level = wanted.target.name if wanted.target else "this machine"
        raise BundleError(
            f"{wanted.claim.payload.name} must compile for {level}, it was {found.outcome}: {found.diagnostic}"
        )
    return found
