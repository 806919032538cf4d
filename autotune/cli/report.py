"""`autotune report`: one page of what was found."""

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options import StorePath
from autotune.cli.say import complain


def report(
    source: Annotated[str, typer.Argument(metavar="BUNDLE|STORE", help="A bundle's folder, or a store.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page.")] = Path("report.html"),
    store: StorePath = None,
    explained: Annotated[
        bool, typer.Option("--explain", help="Measure what each technique is worth, as `explain` does.")
    ] = False,
    analysis: Annotated[
        bool, typer.Option("--analysis", help="What can be known before it runs, as `show --stage analysis`.")
    ] = False,
) -> None:
    """Write one self-contained page: what was gained, where a call's time goes, each task, the search, how to replay.

    With a bundle, --store adds the trials of its payload.

    Example: autotune report tuned/MACHINE/bundles/nano --store tuned/MACHINE/store.journal -o nano.html
    """
    from autotune.reports.analysis.analysed import analyse_bundle
    from autotune.reports.explain import explain
    from autotune.reports.holdings import read_holdings
    from autotune.reports.page import report_bundle, report_store
    from autotune.reports.winner import is_bundle, read_winner
    from autotune.store.database.address import shown
    from autotune.store.history import history_beside, read_history

    past = history_beside(source)
    if is_bundle(source):
        payload = read_winner(Path(source)).payload
        checks = read_history(past, payload) if past is not None else None
        holdings = read_holdings(store, payload=payload) if store is not None else None
        explanation = explain(Path(source)) if explained else None
        known = analyse_bundle(Path(source)) if analysis else None
        page = report_bundle(Path(source), holdings, explanation, checks, known)
    elif store is not None or explained or analysis:
        raise typer.BadParameter(f"--store, --explain and --analysis go with a bundle, {shown(source)} is none")
    else:
        checks = read_history(past) if past is not None else None
        name = shown(source) if "://" in source else Path(source).name
        page = report_store(read_holdings(source), name, checks)
    output.write_text(page)
    complain(str(output))
