"""`autotune report`: write the results as one HTML page."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.options import StorePath
from autotune.cli.say import complain
from autotune.core.host.whole_file import write_file

if TYPE_CHECKING:
    from autotune.reports.sections.blocks import Section


def report(
    source: Annotated[str, typer.Argument(metavar="BUNDLE|STORE", help="A bundle's folder, or a store.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page.")] = Path("report.html"),
    store: StorePath = None,
    opens: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
    *,
    more: "Sequence[Callable[[Path], Section]]" = (),
) -> None:
    """Write one self-contained page: what was gained, where a call's time goes, each task, the search, how to replay.

    With a bundle, --store adds the trials of its payload.

    Example: autotune report tuned/MACHINE/bundles/nano --store tuned/MACHINE/store.journal -o nano.html
    """
    page = write_report(source, output, store, more)
    complain(str(page))
    if opens:
        show_page(page)


def show_page(page: Path) -> None:
    """Open a page in the user's browser; print a message if there is none."""
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        complain(f"no browser could be opened; {page} needs nothing but itself")


def write_report(source: str, output: Path, store: str | None, more: "Sequence[Callable[[Path], Section]]") -> Path:
    """Write the page of a bundle or store.

    Args:
        source: Folder of a bundle, or a store.
        output: File to write.
        store: Store whose trials of the bundle's payload are added.
        more: Functions of plug-ins from the bundle's folder to a section.

    Raises:
        BadParameter: An option for bundles is given with a store.
    """
    from autotune.reports.holdings import read_holdings
    from autotune.reports.page import report_bundle, report_store
    from autotune.reports.winner import is_bundle, read_winner
    from autotune.store.address import shown
    from autotune.store.history import history_beside, read_history

    past = history_beside(source)
    if is_bundle(source):
        payload = read_winner(Path(source)).payload
        checks = read_history(past, payload) if past is not None else None
        holdings = read_holdings(store, payload=payload) if store is not None else None
        page = report_bundle(Path(source), holdings, checks, [make(Path(source)) for make in more])
    elif store is not None or more:
        raise typer.BadParameter(f"--store and sections of plug-ins go with a bundle, {shown(source)} is none")
    else:
        checks = read_history(past) if past is not None else None
        name = shown(source) if "://" in source else Path(source).name
        page = report_store(read_holdings(source), name, checks)
    write_file(output, page)
    return output
