"""Output of `inspect --why`: the origin of each trial and the accuracy of the model's predictions."""

import json
from collections.abc import Sequence

import typer

from autotune.cli.inspect_store import spell
from autotune.cli.layout import Column, Table, TextRow, show_sentence, show_table
from autotune.core.console import duration
from autotune.reports.format import out
from autotune.reports.why import SearchReasons, TrialReason, read_reasons

COLUMNS = (Column("expected"), Column("measured"), Column("off"), Column("of"))
REFUSALS = {"constraint": "violated a constraint", "duplicate": "had been asked for"}


def show_reasons(location: str, payload: str | None, *, as_json: bool) -> None:
    """Print the trials of every search, each with the sampler that proposed it and the predicted time."""
    searches = read_reasons(location, payload)
    if as_json:
        typer.echo(json.dumps([each.to_json() for each in searches]))
        return
    console = out()
    for search in searches:
        rows = tuple(row_of(trial) for trial in search.trials)
        show_table(console, Table(f"{search.payload}: {search.task}", COLUMNS, rows, "not as in the best before"))
        for sentence in sentences_of(search):
            show_sentence(console, sentence)
        console.print()
    show_sentence(console, "expected: by the model before it was tried; of: configs it was chosen from")


def row_of(trial: TrialReason) -> TextRow:
    """Return the row of a trial."""
    expected, measured = trial.expected, trial.seconds
    cells = (
        duration(expected) if expected is not None else "-",
        duration(measured) if measured is not None else trial.outcome,
        f"{measured / expected:.2f}x" if expected is not None and measured is not None else "-",
        str(trial.drafted or "-"),
    )
    return TextRow(f"{trial.number} {trial.by or 'not recorded'}", cells, spell(trial.changed))


def sentences_of(search: SearchReasons) -> Sequence[str]:
    """Return sentences on skipped proposals and the accuracy of predictions."""
    sentences = []
    if search.refused:
        counts = ", ".join(f"{count} {REFUSALS.get(why, why)}" for why, count in search.refused.items())
        sentences.append(f"proposals that were skipped: {counts}")
    if search.rank is not None and search.off is not None:
        sentences.append(
            f"expected and measured: rank correlation {search.rank:.2f}, typically off by a factor of {search.off:.2f}"
        )
    return sentences
