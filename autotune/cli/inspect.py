"""`autotune inspect`: show the results of sweeps."""

import json
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.say import complain
from autotune.core.host.whole_file import whole_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from autotune.reports.holdings import Holdings
    from autotune.reports.overview import Overview
    from autotune.reports.pictures.gallery import Picture


from autotune.cli.options import AsJson, StorePath, whole
from autotune.core.host.files import holds
from autotune.core.options import MOST_COUNT, check_whole
from autotune.store.folders import home

MANY = 3  # configs per task with --full or --json


def inspect(
    source: Annotated[str | None, typer.Argument(metavar="STORE|BUNDLE", help="By default this machine's.")] = None,
    store: StorePath = None,
    payload: Annotated[str | None, typer.Option(help="Only sweeps of this payload.")] = None,
    where: Annotated[
        str | None, typer.Option(metavar="QUERY", help="Only trials of which this pandas query is true.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(parser=whole, help="How many configs a task; by default 1; 3 with --full or --json."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Every knob and outcome, not only what differs.")] = False,
    plots: Annotated[Path | None, typer.Option(metavar="DIR", help="Draw pictures there, as PNG.")] = None,
    history: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of `regress`, for --plots; by default the one beside.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--compare", metavar="PAYLOAD|STORE", help="Set the sweeps beside another payload's or store's."),
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every trial as CSV.")] = None,
    parquet: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every trial as Parquet.")] = None,
    why: Annotated[
        bool,
        typer.Option("--why", help="Each trial: its sampler, what the model expected, what was skipped."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what sweeps or a bundle found, a line a task: time, share of the roof, trials, speed-up over the default.

    Below a task stand the knobs that are not as by default; then the way there, and where the workers' time went.
    The columns of a query are those of --csv, knobs by their own names.

    Example: autotune inspect --payload nano --where "outcome == 'ok' and rows >= 8" --plots pictures
    """
    from autotune.reports.holdings import read_holdings
    from autotune.reports.overview import overview_of
    from autotune.reports.streaming import glance, read_overview
    from autotune.store.address import shown

    if top is not None:
        check_whole("top", top, 1, MOST_COUNT)
    if source is not None and store is not None:
        raise typer.BadParameter(f"give one store, got {shown(source)} and --store {shown(store)}")
    location = next((path for path in (source, store) if path is not None), home() / "store.journal")
    if history is not None and plots is None:
        raise typer.BadParameter("--history goes with --plots DIR, which is missing")
    if holds(location, "manifest.json"):
        if why or any(option is not None for option in (payload, where, top, against, csv, parquet)):
            raise typer.BadParameter(f"{location} is a bundle, which holds no trials; name the store it comes from")
        inspect_bundle(Path(location), plots, history, full=full, as_json=as_json)
        return
    if why or against is not None:
        if any(option is not None for option in (where, plots, csv, parquet)) or (why and against is not None):
            raise typer.BadParameter("--why and --compare go with --payload and --json alone; leave out other options")
        show_searches(str(location), payload, against, as_json=as_json)
        return
    if parquet is not None:
        check_parquet()
    shows = top or (MANY if full or as_json else 1)
    if parquet is not None or plots is not None:
        holdings = read_holdings(location, payload=payload, where=where)
        overview = overview_of(holdings, shows)
        write_whole(holdings, csv, parquet)
        if plots is not None:
            save(chain(draw_holdings(holdings), draw_past(location, history, payload)), plots)
    elif where is not None or csv is not None:
        overview = read_overview(location, shows, payload=payload, where=where, csv=csv)
    else:
        overview = glance(location, payload, shows)
    show_store(overview, full=full, as_json=as_json)


def show_searches(location: str, payload: str | None, against: str | None, *, as_json: bool) -> None:
    """Print a comparison of sweeps with others, or the reasons of their trials if `against` is `None`."""
    from autotune.cli.inspect_store import show_versus
    from autotune.cli.inspect_why import show_reasons
    from autotune.reports.versus import compare_sweeps

    if against is None:
        show_reasons(location, payload, as_json=as_json)
        return
    comparison = compare_sweeps(location, against, payload)
    typer.echo(json.dumps(comparison.to_json())) if as_json else show_versus(comparison)


def show_store(overview: "Overview", *, full: bool, as_json: bool) -> None:
    """Print the overview of a store."""
    from autotune.cli.inspect_store import show_overview

    typer.echo(json.dumps(overview.describe())) if as_json else show_overview(overview, full=full)


def draw_holdings(holdings: "Holdings") -> "Iterable[Picture]":
    """Draw all pictures of a store."""
    from autotune.reports.pictures.gallery import draw_all

    return draw_all(holdings)


def write_whole(holdings: "Holdings", csv: Path | None, parquet: Path | None) -> None:
    """Write all loaded trials as CSV, Parquet or both."""
    if csv is not None:
        with whole_file(csv) as fresh:
            holdings.frame.to_csv(fresh, index=False)
    if parquet is not None:
        with whole_file(parquet) as fresh:
            holdings.frame.to_parquet(fresh, index=False)


def check_parquet() -> None:
    """Check that pyarrow is installed, before a store is read.

    Raises:
        MachineError: pyarrow is not installed.
    """
    from importlib.util import find_spec

    from autotune.core.errors import MachineError
    from autotune.core.host.extras import install_command

    if find_spec("pyarrow") is None:
        raise MachineError(f"--parquet needs pyarrow, it is not installed; {install_command('parquet')}, or use --csv")


def save(pictures: "Iterable[Picture]", folder: Path) -> None:
    """Write pictures and report their paths."""
    from autotune.reports.pictures.gallery import save_all

    for path in save_all(pictures, folder):
        complain(str(path))


def draw_past(location: str | Path, history: Path | None, payload: str | None) -> "Iterable[Picture]":
    """Draw the given history, or the one beside a store or bundle; restrict it to one payload if that is given."""
    from autotune.reports.pictures.gallery import draw_history
    from autotune.store.history import history_beside, read_history

    path = history or history_beside(location)
    return draw_history(read_history(path, payload)) if path is not None else ()


def inspect_bundle(folder: Path, plots: Path | None, history: Path | None, *, full: bool, as_json: bool) -> None:
    """Show the winner of a bundle."""
    from autotune.cli.inspect_bundle import show_winner
    from autotune.reports.task_lines import lines_of_bundle
    from autotune.reports.winner import describe
    from autotune.store.bundle import read_bundle

    bundle = read_bundle(folder)
    winner = describe(bundle)
    if plots is not None:
        from autotune.reports.pictures.winner import draw_winner

        drawn = draw_winner(winner.payload, winner.seconds.estimate, winner.baseline, winner.tasks)
        save(chain(drawn, draw_past(folder, history, winner.payload)), plots)
    if as_json:
        typer.echo(json.dumps(winner.to_json()))
    else:
        show_winner(winner, lines_of_bundle(bundle), full=full)
