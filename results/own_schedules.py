"""Scripts of people's own: what tuning them gives, how soon the best is found, and what they cost the tuner.

`measure` tunes the scripts of schedules/examples/; measures every config of `three_ways.mlir` once and replays searches
on what was recorded; and runs a family and its own script with open knobs in turn.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import pandas as pd
from blocks import ROOT, Block, Only, keep, read, run, table

import autotune as at
from autotune.compiler.passes.pipelines import TAIL
from autotune.contrib.parametric.script import open_text
from autotune.core.candidate import Candidate
from autotune.core.evaluator import Effort, Job
from autotune.core.plugs.family import Family
from autotune.core.scripts.assembly import panels_of, script_of, write_step
from autotune.core.scripts.user_family import OwnFamily
from autotune.core.space import Config
from autotune.store.store import Store
from autotune.tuning.samplers.search import Search
from autotune.tuning.stages.task_search import SearchSetting, TaskSearch
from autotune.tuning.stages.user_script import open_own, parts_of
from autotune.tuning.tunable import TaskFamily
from autotune.worker.loading.reading import ScriptFile
from autotune.worker.worker import Worker

EXAMPLES = {
    "matmul": "matmul,m=256,n=256,k=256",
    "two_vectorizations": "matmul,m=128,n=128,k=128",
    "fuse_a_consumer": "",
    "convolution": "",
    "attention": "attention,seq=64,d=32",
}
FOLDER = ROOT.parent / "schedules" / "examples"
TRIALS = 40  # of an example
THREE_WAYS, SQUARE = "three_ways", "matmul,m=256,n=256,k=256"
SEEDS = 50
NEAR = 1.02  # as good as the best: within what equal programs differ by
COST, PAIRS = "cost", 40
HEAD = ("script", "configs", "trials", "over passes", "of the roof")


def measure(only: Only = "") -> None:
    """Tune the examples, replay searches, weigh the tuner's own cost."""
    for name, payload in EXAMPLES.items():
        if only in name:
            keep("own_schedules", name, example(name, payload))
    if only in THREE_WAYS:
        keep("own_schedules", THREE_WAYS, three_ways())
    if only in COST:
        keep("own_schedules", COST, cost())


def example(name: str, payload: str) -> dict[str, Any]:
    """What tuning a script of the gallery gives."""
    script = str(FOLDER / f"{name}.mlir")
    what = [payload, "--schedule", script] if payload else [script]
    with TemporaryDirectory() as folder:
        store = Path(folder) / "store.journal"
        command = ["autotune", "tune", *what, "--trials", str(TRIALS), "--store", str(store), "--json"]
        result = json.loads(run([*command, "--bundle", f"{folder}/bundle"]))
    own = open_own(ScriptFile.read(Path(script)))
    kept = {key: result[key] for key in ("speedup", "speedup_interval", "trials", "notes")} | result["best"]
    configs = sum(1 for _ in own.script.space(at.this_machine()).configs())
    return {**kept, "configs": configs}


def three_ways() -> dict[str, Any]:
    """The times of every config, and how many trials searches need for the best of them."""
    machine, payload = at.this_machine(), at.payload(SQUARE)
    own = open_own(ScriptFile.read(ROOT / f"{THREE_WAYS}.mlir"))
    (task,) = parts_of(payload, own).tasks
    with TemporaryDirectory() as folder, Store.open(Path(folder) / "s") as store, Worker(60.0) as worker:
        search = TaskSearch.open(task, own, SearchSetting(machine, store, SQUARE, "grid", 0))
        while search.step(worker) is not None:
            pass
        trials = search.trials
    space = own.script.space(machine)
    configs = [dict(trial.config) for trial in trials]
    assert all(space.broken_constraint(config) is None and space.settled(config) == config for config in configs)
    times = {spelled(trial.config): trial.seconds for trial in trials}
    best = min(seconds for seconds in times.values() if seconds is not None)
    return {
        "combinations": space.size,
        "configs": sum(1 for _ in space.configs()),
        "trials": len(trials),
        "best": next(name for name, seconds in times.items() if seconds == best),
        "needed": [needed(own, times, best * NEAR, seed) for seed in range(SEEDS)],
        "exactly": [needed(own, times, best, seed) for seed in range(SEEDS)],
        "seconds": times,
    }


