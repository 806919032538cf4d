"""Record this machine's noise for test_noise.py, in about three minutes, with nothing else running.

    python tests/noise/record.py

Writes tests/noise/<machine>.json.gz: `same`, pairs of one program compiled twice (by turns one that computes and one
that reads memory), and `slower_5_percent`, pairs of which the second does 5 % more work: nanoseconds a call.
"""

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from autotune.core.host.machine import this_machine
from autotune.worker.bench.noise import NoisePair, time_copies, time_unequal
from autotune.worker.worker import Worker

SLOWER = 1.05


def record(
    pairs: Annotated[int, typer.Option(min=4, help="Of each kind.")] = 100,
    folder: Annotated[Path, typer.Option(help="Where to write.")] = Path(__file__).parent,
) -> None:
    """Time pairs of programs, and keep every sample."""
    machine, load = this_machine(), os.getloadavg()[0]
    with Worker() as worker:
        same = time_copies(machine, worker, pairs)
        slower = time_unequal(machine, worker, pairs, SLOWER)
    found = {
        "what": f"nanoseconds a call, interleaved pairs; {machine.cpu}, {machine.cores} cores, load {load:.1f} before",
        "same": nanoseconds(same),
        "slower_5_percent": nanoseconds(slower),
    }
    path = folder / f"{machine.microarchitecture}-{machine.fingerprint[:8]}.json.gz"
    path.write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))
    typer.echo(path)


def nanoseconds(pairs: Sequence[NoisePair]) -> list[list[list[int]]]:
    """Both programs' samples of every pair."""
    return [[[round(1e9 * seconds) for seconds in side] for side in (pair.a, pair.b)] for pair in pairs]


if __name__ == "__main__":
    typer.run(record)
