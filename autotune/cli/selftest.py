"""`autotune selftest`: does the tuner keep its promises on this machine?"""

import json
from typing import Annotated

import typer

from autotune.cli.options import AsJson, home


def selftest(
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of everything: a minute, and coarse.")] = False,
    baseline: Annotated[str, typer.Option(help="Pipeline that winners race against; see `list`.")] = "passes",
    as_json: AsJson = False,
) -> None:
    """Crash, kill and time the tuner, and print what it promises beside what it does. Exit 1 if a promise is broken.

    Takes about fifteen minutes; keeps its figures in the results of this machine.

    Example: autotune selftest --quick
    """
    from autotune.console import show_figures
    from autotune.promises import Amounts
    from autotune.selftest import run_selftest

    amounts = Amounts(crashes=100, trials=20, pairs=20, kills=10, sweeps=2) if quick else Amounts()
    figures = run_selftest(amounts, baseline, lambda name: typer.echo(f"autotune: {name} ...", err=True))
    plain = [figure.to_json() for figure in figures]
    if not quick:
        home().mkdir(parents=True, exist_ok=True)
        (home() / "selftest.json").write_text(json.dumps(plain, indent=1) + "\n")
    if as_json:
        typer.echo(json.dumps(plain))
    else:
        show_figures(figures)
    if not all(figure.holds for figure in figures):
        raise typer.Exit(1)
