"""Who wins which task, in docs/results.md: measure it (`measure SPEC..`), and write the table (`render`).

Schedules and back ends search every task for as many trials each; the best of each kind are raced, interleaved, on data
that no search has seen. A payload is a spec, or the file or folder of a model; trials are kept in a store, so that the
command goes on where it was stopped. Needs the extra `tvm`.
"""

from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from blocks import Block, file_of, keep, load, table

from autotune.contrib.backends.generators import open_generators
from autotune.core.console import duration
from autotune.core.task_names import tell_apart
from autotune.registry import current_name, load_baseline
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions
from autotune.tuning.stages.choose import Choice, choose_all
from autotune.tuning.stages.opening import Entrants, open_searches, setting_of
from autotune.tuning.stages.task_search import TaskSearch
from autotune.tuning.stages.workplace import open_workplace
from autotune.worker.bench.noise import measure_noise
from autotune.worker.loading.reading import open_payload, partition

SECONDS = 60.0  # that one candidate may take
HEAD = ("task", "runs", "schedule", "TVM", "schedule over TVM", "winner")
STORE = Path("build") / "backends.journal"


def measure(
    specs: Annotated[list[str] | None, typer.Argument(help="Payloads.")] = None,
    trials: Annotated[int, typer.Option(help="Of each task and kind.")] = 24,
    backend: Annotated[str, typer.Option(help="Back end.")] = "tvm",
    only: Annotated[str, typer.Option(help="Search tasks alone whose tag contains this; nothing is raced.")] = "",
) -> None:
    """Search every task of payloads by schedules and by a back end, and race the best."""
    if find_spec("tvm") is None:
        typer.echo("tasks must be searched by TVM, which is not installed; left as they are", err=True)
        return
    STORE.parent.mkdir(exist_ok=True)
    for spec in specs or ["gpt2"]:
        payload = open_payload(spec)
        tasks = partition(payload).tasks
        with (
            Store.open(STORE) as store,
            open_workplace(1, SECONDS) as workplace,
            open_generators((backend,), SECONDS) as generators,
        ):
            wanted = [task for task in tasks if only in task.tag]
            rivals, left_out = generators.families(wanted, workplace.machine)
            searches = open_searches(
                wanted,
                setting_of(payload, workplace.machine, store, TuneOptions()),
                entrants=Entrants(competing=rivals),
            )
            bench = workplace.benches()[0]
            for search in searches:
                while len(search.trials) < trials and search.step(bench) is not None:
                    pass
                typer.echo(f"{search.task.tag} by {search.family.name}: {outcomes([search])}")
            if only:
                continue
            floor = measure_noise(workplace.machine, bench)
            choices = choose_all(searches, load_baseline("passes"), floor, [bench])
        name = Path(spec).stem.partition("-")[0] if Path(spec).exists() else spec
        found = [row_of(choice, [s for s in searches if s.task.tag == choice.search.task.tag]) for choice in choices]
        names = tell_apart({task.tag: task.name for task in tasks})
        kept = {"payload": name, "backend": rivals[0].version, "trials": trials, "floor": floor}
        kept |= {"tasks": [{"name": names[row["tag"]], **row} for row in found], "left_out": list(left_out)}
        keep("backends", name, kept)
        typer.echo(part(file_of("backends")))


def outcomes(searches: list[TaskSearch]) -> dict[str, int]:
    """How many trials ended how."""
    return dict(Counter(trial.outcome for search in searches for trial in search.trials))


def row_of(choice: Choice, searches: list[TaskSearch]) -> dict[str, Any]:
    """What a task was won by."""
    mine = choice.search.family.name if choice.config is not None else "plain lowering"
    times = {mine: median(choice.samples.seconds)} if choice.samples is not None else {}
    times |= {name: median(samples.seconds) for name, samples in choice.rivals}
    tried = {search.family.name: outcomes([search]) for search in searches}
    task = choice.search.task
    return {"tag": task.tag, "count": task.count, "winner": mine, "seconds": times, "tried": tried, "note": choice.note}


def part(path: Path) -> str:
    """The table of a recorded machine."""
    return f"\nIn `results/{path.parent.name}`:\n" + "".join(map(block, load(path).values()))


def block(data: dict[str, Any]) -> str:
    """The tasks of one payload."""
    rows = [row(task, data["backend"]) for task in data["tasks"]]
    won = Counter("TVM" if "tvm" in task["winner"] else "schedule" for task in data["tasks"])
    note = f"{data['trials']} trials of each kind a task; schedules win {won['schedule']}, TVM wins {won['TVM']}"
    left = "".join(f" {sentence[:1].upper()}{sentence[1:]}." for sentence in data["left_out"])
    return f"\n`{data['payload']}`, {data['backend']}: {note}.{left}\n\n" + table(HEAD, rows)


def row(task: dict[str, Any], backend: str) -> str:
    """One line of the table."""
    theirs = task["seconds"].get("tvm")
    ours = next((seconds for name, seconds in task["seconds"].items() if name != "tvm"), None)
    cells = [
        task["name"],
        str(task["count"]),
        *(duration(each) if each is not None else "-" for each in (ours, theirs)),
    ]
    cells += [
        f"{theirs / ours:.2f} x" if ours is not None and theirs is not None else "-",
        f"`{current_name(task['winner'])}`",
    ]
    return f"| {' | '.join(cells)} |"


BLOCK = Block("backends", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
