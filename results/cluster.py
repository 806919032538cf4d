"""Sweeps on a cluster, in docs/results.md: their time against one worker's, and what is lost to kill -9 (`measure`).

`measure --what times` tunes nano with one worker and with two slots of this machine, by turns, a pair a seed; it needs
a quiet machine. `measure --what worker`, `scheduler` or `tuner` kills one of these at random moments of a sweep, again
and again; every call adds its kills to what is recorded. `render` writes the tables.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any

import typer
from blocks import Block, file_of, keep_all, load, table
from own_cluster import COMMAND, Processes, kill, measuring_process, processes, wait_until

from autotune.core.host.machine import this_machine
from autotune.store.store import Store

NAME = "cluster.json"
SEEDS, TRIALS = 5, 200
KILLS = 20
MOST_SECONDS = 1.5  # after a trial, until something is killed
PAYLOAD = "matmul,m=32,n=32,k=32"
TIMES, KINDS = "times", ("worker", "scheduler", "tuner")
HEAD_TIMES = ("seed", "one worker", "two slots", "of it", "search", "of it", "winner, two slots over one")
HEAD_KILLS = ("killed", "times", "trials finished", "lost", "recorded twice")

What = Annotated[str, typer.Option(help=f"{TIMES}, {', '.join(KINDS)}.")]


def measure(
    what: What = TIMES,
    seeds: Annotated[int, typer.Option(help="Pairs of sweeps, for times.")] = SEEDS,
    trials: Annotated[int, typer.Option(help="Trials of a sweep, for times.")] = TRIALS,
    kills: Annotated[int, typer.Option(help="Kills of this call.")] = KILLS,
) -> None:
    """Measure times (some ten minutes, alone on the machine), or kill something again and again."""
    target = file_of(NAME)
    found: dict[str, Any] = load(target) or {"kills": []}
    with tempfile.TemporaryDirectory() as folder:
        if what == TIMES:
            found[TIMES] = measure_times(Path(folder), seeds, trials)
        elif what in KINDS:
            found["kills"].append(kill_again_and_again(Path(folder), what, kills))
        else:
            raise typer.BadParameter(f"--what must be {TIMES} or one of {', '.join(KINDS)}; got {what!r}")
    found["machine"] = asdict(this_machine())
    keep_all(target, found)
    typer.echo(part(target))


def measure_times(folder: Path, seeds: int, trials: int) -> dict[str, Any]:
    """Sweeps with one worker and with two slots, by turns."""
    load, pairs = os.getloadavg()[0], []
    for seed in range(seeds):
        ways = {"one": [], "two": ["--cluster", "local:2"]}
        order = sorted(ways, reverse=seed % 2 == 1)
        pair = {way: tune(folder / f"{way}{seed}", seed, trials, ways[way]) for way in order}
        pairs.append({"seed": seed} | pair)
    return {"payload": "nano", "trials": trials, "load": load, "pairs": pairs}


def tune(folder: Path, seed: int, trials: int, options: list[str]) -> dict[str, Any]:
    """One sweep of nano: what `tune --json` says of its time and winner, and what each trial cost."""
    folder.mkdir()
    words = ["tune", "nano", "--seed", seed, "--trials", trials, "--cold", "--store", "store", "--bundle", "bundle"]
    command = [sys.executable, *COMMAND, *map(str, words), "--json", *options]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=folder).stdout)
    with Store.read(folder / "store") as store:
        costs = [sum(trial.phases.values()) for sweep in store.sweeps() for trial in sweep.recorded]
    kept = ("seconds", "search_seconds", "overhead_seconds", "evaluated", "speedup", "noise_floor")
    best = {"best_seconds": result["best"]["seconds"], "costs": [round(cost, 5) for cost in costs if cost]}
    return {name: result[name] for name in kept} | best


def kill_again_and_again(folder: Path, what: str, kills: int) -> dict[str, Any]:
    """Kill a part of a cluster at random moments of one sweep; what became of the trials that were finished then."""
    begun, draw = time.perf_counter(), random.Random(f"{what} {time.time()}")
    with processes(folder) as cluster:
        sweep, finished = KilledSweep(cluster, folder / "store"), set[str]()
        for number in range(kills):
            before = len(sweep.keys())
            wait_until(lambda seen=before: len(sweep.keys()) > seen or sweep.ended(), "a trial")  # type: ignore[misc]
            time.sleep(draw.uniform(0, MOST_SECONDS))
            sweep.strike(what)
            finished |= set(sweep.keys())
            sweep.mend(what)
            typer.echo(f"{what}: {number + 1} kills, {len(finished)} trials finished", err=True)
        recorded = sweep.finish()
    return {
        "what": what,
        "kills": kills,
        "trials": len(recorded),
        "lost": len(finished - set(recorded)),
        "repeated": len(recorded) - len(set(recorded)),
        "seconds": time.perf_counter() - begun,
    }


class KilledSweep:
    """A sweep on a cluster of one machine whose processes are killed."""

    def __init__(self, cluster: Processes, store: Path) -> None:
        self.cluster, self.store = cluster, store
        self.machine = cluster.join()
        self.tuner = self.tune(10_000)

    def tune(self, trials: int) -> subprocess.Popen[bytes]:
        """Begin the sweep, or go on with it."""
        words = ("tune", PAYLOAD, "--trials", str(trials), "--cold", "--cluster", str(self.cluster.file))
        return self.cluster.start(*COMMAND, *words, "--store", str(self.store), "--bundle", "bundle")

    def keys(self) -> list[str]:
        """Keys of the trials that are recorded."""
        if not self.store.exists():
            return []
        with Store.read(self.store) as store:
            return [trial.key for sweep in store.sweeps() for trial in sweep.recorded]

    def ended(self) -> bool:
        """Whether the tuner has ended by itself, which it must not; says why."""
        if self.tuner.poll() is not None:
            raise SystemExit(
                f"a sweep must go on, it ended with {self.tuner.returncode}: {self.cluster.logs()[-2000:]}"
            )
        return False

    def strike(self, what: str) -> None:
        """Kill."""
        if what == "worker":
            wait_until(lambda: measuring_process(self.machine), "a worker").kill()  # type: ignore[union-attr]
        else:
            kill(self.tuner if what == "tuner" else self.cluster.scheduler)

    def mend(self, what: str) -> None:
        """Do what the pages say that one does then."""
        if what == "worker":  # Dask starts it again
            return
        if what == "scheduler":
            wait_until(lambda: self.tuner.poll() is not None, "the tuner's end")
            kill(self.machine)
            self.cluster.schedule()
            self.machine = self.cluster.join()
        self.tuner = self.tune(10_000)

    def finish(self) -> list[str]:
        """Let the sweep end as it should, with a few trials more; keys of all trials."""
        kill(self.tuner)
        self.tuner = self.tune(len(self.keys()) + 2)
        if self.tuner.wait(timeout=300) != 0:
            raise SystemExit(f"a sweep must end, it did with {self.tuner.returncode}: {self.cluster.logs()[-2000:]}")
        return self.keys()


def part(path: Path) -> str:
    """A machine's tables."""
    found = load(path)
    machine = found["machine"]
    text = f"\nIn `results/{path.parent.name}`: {machine['cpu']}, {machine['cores']} cores.\n\n"
    return text + (times_part(found[TIMES]) if TIMES in found else "") + kills_part(found["kills"])


