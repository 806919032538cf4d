"""KernelBench's public problems in docs/results.md: `measure FOLDER` runs them, `render` writes the table.

FOLDER holds level1, level2 .. as https://github.com/ScalingIntelligence/KernelBench has them in KernelBench/. Each
problem is shrunk by the rule of `kernelbench_problem.py`, exported by torch.export, imported, compiled by the default
configs, and checked against PyTorch in float64, on its own inputs and with NaN and infinities among them. `--times`
measures too, in turn on one core: the program alone, called from Python, PyTorch eager, torch.compile; it may be given
to a second run, which measures what is recorded as right. A run that was stopped goes on. Needs the extras `import` and
`torch`.
"""

import contextlib
import json
import os
import signal
import tempfile
from collections.abc import Iterable, Iterator
from math import exp, log
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from blocks import Block, file_of, keep, load, read, table

NAME = "kernelbench"
WAYS = ("program", "called")
RIVALS = {"eager": "eager", "compiled": "torch.compile"}
HEAD = (
    *("problems", "number", "right", "wrong", "refused"),
    *(f"{way}, over {rival}" for rival in RIVALS.values() for way in ("alone", "called")),
)
Found = dict[str, Any]


def measure(
    folder: Annotated[Path | None, typer.Argument(help="Folder with level1, level2 ..")] = None,
    *,
    level: Annotated[list[int], typer.Option(help="A level; give it several times.")] = [1, 2],  # noqa: B006
    only: Annotated[str, typer.Option(help="Only problems whose name contains this.")] = "",
    times: Annotated[bool, typer.Option(help="Measure too, which wants a quiet machine.")] = False,
    again: Annotated[str, typer.Option(help="Run these again: all, or wrong, refused, failed.")] = "",
    limit: Annotated[float, typer.Option(help="Seconds that a problem may take.")] = 300.0,
) -> None:
    """Run every problem that is not recorded yet; without a folder, leave what is recorded."""
    if folder is None:
        typer.echo("no folder of problems is given, what is recorded stays; pass one", err=True)
        return
    if not (there := list(problems(folder, level))):
        raise typer.BadParameter(f"FOLDER must hold level1/*.py, level2/*.py .., {folder} holds none")
    for number, path in there:
        name = f"level{number}-{path.stem}"
        known = read(file_of(NAME), name)
        left = not known or again in ("all", known["outcome"]) or (times and lacks_times(known))
        if only in name and left:
            found = run_one(path, times=times, limit=limit)
            keep(NAME, name, {"problem": path.stem, "level": number, **found})
            typer.echo(line(name, found))


def problems(folder: Path, levels: Iterable[int]) -> Iterator[tuple[int, Path]]:
    """Level and file of each problem, in the order of their numbers."""
    for level in levels:
        for path in sorted((folder / f"level{level}").glob("*.py"), key=lambda p: int(p.stem.partition("_")[0])):
            yield level, path


def lacks_times(known: Found) -> bool:
    """Whether a recorded problem is right and was not measured."""
    return known["outcome"] == "right" and "times" not in known


def run_one(path: Path, *, times: bool, limit: float) -> Found:
    """Run a problem in a process group of its own, which ends with it."""
    from kernelbench_problem import record  # PyTorch is loaded once, and only to measure

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "record.json"
        running = get_context("fork").Process(target=record, args=(path, target, times))
        running.start()
        running.join(limit)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid or 0, signal.SIGKILL)
        running.join()
        if target.exists():
            return dict(json.loads(target.read_text()))
        output = target.with_suffix(".txt").read_text().strip().splitlines() or ["it said nothing"]
        ended = f"exit code {running.exitcode}" if running.exitcode != -signal.SIGKILL else f"not done in {limit:g} s"
        return {"outcome": "failed", "why": f"{ended}: {output[-1][:300]}"}


def line(name: str, found: Found) -> str:
    """What is said of a problem once it has run."""
    why = found.get("why") or "; ".join(f"{case}: {what}" for case, what in found.get("wrong", {}).items())
    ratios = ", ".join(
        f"{way} / {rival} {ratio(found, way, rival):.2f}" for rival in RIVALS for way in WAYS if timed(found)
    )
    return f"{name}: {', '.join(filter(None, (found['outcome'], why, ratios)))}"


def timed(found: Found) -> bool:
    """Whether a problem was measured."""
    return "times" in found


def ratio(found: Found, way: str, rival: str) -> float:
    """How many times as long as ours a rival takes."""
    seconds = found["times"]["seconds"]
    return float(seconds[rival] / seconds[way])


def geometric_mean(ratios: Iterable[float]) -> str:
    """Mean of ratios; a dash where there are none."""
    logs = [log(each) for each in ratios]
    return f"{exp(fmean(logs)):.2f} x" if logs else "-"


def part(path: Path) -> str:
    """A recorded machine's table: by level and kind, then all, then whatever is not right."""
    found = list(load(path).values())
    kinds = sorted({(each["level"], kind_of(each)) for each in found})
    rows = [row(f"level {a}: {b}", [f for f in found if (f["level"], kind_of(f)) == (a, b)]) for a, b in kinds]
    levels = sorted({each["level"] for each in found})
    rows += [row(f"**level {level}**", [f for f in found if f["level"] == level]) for level in levels]
    rows.append(row("**all**", found))
    others = [each for each in found if each["outcome"] != "right"]
    bad = [f"- {line(title(each), each)}\n" for each in others]
    worst = max((each.get("error", 0.0) for each in found), default=0.0)
    note = f"Largest error on finite inputs, as a share of the largest value: {worst:.0e}.\n"
    return f"\nIn `results/{path.parent.name}`, one thread, default configs.\n\n{table(HEAD, rows)}\n{note}" + (
        "\n" + "".join(bad) if bad else ""
    )


def title(found: Found) -> str:
    """A problem as it is named to people."""
    return f"level {found['level']}, {found['problem']}"


def kind_of(found: Found) -> str:
    """What a problem is about."""
    return str(found.get("kind", "not exported"))


def row(name: str, found: list[Found]) -> str:
    """One line of the table."""
    outcomes = [each["outcome"] for each in found]
    counts = [len(found), *(outcomes.count(outcome) for outcome in ("right", "wrong"))]
    counts.append(len(found) - sum(counts[1:]))
    means = [geometric_mean(ratio(f, way, r) for f in found if timed(f)) for r in RIVALS for way in WAYS]
    return f"| {' | '.join((name, *map(str, counts), *means))} |"


BLOCK = Block(NAME, part, measure)


if __name__ == "__main__":
    BLOCK.serve()