def spelled(config: Config) -> str:
    """A config as text."""
    return ",".join(f"{name}={value}" for name, value in config.items())


def needed(own: OwnFamily, times: Mapping[str, float | None], goal: float, seed: int) -> int:
    """Trials of a search until one takes no longer than a goal, on recorded times."""
    machine = at.this_machine()
    search = Search(own.script.space(machine), own.script.default(machine), sampler="tpe", seed=seed)
    for count in range(1, len(times) + 1):
        config = search.ask()
        assert config is not None
        seconds = times[spelled(config)]
        if seconds is not None and seconds <= goal:
            return count
        search.tell(config, seconds)
    return len(times)


def cost() -> dict[str, Any]:
    """Milliseconds from a config to what is lowered, by a family and by its script with open knobs, in turn."""
    (tunable,) = at.tasks(SQUARE)
    bound, machine = tunable.family(), tunable.machine
    own = open_own(ScriptFile("open.mlir", open_text(bound.family, bound.task, machine, bound.default())))
    configs = list(own.script.space(machine).configs())
    found: dict[str, list[float]] = {"family": [], "script": []}
    with Worker(60.0) as worker:
        for config in Random(0).sample(configs, min(PAIRS, len(configs))):
            found["family"].append(milliseconds(bound, bound.family, bound.default(**config), worker))
            found["script"].append(milliseconds(bound, own, config, worker))
    return found


def milliseconds(bound: TaskFamily, family: Family, config: Config, worker: Worker) -> float:
    """Time that a trial takes before its lowering: the script written, read, and applied."""
    begun = perf_counter()
    step = write_step(bound.task, family, config, bound.machine, alone=True)
    candidate = Candidate(script_of([step]), TAIL, panels=panels_of([step]))
    written = perf_counter() - begun
    (evaluation,) = worker.evaluate(Job(bound.task.payload, (candidate,), bound.machine, effort=Effort(3, 0.05)))
    return 1e3 * (written + evaluation.phases["transform"])


def part(path: Path) -> str:
    """A recorded machine's figures."""
    rows = [row(name, data) for name in EXAMPLES if (data := read(path, name))]
    gallery = f"\nOne thread, the scripts of `schedules/examples/`:\n\n{table(HEAD, rows)}" if rows else ""
    rest = search_text(read(path, THREE_WAYS)) + weighed(read(path, COST))
    return f"\nIn `results/{path.parent.name}`:\n{gallery}{rest}"


def row(name: str, data: dict[str, Any]) -> str:
    """One line of the table."""
    (low, high), roof = data["speedup_interval"], data["roof_fraction"]
    over = f"{data['speedup']:.3g} x [{low:.3g}, {high:.3g}]"
    tried = sum(data["trials"].values())
    return f"| `{name}.mlir` | {data['configs']} | {tried} | {over} | {f'{roof:.0%}' if roof else '-'} |"


def search_text(data: dict[str, Any]) -> str:
    """How soon a search finds the best of all configs."""
    if not data:
        return ""
    third, counts = data["configs"] // 3, pd.Series(data["needed"])
    share = (counts <= third).mean()
    return (
        f"\nOf the {data['combinations']} combinations of `results/{THREE_WAYS}.mlir` {data['configs']} are "
        f"distinct and valid; a grid ran {data['trials']}. The best is `{data['best']}`. Searches on these times find "
        f"one within {NEAR - 1:.0%} of it after {median(counts):.0f} trials (median of {len(counts)} seeds), "
        f"{share:.0%} of them within a third of the space ({third}); that very one after "
        f"{median(data['exactly']):.0f}.\n"
    )


def weighed(data: dict[str, Any]) -> str:
    """The tuner's own cost."""
    if not data:
        return ""
    family, script = median(data["family"]), median(data["script"])
    more = median(b - a for a, b in zip(data["family"], data["script"], strict=True))
    return (
        f"\nUntil a config of `{SQUARE}` is lowered takes {family:.1f} ms where the family writes its script, and "
        f"{script:.1f} where it is the user's: {more:+.1f} ms (median of {len(data['family'])} equal programs).\n"
    )


BLOCK = Block("own_schedules", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
