"""How programs grow with threads, in docs/results.md: predict it (`measure`), beside what was measured, and `render`.

What `threads.py` measured on one thread is spread over the payload's tasks by what each computes and moves at the roofs
of one core. With N threads a task takes its busiest thread's share by its default config, and at least as long as all
threads need to read its weights; every parallel loop adds what gathering threads costs (`autotune doctor`), as often as
threads double. Memory is taken to read as fast with more threads as with those measured. Needs what `threads.py` needs.
"""

from math import ceil, inf, log2, prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer
from blocks import Block, file_of, keep_all, load, read, table
from threads import WORKS, efficiency

import autotune as at
from autotune.core.console import duration
from autotune.core.host.machine import Machine, Roofs, this_machine
from autotune.core.task import Task
from autotune.registry import family_for
from autotune.reports.entries import weight_bytes
from autotune.worker.bench.roofs import fork_seconds
from autotune.worker.worker import Worker

NAME = "growth.json"
COUNTS = (2, 4, 8, 16)
HEAD = ("payload", "parallel loops", "measured, 2 threads", "predicted", *(f"efficiency, {n} threads" for n in COUNTS))


def measure() -> None:
    """Predict every payload that `threads.py` measured; some two minutes."""
    found: dict[str, Any] = {}
    with Worker(threads=2) as worker:
        one, two = worker.roofs(this_machine(1)), worker.roofs(this_machine(2))
        gather = worker.call(fork_seconds, this_machine(2))
    for work in WORKS:
        data = read(file_of("threads"), work.payload)
        if data:
            with TemporaryDirectory() as folder:
                payload = at.payload(work.spec(Path(folder)))
                tasks = [each.task for each in at.tasks(payload)]
            alone = min(row["seconds"] for row in data["rows"] if row["name"] in ("default on one", "best on one"))
            reads = {1: one.dram_bytes, **dict.fromkeys(COUNTS, two.dram_bytes)}
            if payload.bytes <= this_machine().l3_bytes:
                reads = dict.fromkeys(reads, inf)
            scale = alone / sum(seconds_of(task, this_machine(1), one, reads[1]) for task in tasks)
            found[work.payload] = {
                "loops": sum(task.count for task in tasks if share_of(task, this_machine(2)) < 1.0),
                "seconds": {
                    count: sum(
                        scale * seconds_of(task, this_machine(count), one, reads[count]) + waiting(task, count, gather)
                        for task in tasks
                    )
                    for count in (1, *COUNTS)
                },
            }
    keep_all(file_of(NAME), {"gather_seconds": gather, "payloads": found})
    typer.echo(part(file_of(NAME)))


def seconds_of(task: Task, machine: Machine, roofs: Roofs, reads: float) -> float:
    """Seconds of a task in a call at the roofs of one core, all threads reading so many bytes of weights a second."""
    computing = max(task.needed_flops / roofs.flops, task.payload.bytes / roofs.l2_bytes)
    return task.count * max(computing * share_of(task, machine), weight_bytes(task.payload) / reads)


def share_of(task: Task, machine: Machine) -> float:
    """What the busiest thread does of a task by its default config."""
    config = family_for(task).default(task, machine)
    pieces = prod(int(value) for name, value in config.items() if name.startswith("pieces_"))
    return ceil(pieces / machine.threads) / pieces


def waiting(task: Task, threads: int, gather: float) -> float:
    """Seconds in a call to gather threads at the end of a task's parallel loops."""
    is_shared = threads > 1 and share_of(task, this_machine(threads)) < 1.0
    return task.count * gather * log2(threads) if is_shared else 0.0


def part(path: Path) -> str:
    """A machine's predictions beside its measurements."""
    recorded = load(path)
    rows = []
    for payload, found in recorded["payloads"].items():
        best = next(row for row in read(path.with_name("threads.json"), payload)["rows"] if row["name"] == "best")
        seconds = {int(count): value for count, value in found["seconds"].items()}
        cells = [f"`{payload}`", str(found["loops"]), f"{duration(best['seconds'])}, {efficiency(best)}"]
        cells.append(duration(seconds[2]))
        cells += [f"{seconds[1] / (count * seconds[count]):.2f}" for count in COUNTS]
        rows.append(f"| {' | '.join(cells)} |")
    gather = 1e6 * recorded["gather_seconds"]
    return f"\nIn `results/{path.parent.name}`; gathering two threads takes {gather:.1f} us.\n\n" + table(HEAD, rows)


BLOCK = Block("growth", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
