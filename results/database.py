"""What a store on a PostgreSQL server costs, in docs/results.md: measure it (`measure`), write its table (`render`).

A server of its own on this host, with the settings that it is delivered with, so that each trial is on the disk when it
is recorded. A trial's cost is all that a search asks of the store for it: news, a claim, news, the record, the claim
given back. It is measured in an empty store and in one of so many trials; then `autotune inspect` shows all of these.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from blocks import ROOT, home, serve, table
from own_postgres import OwnPostgres, own_postgres

from autotune.core.machine import this_machine
from autotune.core.space import Knob, Space
from autotune.core.trial import Samples, Trial
from autotune.store.store import Store
from autotune.store.sweep import Sweep, to_record

NAME = "database.json"
KNOBS = 22  # of the widest family
FEWER = 8  # of the trials that fill the store
TRIALS = 1_000_000
A_SWEEP = 1000  # trials
MEASURED = 300  # trials whose cost is measured
IDENTITY = {"payload_sha256": "a" * 64, "machine": "m", "compiler": "MLIR 22.1.8", "knobs": "b" * 64}
HEAD = ("store", "trials in it", "a trial", "nine of ten within", "inspect", "memory of it", "writing it")


def space_of(knobs: int) -> Space:
    """A space of so many knobs."""
    return Space(tuple(Knob(f"register_width_{number}", (1, 2, 4, 8, 16, 32)) for number in range(knobs)))


def make_trial(task: str, number: int, space: Space) -> Trial:
    """A made-up trial as large as those of a sweep; every tenth failed."""
    config = {knob.name: knob.values[(number * (3 + place)) % 6] for place, knob in enumerate(space.knobs)}
    seconds = 1e-3 * (1 + (number * 7919 % 1009) / 1009)
    times = tuple(seconds * (1 + 0.001234567 * place) for place in range(12))
    samples = Samples(times, tuple(1.1e-4 + 1e-9 * place for place in range(12)), 4, 1e-4, 1.1e-4)
    phases = {"transform": 0.0123, "lower": 0.0456, "jit": 0.0789, "verify": 0.00123, "measure": 0.25}
    key = sha256(f"{task} {number}".encode()).hexdigest()
    if number % 10 == 9:
        return Trial(task, number, config, "crashed", key, "matmul", None, None, "signal 11", phases)
    return Trial(task, number, config, "ok", key, "matmul", samples, 1e-6, "", phases, "c" * 64, "d" * 64)


def cost(sweep: Sweep, space: Space, count: int) -> list[float]:
    """Seconds that the store takes of each trial of a search."""
    found = []
    first = len(sweep.recorded)
    for number in range(first, first + count):
        trial = make_trial("measured", number, space)
        begun = time.perf_counter()
        sweep.refresh()
        sweep.claim(trial.key)
        sweep.add(trial, space)
        sweep.release(trial.key)
        found.append(time.perf_counter() - begun)
    return found


def fill(location: str, trials: int) -> float:
    """Fill a store, a thousand trials a sweep; seconds that it took."""
    space, begun = space_of(FEWER), time.perf_counter()
    with Store.open(location) as store:
        for number in range(trials // A_SWEEP):
            task = f"matmul_{number}"
            default = make_trial(task, 0, space).config
            name = store.sweep(f"model{number // 50}", task, IDENTITY, flops=2e9, size=1e6, default=default).name
            log = store.log(name, "trial")
            log.extend([to_record(make_trial(task, place, space), space) for place in range(A_SWEEP)])
    return time.perf_counter() - begun


def inspect(location: str) -> dict[str, float]:
    """Seconds and bytes that `autotune inspect` takes."""
    program = "import resource, sys; from autotune.cli import main\ntry: main()\nfinally: sys.stderr.write("
    program += "f'{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}')"
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program, "inspect", location], check=True, capture_output=True, text=True
    )
    return {"seconds": time.perf_counter() - begun, "bytes": 1024 * int(done.stderr.split()[-1])}


def measure_store(location: str) -> list[float]:
    """Seconds of each of some trials of one search."""
    space = space_of(KNOBS)
    with Store.open(location) as store:
        return cost(store.sweep("measured", "measured", IDENTITY), space, MEASURED)


def measure_server(server: OwnPostgres, trials: int) -> list[dict[str, Any]]:
    """The rows of a server: empty, and filled."""
    url = server.url()
    empty = {"store": "PostgreSQL", "trials": 0, "seconds": measure_store(url)}
    writing = fill(url, trials)
    found = {"store": "PostgreSQL", "trials": trials, "seconds": measure_store(url)}
    return [empty, found | {"writing": writing, "inspect": inspect(url)}]


def measure(
    trials: Annotated[int, typer.Option(help="Trials of the filled store.")] = TRIALS,
) -> None:
    """Measure a journal and a server; some ten minutes, 6 GB of disk."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [{"store": "journal", "trials": 0, "seconds": measure_store(f"{folder}/store.journal")}]
    with own_postgres() as server:
        rows += measure_server(server, trials)
        version = subprocess.run(
            [server.programs / "postgres", "--version"], capture_output=True, text=True, check=True
        )
    found = {
        "machine": asdict(this_machine()),
        "server": version.stdout.split(" (")[0].strip(),
        "knobs": KNOBS,
        "load": os.getloadavg()[0],
        "rows": rows,
    }
    target = home() / NAME
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(found) + "\n")
    typer.echo(part(target))


def part(path: Path) -> str:
    """A machine's rows."""
    found = json.loads(path.read_text())
    machine = found["machine"]
    return (
        f"\nIn `{path.parent.relative_to(ROOT.parent)}`: {machine['cpu']}, {found['server']}, trials of "
        f"{found['knobs']} knobs and 12 samples; load {found['load']:.1f} in the end:\n\n"
        + table(HEAD, list(map(row, found["rows"])))
    )


def row(data: dict[str, Any]) -> str:
    """One line of the table."""
    costs = sorted(data["seconds"])
    cells = [data["store"], f"{data['trials']:,}", f"{1e3 * median(costs):.1f} ms"]
    cells.append(f"{1e3 * costs[len(costs) * 9 // 10]:.1f} ms")
    if "inspect" in data:
        cells += [f"{data['inspect']['seconds']:.1f} s", f"{data['inspect']['bytes'] / 2**20:.0f} MiB"]
        cells.append(f"{1e6 * data['writing'] / data['trials']:.0f} us a trial")
    else:
        cells += ["", "", ""]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    serve("database", measure, part, NAME)
