"""The grid in docs/results.md, tasks that are not tuned: `measure` runs them, `render` writes the tables.

`grid_tasks.py` draws the tasks from a seed. Each is written as a network of PyTorch, exported to ONNX, imported,
compiled by the default configs and checked against PyTorch in float64. `--times` measures too, in turn on one core:
ours alone and called from Python, ONNX Runtime, PyTorch eager and compiled, NumPy, IREE where it is installed; with
`--trials`, what a search of so many trials finds. It may be given to a second run; one that was stopped goes on. Needs
the extras `compare`, `import` and `torch`.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from blocks import Block, home, table
from grid_tasks import grid

NAME = "grid"
OTHERS = {
    "onnxruntime": "ONNX Runtime",
    "eager": "PyTorch",
    "compiled": "torch.compile",
    "numpy": "NumPy",
    "iree": "IREE",
}
LIBRARIES = ("onnxruntime", "torch", "numpy", "iree-base-runtime")
DISTURBING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # some systems set these, and NumPy is half as fast then
PROFILE = (0.5, 0.67, 0.8, 0.9, 0.97, 1.0, 1.1, 1.5, 2.0, 4.0)
HEAD = ("kind", "tasks", "right", "alone: not slower", "over the best", "called: not slower", "over the best")
MORE = ("over ONNX Runtime", "slowest, called")
Found = dict[str, Any]


def measure(
    *,
    seed: Annotated[int, typer.Option(help="What the tasks are drawn from.")] = 0,
    trials: Annotated[int, typer.Option(help="Also measure what a search of so many trials finds.")] = 0,
    only: Annotated[str, typer.Option(help="Only tasks whose names contain this.")] = "",
    every: Annotated[int, typer.Option(help="Only one of so many tasks of a kind.")] = 1,
    times: Annotated[bool, typer.Option(help="Measure too, which wants a quiet machine.")] = False,
    without: Annotated[str, typer.Option(help="Leave these out: compiled,iree.")] = "",
    lock: Annotated[str, typer.Option(help="Hold the lock of this file while a batch is timed.")] = "",
    again: Annotated[bool, typer.Option(help="Also what is recorded.")] = False,
    fresh: Annotated[bool, typer.Option(help="Import again what was imported.")] = False,
) -> None:
    """Run every task that is not recorded yet."""
    target = home() / NAME / f"seed{seed}.json"
    known = tasks_of(target)
    wanted = mixed([task.name for task in grid(seed) if only in task.name], every)
    ways = {"program", *([f"tuned{trials}"] if trials else []), *({"compiled"} - {*without.split(",")})}
    left = [name for name in wanted if again or lacks(known.get(name), ways if times else set())]
    if not left:
        typer.echo("every task is recorded; pass --again to run them again", err=True)
        return
    options = ["--seed", str(seed)]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
        names.write("\n".join(left))
        names.flush()
        run(["import-tasks", names.name, *options, *(["--again"] if fresh else [])]).wait()
        options += ["--trials", str(trials), "--lock", lock, "--without", without, "--times" if times else "--no-times"]
        running = run(["time-tasks", names.name, *options])
        for line in running.stdout or ():
            found = json.loads(line)
            name = found.pop("name")
            known[name] = found
            write(target, seed, known)
            typer.echo(describe(name, found))


def mixed(names: Sequence[str], every: int = 1) -> list[str]:
    """One of so many names of each kind, the first of every kind first, then the second of each, and so on."""
    seen = Counter[str]()
    order: dict[str, int] = {}
    for name in names:
        order[name] = seen[name.split()[0]]
        seen[name.split()[0]] += 1
    return sorted((name for name in names if order[name] % every == 0), key=order.__getitem__)


def run(arguments: list[str]) -> "subprocess.Popen[str]":
    """Begin a command of `grid_problem.py`."""
    clean = {key: value for key, value in os.environ.items() if key not in DISTURBING}
    script = Path(__file__).with_name("grid_problem.py")
    output = subprocess.PIPE if arguments[0] == "time-tasks" else None
    return subprocess.Popen([sys.executable, str(script), *arguments], env=clean, stdout=output, text=True)


def lacks(found: Found | None, ways: set[str]) -> bool:
    """Whether a task was not run, or not measured in every one of these ways."""
    return found is None or (found["outcome"] == "right" and not ways <= found.get("times", {}).keys())


def tasks_of(path: Path) -> dict[str, Found]:
    """What is recorded of each task."""
    return dict(json.loads(path.read_text())["tasks"]) if path.exists() else {}


def write(target: Path, seed: int, tasks: dict[str, Found]) -> None:
    """Record tasks, a line each, in the order of the grid."""
    order = {task.name: n for n, task in enumerate(grid(seed))}
    kept = sorted((name for name in tasks if name in order), key=order.__getitem__)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(tasks[name])}" for name in kept)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    part.write_text(f'{{"seed": {seed}, "versions": {json.dumps(dict(versions()))}, "tasks": {{\n{lines}\n}}}}\n')
    part.rename(target)


def versions() -> Iterator[tuple[str, str]]:
    """Versions of the libraries that are installed."""
    for library in LIBRARIES:
        try:
            yield library, version(library)
        except PackageNotFoundError:
            continue


def describe(name: str, found: Found) -> str:
    """Describe a task that has run."""
    ratios = [f"{way} {ratio(found, way):.2f}" for way in ("program", "called") if "times" in found]
    return f"{name}: {', '.join(filter(None, (found['outcome'], found.get('why', ''), *ratios)))}"


def best(found: Found) -> tuple[float, str]:
    """Seconds of the fastest of the others, and which that is."""
    return min((seconds, other) for other, seconds in found["times"].items() if other in OTHERS)


def ratio(found: Found, way: str, other: str = "") -> float:
    """How many times as long as ours another takes; the fastest of them by default."""
    seconds = found["times"][other] if other else best(found)[0]
    return float(seconds / found["times"][way])


def geometric_mean(ratios: Iterable[float]) -> float:
    """Geometric mean of at least one ratio."""
    return exp(fmean(map(log, ratios)))


def share(ratios: Sequence[float], least: float = 1.0) -> str:
    """How many of some ratios are at least so much."""
    return f"{sum(each >= least for each in ratios) / len(ratios):.0%}"


def part(path: Path) -> str:
    """What is recorded of a machine, seed by seed."""
    paths = sorted(path.glob("seed*.json"))
    return f"\nIn `results/{path.parent.name}`, one thread, f32.\n" + "".join(map(part_of_seed, paths))


def part_of_seed(path: Path) -> str:
    """Tables of a seed: by kind, the profile, what is not right, what searching gains."""
    recorded = json.loads(path.read_text())
    tasks: dict[str, Found] = recorded["tasks"]
    kinds = dict.fromkeys(name.split()[0] for name in tasks)
    rows = [row(kind, {n: f for n, f in tasks.items() if n.split()[0] == kind}) for kind in kinds]
    rows.append(row("**all**", tasks))
    timed = [found for found in tasks.values() if "times" in found]
    of = ", ".join(f"{name} {number}" for name, number in recorded["versions"].items())
    text = f"\nSeed {recorded['seed']}, {len(tasks)} tasks; {of}.\n\n{table((*HEAD, *MORE), rows)}"
    if timed:
        text += profile(timed) + fastest(timed) + gains(timed)
    bad = [f"- {describe(name, found)}\n" for name, found in tasks.items() if found["outcome"] != "right"]
    return text + ("\n" + "".join(bad) if bad else "")


def row(title: str, tasks: dict[str, Found]) -> str:
    """One line of the table of kinds."""
    timed = {name: found for name, found in tasks.items() if "times" in found}
    right = sum(found["outcome"] == "right" for found in tasks.values())
    cells = [title, str(len(tasks)), str(right)]
    if not timed:
        return f"| {' | '.join((*cells, *['-'] * 6))} |"
    for way in ("program", "called"):
        ratios = [ratio(found, way) for found in timed.values()]
        cells += [share(ratios), f"{geometric_mean(ratios):.2f} x"]
    cells.append(f"{geometric_mean(ratio(found, 'called', 'onnxruntime') for found in timed.values()):.2f} x")
    slowest = min(timed, key=lambda name: ratio(timed[name], "called"))
    cells.append(f"{ratio(timed[slowest], 'called'):.2f} x: `{slowest}`")
    return f"| {' | '.join(cells)} |"


def profile(timed: Sequence[Found]) -> str:
    """How many tasks reach which ratio to the best of the others."""
    names = {"program": "alone", "called": "called"}
    rows = [
        f"| {name} | {' | '.join(share([ratio(f, way) for f in timed], least) for least in PROFILE)} |"
        for way, name in names.items()
    ]
    return "\nShare of tasks that reach so many times the speed of the best of the others:\n\n" + table(
        ("", *(f"{least:g} x" for least in PROFILE)), rows
    )


def fastest(timed: Sequence[Found]) -> str:
    """Which of the others is the fastest how often, and on how many tasks each ran."""
    first = Counter(best(found)[1] for found in timed)
    ran = Counter(other for found in timed for other in found["times"] if other in OTHERS)
    each = ", ".join(f"{OTHERS[name]} {first[name]} of {count}" for name, count in ran.items())
    return f"\nFastest of the others: {each}.\n"


def gains(timed: Sequence[Found]) -> str:
    """What searches gain over the default, both called, where one was run."""
    text = ""
    for way in sorted({way for found in timed for way in found["times"] if way.startswith("tuned")}):
        searched = [found for found in timed if way in found["times"]]
        gained = [found["times"]["called"] / found["times"][way] for found in searched]
        reached = [ratio(found, way) for found in searched]
        default = share([ratio(found, "called") for found in searched])
        text += (
            f"\nAfter {way.removeprefix('tuned')} trials, {len(searched)} of the tasks run at "
            f"{geometric_mean(gained):.3f} x the speed of the default, at most {max(gained):.2f} x; called, "
            f"{share(reached)} of them are not slower than the best of the others, {default} by default.\n"
        )
    return text


BLOCK = Block(NAME, part, measure, f"*/{NAME}")


if __name__ == "__main__":
    BLOCK.serve()
