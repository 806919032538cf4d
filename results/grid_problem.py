"""Tasks of the grid, each in a process of its own: written as models, imported, compiled, checked, timed.

Two commands, as importing has an MLIR of its own that must not meet ours: `import-tasks` writes each task as an ONNX
model and imports it, `time-tasks` does the rest. Both do several tasks at once but for what is timed: a batch of tasks
is made ready, then each in turn is timed alone.
"""

import contextlib
import fcntl
import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer
from blocks import ROOT
from grid_tasks import GridTask, grid

if TYPE_CHECKING:
    from grid_models import Problem

    from autotune.core.payload import Payload

FILES = ROOT.parent / "build" / "grid"
ROUNDS, ROUND_SECONDS = 9, 0.008
LIMIT = 400.0  # seconds that a task may take to be made ready, or to be timed
JOBS, BATCH = 2, 12
HIGHEST = -15  # priority of what is timed, where that is allowed
Found = dict[str, Any]
Ways = dict[str, Callable[[int], object]]


@dataclass(frozen=True)
class How:
    """How tasks are measured; see `time_tasks`."""

    seed: int
    trials: int
    lock: str
    without: tuple[str, ...]
    times: bool


Seed = Annotated[int, typer.Option(help="What the tasks are drawn from.")]
Names = Annotated[Path, typer.Argument(help="File with the names of the tasks, a line each.")]
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def folder_of(seed: int, task: GridTask) -> Path:
    """Where a task's model lies."""
    return FILES / str(seed) / task.name.replace(" ", "_").replace("=", "")


def chosen(seed: int, names: Path) -> list[GridTask]:
    """Tasks that a file names."""
    known = {task.name: task for task in grid(seed)}
    return [known[name] for name in names.read_text().splitlines()]


@app.command()
def import_tasks(names: Names, seed: Seed = 0, again: bool = False) -> None:
    """Write tasks as models and import them, unless that was done."""
    import onnx.reference  # noqa: F401 - loaded once, before processes begin
    import torch
    import torch_mlir.ir  # noqa: F401 - the same

    torch.set_num_threads(1)
    from payload.importers.onnx_convert import convert

    left = [task for task in chosen(seed, names) if again or not (folder_of(seed, task) / "ready").exists()]
    each_alone(partial(import_task, seed, convert), left)


def import_task(seed: int, convert: Callable[..., None], task: GridTask) -> None:
    """Write a task as a model, and import that; why it is refused stays beside it."""
    import torch
    from grid_models import problem_of

    folder = folder_of(seed, task)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    problem, model = problem_of(task), folder / "model.onnx"
    names = [f"x{n}" for n in range(len(problem.inputs))]
    warnings.simplefilter("ignore")
    torch.onnx.export(problem.model, tuple(problem.inputs), model, input_names=names, dynamo=False, opset_version=18)
    try:
        convert(model, folder / "model", {})
    except Exception as error:  # whatever refuses it
        (folder / "refused").write_text(" ".join(str(error).split()))
    (folder / "ready").touch()


def each_alone(do: Callable[[GridTask], None], tasks: Iterable[GridTask]) -> None:
    """Do something for each task in a process of its own, several at once."""
    context, running = get_context("fork"), list[Any]()
    for task in tasks:
        running.append(context.Process(target=quietly, args=(do, task)))
        running[-1].start()
        typer.echo(f"importing {task.name}")
        while sum(each.is_alive() for each in running) >= JOBS:
            time.sleep(0.02)
    for each in running:
        each.join(LIMIT)
        each.kill()


def quietly(do: Callable[[GridTask], None], task: GridTask) -> None:
    """Do something for a task, and print nothing."""
    with Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), sys.stdout.fileno())
        os.dup2(nothing.fileno(), sys.stderr.fileno())
    do(task)


