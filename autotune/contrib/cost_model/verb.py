"""Printed report of a fitted cost model and its accuracy."""

import json

import typer

from autotune.cli.inspect_store import spell
from autotune.cli.layout import Column, Table, TextRow, show_sentence, show_table
from autotune.contrib.cost_model.learnt import Alternative, LearntModel, learn_models
from autotune.core.console import duration
from autotune.reports.format import out
from autotune.reports.overview import changed_config

MOST_FEATURES = 8
MOST_TRIALS = 8
TRIALS = (Column("expected"), Column("measured"), Column("off"))


def show_models(location: str, *, as_json: bool) -> None:
    """Print the models of a store or a recording, task by task."""
    models = learn_models(location)
    if as_json:
        typer.echo(json.dumps([each.to_json() for each in models]))
        return
    for each in models:
        show_model(each)


def show_model(model: LearntModel) -> None:
    """Print one task's model: important features, accuracy, and predictions for neighbours of the best config."""
    console = out()
    decide = ", ".join(f"{name} {share:.0%}" for name, share in list(model.importance.items())[:MOST_FEATURES])
    show_sentence(console, f"{model.payload}: {model.task}")
    show_sentence(console, f"what tells configs apart: {decide}", 2)
    if model.rank is not None and model.off is not None:
        wrong = f"rank correlation {model.rank:.2f}, typically off by a factor of {model.off:.2f}"
        show_sentence(console, f"each of {len(model.trials)} trials as all others let expect: {wrong}", 2)
    rows = []
    for index, trial in enumerate(model.trials[:MOST_TRIALS]):
        if trial.seconds is not None:
            cells = (duration(trial.expected), duration(trial.seconds), f"{trial.seconds / trial.expected:.2f}x")
            changed = changed_config(trial.config, model.trials[0].config)
            rows.append(TextRow(str(index + 1), cells, spell(changed if index else trial.config)))
    show_table(console, Table("fastest", TRIALS, tuple(rows), "its knobs, and what others have instead"))
    near = tuple(TextRow(f"{each.knob}={each.value}", (over(each),), each.said) for each in model.alternatives)
    show_table(console, Table("best with one knob changed", (Column("times as long"),), near, "how that is known"))
    console.print()


def over(alternative: Alternative) -> str:
    """Return the time of an alternative as a multiple of the best one's; ``-`` where it is unknown."""
    return f"{alternative.over_best:.2f}x" if alternative.over_best is not None else "-"
