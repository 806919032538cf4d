"""The command line: results to stdout, progress to stderr. Exit codes: 0 fine, 1 the check failed, 2 misuse."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from autotune.errors import AutotuneError
from autotune.machine import this_machine

app = typer.Typer(
    help="Explore and autotune MLIR transform-dialect schedules.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
INTERRUPTED = 130
# typer brings its own copy of click, older ones used click itself: these are the classes in use, either way
UsageFailure: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

Payloads = Annotated[
    list[str],
    typer.Argument(
        metavar="PAYLOAD...", help="nano, gpt2,seq=64, matmul,m=512,n=512,k=512, a path to an .mlir file; see `list`."
    ),
]
StorePath = Annotated[str | None, typer.Option("--store", metavar="PATH", help="Store of trials, or a database URL.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def home() -> Path:
    """Where results of this machine go by default."""
    machine = this_machine()
    return Path("results") / f"{machine.microarchitecture}-{machine.fingerprint[:8]}"


def slug(payload: str) -> str:
    """A payload's name as a file name."""
    return "".join(c if c.isalnum() or c in "=,._-" else "_" for c in payload)


@app.command()
def tune(
    payloads: Payloads,
    trials: Annotated[int, typer.Option(min=1, help="Candidates to run over all tasks of a payload.")] = 100,
    seconds: Annotated[float | None, typer.Option(min=0.0, help="Stop searching a payload after this long.")] = None,
    sampler: Annotated[str, typer.Option(help="tpe, random, cmaes or grid.")] = "tpe",
    seed: Annotated[int, typer.Option(help="Of the sampler and the input data.")] = 0,
    baseline: Annotated[str, typer.Option(help="Pipeline that speed-ups are quoted against; see `list`.")] = "passes",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds one candidate may take.")] = 60.0,
    store: StorePath = None,
    bundle: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the winner's bundle.")] = None,
    as_json: AsJson = False,
) -> None:
    """Search schedules for payloads, prove the best right and faster, and write a bundle.

    Run again, it resumes: trials in the store are not run twice.

    Example: autotune tune matmul,m=512,n=512,k=512 --trials 100
    """
    from autotune.registry import load_baseline, load_payload  # noqa: PLC0415 - help and inspect need no MLIR
    from autotune.report import TuneProgress, show_result  # noqa: PLC0415
    from autotune.store import Store  # noqa: PLC0415
    from autotune.tune import Options, tune  # noqa: PLC0415

    if bundle is not None and len(payloads) > 1:
        raise typer.BadParameter("--bundle names one folder: give one payload, or leave it out")
    options = Options(trials=trials, seconds=seconds, sampler=sampler, seed=seed, baseline=baseline, timeout=timeout)
    load_baseline(baseline)
    loaded = [load_payload(spec) for spec in payloads]
    with Store.open(store or home() / "store.journal") as opened:
        for message in opened.messages:
            typer.echo(f"autotune: {message}", err=True)
        for payload in loaded:
            folder = bundle or home() / "bundles" / slug(payload.name)
            with TuneProgress(payload.name, trials) as progress:
                result = tune(payload, opened, folder, options, progress.callbacks)
            if as_json:
                typer.echo(json.dumps(result.to_json()))
            else:
                show_result(result)


