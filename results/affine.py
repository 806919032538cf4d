"""Affine loops beside the other families, in docs/results.md: measure it (`measure`), and write the table (`render`).

Each task is searched by the family that is always tried and by `affine`, for as many trials each; the best of both are
raced, interleaved, on data that no search has seen. Trials are kept in a store, so that the command goes on where it
was stopped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import typer
from blocks import ROOT, Only, home, keep, read, serve, table

import autotune.tensor as T  # noqa: N812
from autotune.core.payload import Payload
from autotune.registry import load_baseline, load_payload
from autotune.reports.format import duration
from autotune.store.store import Store
from autotune.tuning.choose import Choice, choose_all
from autotune.tuning.opening import open_searches
from autotune.tuning.task_search import TaskSearch
from autotune.tuning.tune import TuneOptions
from autotune.tuning.workplace import open_workplace
from autotune.worker.noise import measure_noise
from autotune.worker.reading import open_payload, partition

SECONDS = 60.0  # that one candidate may take
NAME = "affine"
HEAD = ("task", "family", "its best", "affine", "affine over it", "affine config", "why")
STORE = Path("build") / "affine.journal"


def some(*shape: int) -> np.ndarray[Any, Any]:
    """Numbers of a shape."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """A task of the table.

    Attributes:
        name: What it is called there.
        payload: Makes the payload, of one task.
        why: Reason for what is measured, as the code produced shows it.
    """

    name: str
    payload: Callable[[], Payload]
    why: str

    @property
    def file(self) -> str:
        """The name as that of a file."""
        return "_".join(self.name.replace("^", "").replace(",", "").split())


def spec(text: str) -> Callable[[], Payload]:
    """A registered payload."""
    return lambda: load_payload(text)


def file(name: str) -> Callable[[], Payload]:
    """A payload of a file."""
    return lambda: open_payload(ROOT / "payloads" / f"{name}.mlir")


CASES = (
    Case("softmax 512 x 512", spec("softmax,rows=512,cols=512"), ""),
    Case("softmax 128 x 333", spec("softmax,rows=128,cols=333"), ""),
    Case("layer norm 512 x 768", spec("layer_norm,rows=512,cols=768"), ""),
    Case("GELU 128 x 3072", spec("gelu,rows=128,cols=3072"), ""),
    Case("matmul 256^3", spec("matmul,m=256,n=256,k=256"), ""),
    Case("conv 3 x 3, 32 to 32 channels, 28 x 28", spec("conv,batch=1,channels=32,filters=32,size=28"), ""),
    Case("matmul 61 x 127 x 67", spec("matmul,m=61,n=127,k=67"), ""),
    Case("attention 4 x 64 x 32", spec("attention,heads=4,seq=64,d=32"), ""),
    Case("stencil of 3 x 3 points, 256 x 512", file("stencil"), ""),
    Case("max pool of 2 x 2, 32 x 112 x 112", file("max_pool"), ""),
    Case("deviation of rows, 512 x 1000", lambda: T.payload(lambda x: T.std(x, axis=1), some(512, 1000)), ""),
    Case("sums of columns, 1000 x 512", lambda: T.payload(lambda x: T.sum(x, axis=0), some(1000, 512)), ""),
    Case("sum over 2 of 4 loops", lambda: T.payload(lambda x: T.sum(x, axis=(1, 3)), some(16, 24, 20, 64)), ""),
    Case("product of rows, 512 x 777", lambda: T.payload(lambda x: T.prod(x, axis=1), some(512, 777)), ""),
    Case("place of a maximum, 128 x 1000", lambda: T.payload(lambda x: T.argmax(x, axis=1), some(128, 1000)), ""),
    Case("transpose 512 x 512", lambda: T.payload(lambda x: T.permute_dims(x, (1, 0)) + 1, some(512, 512)), ""),
)


def measure(
    only: Only = "",
    trials: Annotated[int, typer.Option(help="Of each task and family.")] = 12,
) -> None:
    """Search every task by both families, and race the best."""
    STORE.parent.mkdir(exist_ok=True)
    for case in [case for case in CASES if only in case.name]:
        payload = case.payload()
        tasks = partition(payload).tasks
        task = max(tasks, key=lambda task: np.prod(task.nest.sizes))
        with Store.open(STORE) as store, open_workplace(1, SECONDS) as place:
            bench = place.benches()[0]
            searches = open_searches(payload, [task], place.machine, store, TuneOptions(beside=(NAME,)))
            for search in searches:
                while len(search.trials) < trials and search.step(bench) is not None:
                    pass
            floor = measure_noise(place.machine, bench)
            (choice,) = choose_all(searches, load_baseline("passes"), floor, [bench])
        keep(NAME, case.file, {"name": case.name, "trials": trials, "floor": floor, **row_of(choice, searches)})
        typer.echo(row(case, read(home() / NAME, case.file)))


def row_of(choice: Choice, searches: list[TaskSearch]) -> dict[str, Any]:
    """What became of a task."""
    mine = choice.search.family.name if choice.config is not None else "plain lowering"
    times = {mine: median(choice.samples.seconds)} if choice.samples is not None else {}
    times |= {name: median(samples.seconds) for name, samples in choice.rivals}
    best = {search.family.name: dict(search.right[0].config) for search in searches if search.right}
    outcomes = {s.family.name: [trial.outcome for trial in s.trials] for s in searches}
    return {"winner": mine, "seconds": times, "best": best, "outcomes": outcomes, "note": choice.note}


def part(folder: Path) -> str:
    """The table of a recorded machine."""
    if not folder.is_dir():
        return ""
    found = [(case, data) for case in CASES if (data := read(folder, case.file))]
    trials = max(data["trials"] for _, data in found)
    said = f"{trials} trials of each family a task, the best of both raced; above 1 `affine` is slower"
    return f"\nIn `results/{folder.parent.name}`, {said}:\n\n" + table(HEAD, [row(case, data) for case, data in found])


def row(case: Case, data: dict[str, Any]) -> str:
    """One line of the table."""
    usual = next((name for name in data["seconds"] if name != NAME), "plain lowering")
    ours, theirs = data["seconds"].get(NAME), data["seconds"].get(usual)
    times = [duration(each) if each is not None else "-" for each in (theirs, ours)]
    config = " ".join(f"{name}={value}" for name, value in data["best"].get(NAME, {}).items() if name != "math")
    ratio = f"{ours / theirs:.2f}" if ours is not None and theirs is not None else "-"
    return f"| {' | '.join([case.name, f'`{usual}`', *times, ratio, f'`{config}`', case.why])} |"


if __name__ == "__main__":
    serve(NAME, measure, part)
