"""What a store on a PostgreSQL server costs, in docs/results.md: measure it (`measure`), write its table (`render`).

A server of its own on this host, with the settings that it is delivered with, so that each trial is on the disk when it
is recorded. A trial's cost is all that a search asks of the store for it: news, a claim, news, the record, the claim
given back. It is measured in an empty store and in one of so many trials; then `autotune inspect` shows all of these.
"""

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
from blocks import ROOT, Block, file_of, keep_all, load, table
from own_postgres import OwnPostgres, own_postgres
from sqlalchemy import create_engine, text

from autotune.contrib.postgres.address import read_address
from autotune.core.host.machine import this_machine
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
# The first sweep's rows once more for each number of a further sweep; no law is checked that the first one keeps.
COPIES = """
set local session_replication_role = replica;
create temporary table further as select generate_series(1, :last) as sweep;
insert into studies select study_id + sweep, replace(study_name, 'model0/matmul_0/',
    'model' || sweep / 50 || '/matmul_' || sweep || '/') from studies, further where study_id = 2;
insert into study_directions (direction, study_id, objective)
    select direction, study_id + sweep, objective from study_directions, further where study_id = 2;
insert into study_user_attributes (study_id, key, value_json) select study_id + sweep, key,
    replace(replace(value_json, '"model0"', '"model' || sweep / 50 || '"'), 'matmul_0', 'matmul_' || sweep)
    from study_user_attributes, further where study_id = 2;
insert into trials select trial_id + sweep * :size, number, study_id + sweep, state, datetime_start, datetime_complete
    from further, trials where study_id = 2 order by 1;
insert into trial_params (trial_id, param_name, param_value, distribution_json)
    select trial_id + sweep * :size, param_name, param_value, distribution_json from further, trial_params;
insert into trial_values (trial_id, objective, value, value_type)
    select trial_id + sweep * :size, objective, value, value_type from further, trial_values;
insert into trial_user_attributes (trial_id, key, value_json)
    select trial_id + sweep * :size, key, replace(value_json, 'matmul_0', 'matmul_' || sweep)
    from further, trial_user_attributes;
insert into trial_system_attributes (trial_id, key, value_json)
    select trial_id + sweep * :size, key, value_json from further, trial_system_attributes;
select setval('studies_study_id_seq', max(study_id)) from studies;
select setval('trials_trial_id_seq', max(trial_id)) from trials
"""
HEAD = ("store", "trials in it", "a trial", "nine of ten within", "inspect", "memory of it", "written at once")


def space_of(knobs: int) -> Space:
    """A space of so many knobs."""
    return Space(tuple(Knob(f"register_width_{number}", (1, 2, 4, 8, 16, 32)) for number in range(knobs)))


def make_trial(task: str, number: int, space: Space) -> Trial:
    """A made-up trial as large as those of a sweep; every tenth failed."""
    config = {knob.name: knob.values[(number * (3 + position)) % 6] for position, knob in enumerate(space.knobs)}
    seconds = 1e-3 * (1 + (number * 7919 % 1009) / 1009)
    times = tuple(seconds * (1 + 0.001234567 * sample) for sample in range(12))
    samples = Samples(times, tuple(1.1e-4 + 1e-9 * sample for sample in range(12)), 4, 1e-4, 1.1e-4)
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
    """Fill an empty store, a thousand trials a sweep; seconds that writing took of each.

    One sweep is written by us; the server copies it under other names, in a minute instead of ten.
    """
    space = space_of(FEWER)
    default = make_trial("matmul_0", 0, space).config
    records = [to_record(make_trial("matmul_0", number, space), space) for number in range(A_SWEEP)]
    with Store.open(location) as store:
        name = store.sweep("model0", "matmul_0", IDENTITY, flops=2e9, size=1e6, default=default).name
        log, begun = store.log(name, "trial"), time.perf_counter()
        log.extend(records)
        seconds = (time.perf_counter() - begun) / A_SWEEP
    engine = create_engine(read_address(location))
    with engine.begin() as connection:
        for statement in COPIES.split(";"):
            connection.execute(text(statement), {"last": trials // A_SWEEP - 1, "size": A_SWEEP})
    run_alone(location, "vacuum analyze")  # as a server does by itself within a minute
    return seconds


def run_alone(location: str, statement: str) -> None:
    """Run a statement that may be in no transaction."""
    with create_engine(read_address(location), isolation_level="AUTOCOMMIT").connect() as connection:
        connection.execute(text(statement))


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
    empty = {"store": "PostgreSQL", "trials": 0, "seconds": measure_store(server.url())}
    run_alone(server.url(), "create database filled")
    url = server.url("filled")
    writing = fill(url, trials)
    found = {"store": "PostgreSQL", "trials": trials, "seconds": measure_store(url)}
    return [empty, found | {"writing": writing, "inspect": inspect(url)}]


def measure(
    trials: Annotated[int, typer.Option(help="Trials of the filled store.")] = TRIALS,
) -> None:
    """Measure a journal and a server; some two minutes, 6 GB of disk."""
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
    target = file_of(NAME)
    keep_all(target, found)
    typer.echo(part(target))


def part(path: Path) -> str:
    """A machine's rows."""
    found = load(path)
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
        cells.append(f"{1e6 * data['writing']:.0f} us a trial")
    else:
        cells += ["", "", ""]
    return f"| {' | '.join(cells)} |"


BLOCK = Block("database", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