@app.command()
def inspect(
    store: StorePath = None,
    payload: Annotated[str | None, typer.Option(help="Only sweeps of this payload.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many configs a task.")] = 3,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every trial as CSV.")] = None,
    parquet: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every trial as Parquet.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what sweeps found: best configs, outcomes, rate.

    Example: autotune inspect --payload nano --csv trials.csv
    """
    from autotune.store import trials  # noqa: PLC0415 - keeps --help fast
    from autotune.tables import describe_sweeps, show_sweeps  # noqa: PLC0415

    frame = trials(store or home() / "store.journal")
    if payload is not None:
        frame = frame[frame["payload"] == payload]
        if frame.empty:
            raise typer.BadParameter(f"the store must hold trials of {payload!r}, it has none; leave out --payload")
    if csv is not None:
        frame.to_csv(csv, index=False)
    if parquet is not None:
        frame.to_parquet(parquet, index=False)
    if as_json:
        typer.echo(json.dumps(describe_sweeps(frame, top)))
    else:
        show_sweeps(frame, top)


@app.command()
def replay(bundle: Annotated[Path, typer.Argument(metavar="FOLDER")], as_json: AsJson = False) -> None:
    """Build a bundle again, verify it, and time it against its baseline. Exit 1 if it is wrong.

    Example: autotune replay results/MACHINE/bundles/nano
    """
    from autotune.replay import replay  # noqa: PLC0415 - keeps --help fast
    from autotune.report import show_replay  # noqa: PLC0415

    found = replay(bundle)
    if as_json:
        typer.echo(json.dumps(found.to_json()))
    else:
        show_replay(found)
    if not found.is_right:
        raise typer.Exit(1)


@app.command()
def compare(
    payload: Annotated[str, typer.Argument(metavar="PAYLOAD", help="As for `tune`.")],
    against: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Libraries, such as numpy,onnxruntime; all by default.")
    ] = None,
    baseline: Annotated[str, typer.Option(help="Pipeline of the first row, or none; see `list`.")] = "passes",
    bundle: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Bundle of the best schedules; by default the payload's newest.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the input data.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Time our schedules beside other libraries: one process, one thread, interleaved, every output verified.

    Exit 1 if one of them computes something else, or fails. A library that is not installed is announced.

    Example: autotune compare nano --against numpy,onnxruntime
    """
    from autotune.compare import Options, compare  # noqa: PLC0415 - keeps --help fast
    from autotune.registry import COMPARATORS, load_payload, registered  # noqa: PLC0415
    from autotune.report import CompareProgress, show_comparison  # noqa: PLC0415

    names = registered(COMPARATORS) if against is None else [name for name in against.split(",") if name]
    options = Options(tuple(names), None if baseline == "none" else baseline, bundle, seed)
    with CompareProgress() as progress:
        found = compare(load_payload(payload), home() / "bundles", options, progress.watcher)
    if as_json:
        typer.echo(json.dumps(found.to_json()))
    else:
        show_comparison(found)
    if not found.is_right:
        raise typer.Exit(1)


@app.command()
def show(
    source: Annotated[str, typer.Argument(metavar="PAYLOAD|BUNDLE", help="A payload as for `tune`, or a folder.")],
    stage: Annotated[
        str, typer.Option(help="payload, tasks, schedule, bufferized, lowered, llvm or asm.")
    ] = "schedule",
    task: Annotated[str | None, typer.Option(metavar="TAG", help="One task alone; `--stage tasks` lists them.")] = None,
    config: Annotated[str | None, typer.Option(metavar="K=V,...", help="Knobs of that task.")] = None,
) -> None:
    """Print a payload, or a bundle, after a stage of the flow; on stderr, how much memory its buffers take.

    Example: autotune show nano --stage bufferized
    """
    from autotune.show import show  # noqa: PLC0415 - keeps --help fast

    shown = show(source, stage, task, config)
    typer.echo(shown.text.rstrip())
    if shown.note:
        typer.echo(shown.note, err=True)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Measure this machine's roofs and noise, and say what is missing. Exit 1 if something needed is.

    Example: autotune doctor
    """
    from autotune.doctor import examine  # noqa: PLC0415 - keeps --help fast
    from autotune.report import show_diagnosis  # noqa: PLC0415

    found = examine()
    if as_json:
        typer.echo(json.dumps(found.to_json()))
    else:
        show_diagnosis(found)
    if found.missing:
        raise typer.Exit(1)


@app.command("list")
def list_names(as_json: AsJson = False) -> None:
    """List payloads, schedule families, baselines and comparators, plug-ins included.

    Example: autotune list
    """
    from autotune.registry import GROUPS, registered  # noqa: PLC0415 - keeps --help fast

    groups: dict[str, Any] = {
        group.rpartition(".")[2]: {name: point.value for name, point in registered(group).items()} for group in GROUPS
    }
    if as_json:
        typer.echo(json.dumps(groups))
        return
    for kind, members in groups.items():
        typer.echo(f"{kind}:")
        for name, where in members.items():
            typer.echo(f"  {name:14s} {where}")


def main() -> None:
    """Entry point: every expected failure becomes one line and an exit code."""
    try:
        code = app(standalone_mode=False)
    except typer.Exit as done:
        code = done.exit_code
    except UsageFailure as error:
        complain(f"{error.format_message()}; see --help")  # type: ignore[attr-defined]
        code = 2
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except AutotuneError as error:
        complain(" ".join(str(error).split()))
        code = 2
    except OSError as error:
        complain(f"{error.filename or 'the file system'}: {error.strerror or error}")
        code = 2
    if code == INTERRUPTED:  # which typer may also return or raise as an exit code
        complain("interrupted; every finished trial is kept, and a sweep resumes by the same command")
    sys.exit(code if isinstance(code, int) else 0)


def complain(sentence: str) -> None:
    """One line on stderr."""
    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(f"autotune: {sentence}")
