"""Affine loops beside the other families, in docs/results.md: measure it (`measure`), and write the table (`render`).

Each task is searched by the family that is always tried and by `affine`, for as many trials each; the best of both run
in turn, on data that no search has seen, in two processes. Trials are kept in a store, so that the command goes on
where it was stopped.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from blocks import ROOT, Block, Only, file_of, keep, read, table

import autotune.tensor as T  # noqa: N812
from autotune.core.care import FULL
from autotune.core.console import duration
from autotune.core.payload import Payload
from autotune.core.stats import quiet_time, ratio_interval
from autotune.core.trial import Samples
from autotune.registry import current_name, load_payload
from autotune.store.store import Store
from autotune.tuning.options import TuneOptions
from autotune.tuning.stages.choose import RACE_EFFORT, race
from autotune.tuning.stages.opening import open_searches, setting_of
from autotune.tuning.stages.task_search import TaskSearch
from autotune.tuning.stages.workplace import open_workplace
from autotune.worker.loading.reading import open_payload, partition

SECONDS = 60.0  # that one candidate may take
NAME = "affine"
SAID = ("fuse", "order", "vectors", "jam")  # knobs of the table
HEAD = ("task", "family", "its best", "affine", "affine over it", "its config", "why")
STORE = Path("build") / "affine.journal"


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


def function(compute: Callable[[T.Tensor], T.Tensor], *shape: int) -> Callable[[], Payload]:
    """A payload of a function of one tensor."""
    return lambda: T.payload(compute, np.random.default_rng(0).standard_normal(shape).astype(np.float32))


CASES = (
    Case(
        "softmax 512 x 512",
        spec("softmax,rows=512,cols=512"),
        "the same loops; one row's exponentials in a private row, not those of a block of rows",
    ),
    Case("softmax 128 x 333", spec("softmax,rows=128,cols=333"), "the same loops; `fused` fetches the next rows ahead"),
    Case("layer norm 512 x 768", spec("layer_norm,rows=512,cols=768"), "the same loops, bound by the same loads"),
    Case("GELU 128 x 3072", spec("gelu,rows=128,cols=3072"), "one loop either way, bound by the polynomial"),
    Case(
        "matmul 256^3",
        spec("matmul,m=256,n=256,k=256"),
        "a register tile of rows by vectors too; B is read where it lies, not from panels",
    ),
    Case(
        "matmul 61 x 127 x 67",
        spec("matmul,m=61,n=127,k=67"),
        "what vectors leave over is one masked vector; `matmul` takes powers of two in turn",
    ),
    Case(
        "conv 3 x 3, 32 to 32 channels, 28 x 28",
        spec("conv,batch=1,channels=32,filters=32,size=28"),
        "4 elements of a row share a weight in registers, 14 in `sliding_window`",
    ),
    Case(
        "attention 4 x 64 x 32",
        spec("attention,heads=4,seq=64,d=32"),
        "Q times K transposed sums along rows, a vector to add up for each sum: no register tile",
    ),
    Case(
        "stencil of 3 x 3 points, 256 x 512",
        file("stencil"),
        "8 rows share a weight in registers in `sliding_window`; here LLVM's own vectors are best",
    ),
    Case(
        "max pool of 2 x 2, 32 x 112 x 112",
        file("max_pool"),
        "upstream makes no vectors of steps of two; LLVM's own are better than our shuffles",
    ),
    Case(
        "deviation of rows, 512 x 1000",
        function(lambda x: T.std(x, axis=1), 512, 1000),
        "the same loops; `fused` fetches the next rows ahead",
    ),
    Case(
        "sums of columns, 1000 x 512",
        function(lambda x: T.sum(x, axis=0), 1000, 512),
        "columns side by side, down all rows; `vectorize` goes along the sum, element by element",
    ),
    Case(
        "sum over 2 of 4 loops",
        function(lambda x: T.sum(x, axis=(1, 3)), 16, 24, 20, 64),
        "both sum a row in vectors, and add up each",
    ),
    Case(
        "product of rows, 512 x 777",
        function(lambda x: T.prod(x, axis=1), 512, 777),
        "what vectors leave over is one masked vector, not powers of two in turn",
    ),
    Case(
        "argmax, 128 x 1000",
        function(lambda x: T.argmax(x, axis=1), 128, 1000),
        "upstream has no vectors of a loop's counter: the index is found one by one",
    ),
    Case(
        "transpose 512 x 512",
        function(lambda x: T.permute_dims(x, (1, 0)) + 1, 512, 512),
        "no loop goes along both rows, so nothing becomes a vector; `transpose` does so in squares",
    ),
)


def measure(
    only: Only = "",
    trials: Annotated[int, typer.Option(help="Of each task and family.")] = 8,
) -> None:
    """Search every task by both families, and race the best."""
    STORE.parent.mkdir(exist_ok=True)
    for case in [case for case in CASES if only in case.name]:
        payload = case.payload()
        tasks = partition(payload).tasks
        task = max(tasks, key=lambda task: np.prod(task.nest.sizes))
        with Store.open(STORE) as store, open_workplace(1, SECONDS) as workplace:
            bench = workplace.benches()[0]
            searches = open_searches(
                [task], setting_of(payload, workplace.machine, store, TuneOptions(beside=(NAME,))), (NAME,)
            )
            for search in searches:
                while len(search.trials) < trials and search.step(bench) is not None:
                    pass
            best = [search.candidate(search.right[0].config) for search in searches]
            raced = race(searches[0], best, RACE_EFFORT, bench, processes=FULL.processes)
        keep(NAME, case.file, {"name": case.name, "trials": trials, **row_of(searches, raced)})
        typer.echo(row(case, read(file_of(NAME), case.file)))


def row_of(searches: list[TaskSearch], raced: list[Samples | None]) -> dict[str, Any]:
    """What became of a task: the usual family's best, and that of affine loops, in turn."""
    usual, ours = (samples.seconds if samples is not None else () for samples in raced)
    both = {search.family.name: dict(search.right[0].config) for search in searches}
    outcomes = {search.family.name: [trial.outcome for trial in search.trials] for search in searches}
    ratio = asdict(ratio_interval(ours, usual)) if ours and usual else None
    seconds = [quiet_time(each) if each else None for each in (usual, ours)]
    return {"best": both, "seconds": seconds, "ratio": ratio, "outcomes": outcomes}


def part(path: Path) -> str:
    """The table of a recorded machine."""
    found = [(case, data) for case in CASES if (data := read(path, case.file))]
    trials = max(data["trials"] for _, data in found)
    note = f"{trials} trials of each family a task, the best of both in turn; above 1 `affine` is slower"
    return f"\nIn `results/{path.parent.name}`, {note}:\n\n" + table(HEAD, [row(case, data) for case, data in found])


def row(case: Case, data: dict[str, Any]) -> str:
    """One line of the table."""
    usual = next(name for name in data["best"] if name != NAME)
    times = [duration(each) if each is not None else "-" for each in data["seconds"]]
    config = " ".join(f"{name}={value}" for name, value in data["best"][NAME].items() if name in SAID)
    ratio = "{estimate:.2f} [{low:.2f}, {high:.2f}]".format(**data["ratio"]) if data["ratio"] else "-"
    return f"| {' | '.join([case.name, f'`{current_name(usual)}`', *times, ratio, f'`{config}`', case.why])} |"


BLOCK = Block(NAME, part, measure)


if __name__ == "__main__":
    BLOCK.serve()