def times_part(times: dict[str, Any]) -> str:
    """Two slots against one worker."""
    pairs = times["pairs"]
    shares = [pair["two"]["seconds"] / pair["one"]["seconds"] for pair in pairs]
    gains = [pair["two"]["speedup"] / pair["one"]["speedup"] for pair in pairs]
    floor = max(pair[way]["noise_floor"] for pair in pairs for way in ("one", "two"))
    rows = [time_row(pair, share, gain) for pair, share, gain in zip(pairs, shares, gains, strict=True)]
    together = exp(fmean(map(log, gains)))
    return (
        f"`tune {times['payload']} --trials {times['trials']}`, load {times['load']:.1f} when it began: two slots take "
        f"{median(shares):.2f} of the time of one worker (median of {len(pairs)} seeds), and find a winner that is "
        f"{together:.3f} times as fast (a winner's speed-up over the baseline; the noise floor is {floor:.1%}).\n\n"
        + table(HEAD_TIMES, rows)
        + "\n"
    )


def time_row(pair: dict[str, Any], share: float, gain: float) -> str:
    """One seed."""
    one, two = pair["one"], pair["two"]
    searching = two["search_seconds"] / one["search_seconds"]
    cells = (f"{one['seconds']:.1f} s", f"{two['seconds']:.1f} s", f"{share:.2f}", f"{two['search_seconds']:.1f} s")
    return f"| {pair['seed']} | {' | '.join(cells)} | {searching:.2f} | {gain:.3f} |"


def kills_part(sessions: list[dict[str, Any]]) -> str:
    """What kills cost, by what was killed."""
    rows = []
    for what in KINDS:
        mine = [session for session in sessions if session["what"] == what]
        sums = [sum(session[name] for session in mine) for name in ("kills", "trials", "lost", "repeated")]
        rows += [f"| {what} | {' | '.join(map(str, sums))} |"] if mine else []
    return table(HEAD_KILLS, rows) if rows else ""


BLOCK = Block("cluster", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
