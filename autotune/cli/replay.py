"""`autotune replay`: rebuild a bundle and check it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import AsJson, FileFamily, StorePath, real, whole
from autotune.cli.reproduce import reproduce
from autotune.core.options import MOST_COUNT, check_whole
from autotune.store.folders import home

if TYPE_CHECKING:
    from autotune.bundles.replay import Replay

EMITTED = "object, llvm or asm"


def replay(
    bundle: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER|KEY",
            help="A bundle; with --store a trial, by how its key begins, or none to list failures.",
        ),
    ] = None,
    emit: Annotated[
        str | None, typer.Option(metavar="KIND", help=f"Write the compiled program instead: {EMITTED}; and a C header.")
    ] = None,
    retune: Annotated[bool, typer.Option("--retune", help="Search again for this machine, from its configs.")] = False,
    trials: Annotated[int, typer.Option(parser=whole, help="Of --retune.")] = 100,
    store: StorePath = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Where --emit, --retune (default FOLDER-retuned) or a trial writes."
        ),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(parser=real, help="Seconds one process may take; by default by what is recorded.")
    ] = None,
    payload: Annotated[
        str | None,
        typer.Option(metavar="PAYLOAD", help="File or folder of what it computes, where you did not name it before."),
    ] = None,
    family: FileFamily = "",
    emulate: Annotated[
        bool, typer.Option("--emulate", help="Emulate tiles of a matrix unit that this CPU lacks: right, and slow.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Build a bundle again, verify it, and time it against its baseline; or run a trial of a store again.

    On a machine like the recorded one, exit 1 if it is weaker than recorded, or if noise does not allow a verdict.
    Anywhere, exit 1 if it is wrong, 2 if the bundle is refused.

    With --store and the beginning of a trial's key, write its payload and schedule as files, and run it again in
    isolation: exit 1 if it does otherwise now. Without a key, what failed is listed.

    Example: autotune replay tuned/MACHINE/bundles/nano
    """
    from autotune.bundles.emit import emit_bundle
    from autotune.bundles.replay import replay
    from autotune.bundles.retune import retune_bundle
    from autotune.cli.tune import show_result
    from autotune.core.progress import ProgressLine
    from autotune.store.bundle import read_bundle
    from autotune.store.store import Store
    from autotune.worker.loading.reading import open_payload

    check_whole("trials", trials, 1, MOST_COUNT)
    if store is not None and not retune:
        if emulate or as_json or payload is not None:
            raise typer.BadParameter("--emulate, --json and --payload are of bundles, --store is of trials; drop one")
        replay_trial(bundle, store, output, timeout, family)
        return
    if bundle is None:
        raise typer.BadParameter("name the FOLDER of a bundle, or a --store of trials")
    if emulate and (emit is not None or retune):
        raise typer.BadParameter("--emulate runs a bundle as it is; drop --emit and --retune, or --emulate")
    if emit is not None:
        for path in emit_bundle(bundle, emit, output or Path()):
            typer.echo(path)
        return
    named = open_payload(payload) if payload is not None else None
    if retune:
        loaded = read_bundle(bundle, named)
        folder = output or bundle.with_name(f"{bundle.resolve().name}-retuned")
        with Store.open(store or home() / "store.journal") as opened, ProgressLine(str(bundle), trials) as line:
            result = retune_bundle(loaded, opened, folder, trials, line)
        if as_json:
            typer.echo(json.dumps(result.to_json()))
        else:
            show_result(result)
        return
    with ProgressLine(str(bundle), is_spoken=True) as line:
        replayed = replay(bundle, timeout, line, named, emulate=emulate)
    if as_json:
        typer.echo(json.dumps(replayed.to_json()))
    else:
        show_replay(replayed)
    if not replayed.is_fine:
        raise typer.Exit(1)


def replay_trial(key: Path | None, store: str, output: Path | None, timeout: float | None, family: str) -> None:
    """Run a trial of a store again, or list the failed trials.

    Raises:
        BadParameter: A folder is given instead of a key.
    """
    if key is not None and key.is_dir():
        raise typer.BadParameter(
            f"--store is for the key of a trial, or --retune; {key} is a folder, leave --store out"
        )
    reproduce(str(key) if key is not None else None, store, output, 60.0 if timeout is None else timeout, family)


def verdict_text(replay: "Replay") -> str:
    """Return the verdict on the recorded speed-up, or why there is none."""
    if replay.verdict == "unknown":
        return "not compared" if replay.unsteady or not replay.why else f"cannot be compared, {replay.why}"
    return replay.verdict


def show_replay(replay: "Replay") -> None:
    """Print the result of a replay."""
    from autotune.cli.layout import show_sentence
    from autotune.reports.format import clocked, error_beside, factor, out

    console = out()
    if replay.verdict == "impossible":
        show_sentence(console, f"{replay.payload}: {replay.why}")
        return
    result = f"{replay.outcome}: {replay.diagnostic}"
    if replay.is_right:
        beside = error_beside(replay.max_error, replay.oracle, unproved=replay.unproved)
        seconds = clocked(replay.best_seconds, replay.clock_seconds, replay.noise_floor)
        result = f"verified, {beside}" if replay.unsteady else f"{seconds}; verified, {beside}"
    show_sentence(console, f"{replay.payload}: {result}")
    if replay.unsteady:
        show_sentence(console, f"not measurable here and now: {replay.unsteady}", 2)
    else:
        show_sentence(console, f"speed-up now      {factor(replay.speedup)}", 2)
    show_sentence(console, f"speed-up recorded {factor(replay.recorded)}: {verdict_text(replay)}", 2)
    for difference in replay.differences:
        show_sentence(console, f"note: {difference}", 2)
