"""Analysed: all that is known of a program before it runs, put together for a terminal and for a page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.compiler.lowering.stages import COMPILED
from autotune.contrib.analysis.cache import Agreement, compare
from autotune.contrib.analysis.reading import AnalysisRequest, analyse
from autotune.contrib.analysis.reuse import Reuse, fetched, reuses
from autotune.core.arena_plan import BufferPlan
from autotune.core.candidate import Candidate
from autotune.core.host.machine import Machine, this_machine
from autotune.core.ops.facts import LINE, ProgramFacts
from autotune.core.ops.op import ProgramOp
from autotune.core.payload import Payload
from autotune.core.space import Config
from autotune.reports.scheduled import Scheduled, as_recorded, candidate_of, recorded_tasks
from autotune.store.bundle import read_bundle
from autotune.tuning.stages.user_script import own_of, parts_of
from autotune.worker.loading.reading import compile_to

ARENA = next(stage for stage in COMPILED if stage == "arena")


@dataclass(frozen=True)
class CacheTraffic:
    """What a cache fetches in a call of the plain loops.

    Attributes:
        name: Level of the cache.
        bytes: Size of the cache.
        fetched: Bytes that it fetches for every op, in the order of their numbers.
    """

    name: str
    bytes: int
    fetched: tuple[float, ...]


@dataclass(frozen=True)
class Analysis:
    """All that is known of a program before it runs.

    Attributes:
        payload: Name of the payload.
        facts: What was read off it.
        reuses: Accesses of each op by their distance.
        caches: What every cache of the machine fetches.
        agreements: Small cases of ops: prediction beside simulation, one of each kind of loops.
        plan: The arena of the program as it is scheduled; `None` where it has none.
        configs: Config of every task, by tag.
    """

    payload: str
    facts: ProgramFacts
    reuses: tuple[tuple[Reuse, ...], ...]
    caches: tuple[CacheTraffic, ...]
    agreements: tuple[Agreement, ...]
    plan: BufferPlan | None
    configs: Mapping[str, Config | None]


def analyse_program(
    payload: Payload, text: str, candidate: Candidate, tasks: Sequence[Scheduled], machine: Machine
) -> Analysis:
    """Read a program, evaluate it, and compile it as far as its arena.

    Args:
        payload: The payload.
        text: Module of it with its tasks tagged.
        candidate: How it is compiled.
        tasks: Tasks of it with their configs.
        machine: The host, for its caches.

    Raises:
        PayloadError: The program cannot be read.
        CompileError: The compiler refused the candidate.
    """
    facts = analyse(AnalysisRequest(payload, text))
    sizes = {"L1": machine.l1_bytes, "L2": machine.l2_bytes, "L3": machine.l3_bytes}
    caches = tuple(
        CacheTraffic(name, size, tuple(LINE * lines for lines in fetched(facts.ops, size // LINE)))
        for name, size in sizes.items()
        if size
    )
    return Analysis(
        payload.name,
        facts,
        tuple(reuses(op) for op in facts.ops),
        caches,
        tuple(compare(op) for op in one_of_each(facts.ops)),
        compile_to(ARENA, payload, candidate).buffers,
        {each.task.tag: each.config for each in tasks},
    )


def analyse_bundle(folder: Path) -> Analysis:
    """The analyses of a bundle's winner.

    Raises:
        BundleError: The bundle is incomplete or edited.
        PayloadError: The program cannot be read.
        CompileError: The compiler refused it.
    """
    bundle, machine = read_bundle(folder), this_machine()
    own = own_of(bundle)
    parts, recorded = parts_of(bundle.payload, own), recorded_tasks(bundle)
    tasks = [as_recorded(task, recorded, machine, own) for task in parts.tasks]
    candidate = candidate_of(tasks, machine, parts.payload.text)
    return analyse_program(bundle.payload, parts.payload.text, candidate, tasks, machine)


def one_of_each(ops: tuple[ProgramOp, ...]) -> list[ProgramOp]:
    """The first op of each kind of loops: kind, number of loops, and which of them each array follows."""
    found: dict[object, ProgramOp] = {}
    for op in ops:
        found.setdefault((op.kind, len(op.sizes), tuple(access.terms for access in op.accesses)), op)
    return list(found.values())