@app.command()
def time_tasks(  # noqa: PLR0917 - a command line
    names: Names, seed: Seed = 0, trials: int = 0, lock: str = "", without: str = "", times: bool = True
) -> None:
    """Compile tasks, check and time them; prints a line of JSON for each.

    Args:
        names: File with the names of the tasks, a line each.
        seed: What the tasks are drawn from.
        trials: Trials of a search whose result is timed, too; none where 0.
        lock: File whose lock is held while a batch is timed.
        without: Names of ways that are left out, with commas between them.
        times: Whether anything is timed.
    """
    how = How(seed, trials, lock, tuple(without.split(",")), times)
    os.environ |= {"TORCHINDUCTOR_CACHE_DIR": str(FILES / "inductor"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    import onnxruntime  # noqa: F401 - loaded once, before processes begin
    import torch
    import torch._inductor.compile_fx

    import autotune.bundles.call  # noqa: F401 - the same

    torch.set_num_threads(1)
    tasks = chosen(seed, names)
    for begin in range(0, len(tasks), BATCH):
        for task, found in time_batch(how, tasks[begin : begin + BATCH]):
            print(json.dumps({"name": task.name, **found}), flush=True)


def time_batch(how: How, tasks: Sequence[GridTask]) -> Iterator[tuple[GridTask, Found]]:
    """Make tasks ready, several at once; then time one after the other."""
    context = get_context("fork")
    started: list[tuple[GridTask, Any, Connection]] = []
    for task in tasks:
        mine, theirs = context.Pipe()
        process = context.Process(target=measure_task, args=(how, task, theirs))
        process.start()
        theirs.close()
        started.append((task, process, mine))
        while sum(not end.poll() for _, _, end in started) >= JOBS:
            time.sleep(0.02)
    ready = {task.name: answer(end) for task, _, end in started}
    with locked(how.lock if how.times else ""):
        for task, process, end in started:
            found = ready[task.name]
            if how.times and found["outcome"] == "right":
                with contextlib.suppress(BrokenPipeError):
                    end.send("go")
                found |= answer(end)
            process.kill()
            process.join()
            yield task, found


def answer(end: Connection) -> Found:
    """What a process found."""
    try:
        if end.poll(LIMIT):
            return dict(end.recv())
    except EOFError:
        return {"outcome": "failed", "why": "its process ended"}
    return {"outcome": "failed", "why": f"not done in {LIMIT:g} s"}


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the lock of a file, where one is given."""
    if not path:
        yield
        return
    with Path(path).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def measure_task(how: How, task: GridTask, end: Connection) -> None:
    """Make a task ready and say how that went; then time it when told to."""
    with Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), sys.stdout.fileno())
        os.dup2(nothing.fileno(), sys.stderr.fileno())
    try:
        found, ways = prepare(how, task)
    except Exception as error:  # whatever it is, it was found
        end.send({"outcome": "failed", "why": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"})
        return
    end.send(found)
    if end.recv() == "go":
        end.send({"times": timed(ways)})


def prepare(how: How, task: GridTask) -> tuple[Found, Ways]:
    """A task compiled and checked, and the ways to compute it."""
    from grid_models import problem_of
    from kernelbench_problem import called, computed, differences, worst_error

    import autotune as at
    from autotune.core.errors import AutotuneError

    folder, problem = folder_of(how.seed, task), problem_of(task)
    if (folder / "refused").exists():
        return {"outcome": "refused", "why": (folder / "refused").read_text()[:300]}, {}
    arguments = [each.numpy() for each in problem.inputs]
    try:
        payload = at.payload(str(folder / "model"))
        begun = time.perf_counter()
        function = at.compile(payload)
        seconds = time.perf_counter() - begun
    except AutotuneError as error:
        return {"outcome": "refused", "why": str(error).replace(str(folder), "")[:300]}, {}
    got = called(function, arguments)
    exact, single = (computed(problem, problem.inputs, exact=wide) for wide in (True, False))
    why = differences(payload, got, exact, single)
    found: Found = {"outcome": "wrong" if why else "right", "error": float(f"{worst_error(got, exact):.1e}")}
    found |= {"compile_seconds": round(seconds, 2), **({"why": why} if why else {})}
    return found, {} if why or not how.times else ways_of(how, folder, problem, payload, function)


def ways_of(how: How, folder: Path, problem: "Problem", payload: "Payload", function: Callable[..., object]) -> Ways:
    """All ways to compute a task, each of them warm: so many calls of each are a call of what is given here."""
    import torch
    from kernelbench_problem import program_alone

    arguments = [each.numpy() for each in problem.inputs]
    calls: dict[str, Callable[[], object]] = {
        "called": partial(function, *arguments),
        "onnxruntime": onnx_session(folder / "model.onnx", arguments),
        "eager": partial(problem.model, *problem.inputs),
    }
    if "compiled" not in how.without:
        calls["compiled"] = partial(torch.compile(problem.model, dynamic=False), *problem.inputs)
    if problem.numpy is not None:
        calls["numpy"] = problem.numpy
    if find_spec("iree") is not None and "iree" not in how.without:
        from autotune.core.errors import ComparatorError
        from payload.comparators.iree import IREE

        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # it has a thread a core where it is loaded
        with contextlib.suppress(ComparatorError):  # what it refuses has no time of it
            calls["iree"] = IREE.prepare(payload, payload.make_inputs(0)).call
    if how.trials:
        calls[f"tuned{how.trials}"] = partial(tune(folder, how.trials), *arguments)
    ways: Ways = {name: partial(repeat, call) for name, call in calls.items()}
    ways["program"] = program_alone(payload, arguments)
    with torch.inference_mode():
        for way in ways.values():
            way(1)  # compiles itself, takes memory
    return ways


def repeat(call: Callable[[], object], times: int) -> None:
    """Call so often."""
    for _ in range(times):
        call()


def onnx_session(model: Path, arguments: Sequence[Any]) -> Callable[[], object]:
    """A call of ONNX Runtime, inputs and outputs bound, so that it copies nothing."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for given, array in zip(session.get_inputs(), arguments, strict=True):
        binding.bind_ortvalue_input(given.name, ort.OrtValue.ortvalue_from_numpy(array))
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return partial(session.run_with_iobinding, binding)


def tune(folder: Path, trials: int) -> Callable[..., object]:
    """A task's program after so many trials of a search that knows nothing of other tasks."""
    import autotune as at

    bundle = folder / f"trials{trials}"
    if not bundle.exists():
        at.tune(folder / "model", trials=trials, cold=True, bundle=bundle, store=folder / f"trials{trials}.journal")
    return at.Bundle.read(bundle)


def timed(ways: Ways) -> Found:
    """Seconds of a call by each way, in turn on one core, round by round: medians, and how far ours are apart."""
    import torch

    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, HIGHEST)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rng, rounds = Random(0), {name: list[float]() for name in ways}
    with torch.inference_mode():
        calls = {name: max(1, round(ROUND_SECONDS / seconds_of(way, 1))) for name, way in ways.items()}
        calls = {name: max(1, round(ROUND_SECONDS / seconds_of(ways[name], each))) for name, each in calls.items()}
        for _ in range(ROUNDS):
            for name in rng.sample(list(ways), len(ways)):
                rounds[name].append(seconds_of(ways[name], calls[name]))
    return {name: float(f"{median(each):.4g}") for name, each in rounds.items()}


def seconds_of(way: Callable[[int], object], calls: int) -> float:
    """Seconds of a call, of so many in a row."""
    begun = time.perf_counter()
    way(calls)
    return (time.perf_counter() - begun) / calls


if __name__ == "__main__":
    app()
