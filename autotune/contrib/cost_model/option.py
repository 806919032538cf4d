"""The command-line option `explain --model`."""

from typing import Annotated

import typer

from autotune.plugins import Arguments, VerbOption, option


def explain_model(arguments: Arguments) -> None:
    """`explain --model`: what is learnt from a store or a recording."""
    from autotune.contrib.cost_model.verb import show_models

    show_models(arguments["bundle"], as_json=arguments["as_json"])


EXPLAIN = VerbOption(
    "explain",
    (
        option(
            "model",
            Annotated[
                bool,
                typer.Option(
                    "--model",
                    help="Of a store, or of what `lab record` wrote: which features distinguish configs, what the "
                    "model expects of each from all others beside what was measured, and the best config with one "
                    "knob changed.",
                ),
            ],
            False,
        ),
    ),
    lambda given: bool(given["model"]),
    explain_model,
    ignores=("steps", "baseline", "against", "task", "config", "family"),
)
