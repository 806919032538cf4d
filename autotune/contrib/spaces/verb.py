"""`autotune lab record`: measure a part of a search space exhaustively into one file."""

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options import real, whole
from autotune.cli.say import complain
from autotune.plugins import LAB, Verb
from autotune.store.folders import home, slug


def record(
    payload: Annotated[
        str, typer.Argument(metavar="PAYLOAD", help="matmul,m=512,n=512,k=512, a path to an .mlir file; see `list`.")
    ],
    share: Annotated[float, typer.Option(parser=real, help="Share of the space to measure.")] = 1.0,
    trials: Annotated[int, typer.Option(parser=whole, help="Configs to measure at most.")] = 500,
    task: Annotated[str, typer.Option(metavar="TAG", help="Which task's; see `show --stage tasks`.")] = "",
    seed: Annotated[int, typer.Option(parser=whole, help="Of the part, the order and the input data.")] = 0,
    timeout: Annotated[float, typer.Option(parser=real, help="Seconds one candidate may take.")] = 60.0,
    out: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="By default below tuned/MACHINE/spaces.")
    ] = None,
) -> None:
    """Measure a part of a space, each of its configs, for searches to be replayed on and models to be trained on.

    The part has fewer values of each knob, with the constraints between them. Ctrl-C keeps what is there; the same
    command goes on.

    Example: autotune lab record matmul,m=512,n=512,k=512 --share 0.2 -o space.xz
    """
    from autotune.cli.reading import read_payloads
    from autotune.contrib.spaces.measure import RecordOptions, check_timeout, record_space, task_named
    from autotune.core.progress import ProgressLine
    from autotune.worker.isolation.limits import check_memory
    from autotune.worker.loading.reading import partition
    from autotune.worker.worker import Worker

    options = RecordOptions(share, trials, seed)
    check_timeout(timeout)
    with ProgressLine() as line:
        (opened,) = read_payloads([payload], line)
    wanted, family = task_named(opened, partition(opened).tasks, task)
    check_memory(wanted.payload)
    file = out or home() / "spaces" / f"{slug(opened.name)}{f'_{slug(task)}' if task else ''}.xz"
    with ProgressLine(opened.name, trials) as line, Worker(timeout) as worker:
        recording = record_space(opened, wanted, family, file=file, options=options, evaluator=worker, listener=line)
    right = sum(trial.samples is not None for trial in recording.trials)
    complain(f"{len(recording.trials)} trials, {right} of them timed, in {file}; see `autotune inspect {file}`")


VERB = Verb(record, "Machines", "Measure a part of a space completely, for benchmarks.", group=LAB)
