"""Static analyses of a program, collected for the terminal and for the HTML page."""

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
    """Bytes that a cache level fetches during one call of the unscheduled loops.

    Attributes:
        name: Level of the cache.
        bytes: Size of the cache.
        fetched: Bytes fetched for each operation, by operation number.
    """

    name: str
    bytes: int
    fetched: tuple[float, ...]


@dataclass(frozen=True)
class Analysis:
    """Results of the static analyses of a program.

    Attributes:
        payload: Name of the payload.
        facts: Facts of its operations and values.
        reuses: Reuse distances of the accesses of each operation.
        caches: Traffic of each cache of the machine.
        agreements: Predicted and simulated misses of a small case of each kind of loop nest.
        plan: Buffer plan of the scheduled program's arena; `None` if it has none.
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
    """Analyse and evaluate a program, and compile it up to the planning of its arena.

    Args:
        payload: The payload.
        text: Module of the payload with tagged tasks.
        candidate: Script and pipeline to compile it with.
        tasks: Tasks of the payload with their configs.
        machine: Machine whose caches are modelled.

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
    """Analyse the winner of a bundle.

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
    """Return the first operation of each kind of loop nest: equal kind, number of loops and indexing of operands."""
    representatives: dict[object, ProgramOp] = {}
    for op in ops:
        representatives.setdefault((op.kind, len(op.sizes), tuple(access.terms for access in op.accesses)), op)
    return list(representatives.values())
