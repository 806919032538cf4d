"""Trials as a pandas data frame: one row per trial, failures included, with units in the column names."""

import math
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

from autotune.core.space import Value
from autotune.core.trial import Trial

if TYPE_CHECKING:
    import pandas as pd

PHASES = ("transform", "lower", "jit", "verify", "measure")
KNOB = "knob_"  # prefix of knob columns


def to_frame(recorded: Sequence[tuple[Trial, dict[str, Any]]]) -> "pd.DataFrame":
    """Convert trials, each with the ``payload``, ``flops`` and ``bytes`` of its sweep, to a frame with one row each.

    Seconds and joules are per call. Knobs are columns ``knob_<name>``: nullable integers or booleans, or strings if a
    knob mixes types. ``gflops`` is 10^9 floating-point operations per second at ``seconds_median``; ``intensity`` is
    operations per byte, with every argument's bytes counted once.
    """
    import pandas as pd  # noqa: PLC0415 - takes half a second, which only tables need
    from pandas.api.types import pandas_dtype  # noqa: PLC0415

    rows = [row(trial, about) for trial, about in recorded]
    fixed = row(Trial("", 0, {}, "ok", "", ""), {"payload": ""})
    columns: dict[str, Any] = {}
    for name, example in fixed.items():
        dtype = {str: "string", int: "int64", float: "float64"}[type(example)]
        columns[name] = pd.Series([r[name] for r in rows], dtype=pandas_dtype(dtype))
    for name in sorted({name for r in rows for name in r} - fixed.keys()):
        columns[name] = knob_column([r.get(name) for r in rows])
    return pd.DataFrame(columns)


def row(trial: Trial, about: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of one trial; unknown numbers are NaN."""
    samples, seconds = trial.samples, trial.seconds
    flops, moved = about.get("flops", 0.0), about.get("bytes", 0.0)
    return {
        "payload": about["payload"],
        "machine": str(about.get("identity", {}).get("machine", "")),
        "compiler": str(about.get("identity", {}).get("compiler", "")),
        "sweep": str(about.get("sweep", "")),
        "task": trial.task,
        "number": trial.number,
        "outcome": trial.outcome,
        "seconds_median": samples.median if samples else math.nan,
        "seconds_normalised": math.nan if seconds is None else seconds,
        "seconds_min": min(samples.seconds) if samples else math.nan,
        "joules": samples.joules if samples and samples.joules is not None else math.nan,
        "gflops": flops / samples.median / 1e9 if samples and flops else math.nan,
        "intensity": flops / moved if flops and moved else math.nan,
        "samples": len(samples.seconds) if samples else 0,
        "calls": samples.calls if samples else 0,
        "max_error": math.nan if trial.max_error is None else trial.max_error,
        "diagnostic": trial.diagnostic,
        "family": trial.family,
        "key": trial.key,
        **{f"{phase}_seconds": trial.phases.get(phase, math.nan) for phase in PHASES},
        **{f"{KNOB}{name}": value for name, value in trial.config.items()},
    }


def knob_column(values: list[Value | None]) -> "pd.Series[Any]":
    """Convert a knob's values to a column of one type; `None` if a trial lacks the knob."""
    import pandas as pd  # noqa: PLC0415
    from pandas.api.types import pandas_dtype  # noqa: PLC0415

    dtype = knob_dtype({type(value) for value in values} - {type(None)})
    if dtype == "string":
        values = [None if value is None else str(value) for value in values]
    return pd.Series(values, dtype=pandas_dtype(dtype))


def knob_dtype(kinds: Set[type]) -> str:
    """Return the pandas dtype of a column that holds values of some Python types.

    Example:
        >>> knob_dtype({int}), knob_dtype({bool}), knob_dtype({int, str})
        ('Int64', 'boolean', 'string')
    """
    return "Int64" if kinds == {int} else "boolean" if kinds == {bool} else "string"
