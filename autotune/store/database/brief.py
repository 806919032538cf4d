"""What `inspect` shows of every trial, in short: a line of numbers beside each trial on a server.

A trial as it is recorded is a kilobyte and more of JSON, a million of them 1.5 GB: more than can be read in seconds.
Nine fields of it are enough for counts, times and curves; of what is best the whole trial is read.
"""

import copy
from collections.abc import Sequence
from io import StringIO
from typing import Any

import pandas as pd
from optuna.trial import FrozenTrial
from sqlalchemy import Connection

from autotune.core.trial import Trial
from autotune.store.database.tables import read_lines, read_values
from autotune.store.frames import PHASES
from autotune.store.sweep import TRIAL, decode

# 1: number, outcome, seconds_median, seconds_normalised and the seconds of each phase, with commas between; as a
#   trial's system attribute. What is unknown is empty. Derived from the trial: one without it is read whole.
BRIEF = "autotune/brief-1"
TEXTS = ("outcome",)
COLUMNS = ("study", "trial", "number", *TEXTS, "seconds_median", "seconds_normalised", *PHASES)
CHUNK = 1000  # trials that are read whole at a time


def with_brief(record: FrozenTrial) -> FrozenTrial:
    """A record as a server keeps it."""
    if TRIAL not in record.user_attrs:
        return record
    kept = copy.copy(record)
    kept.system_attrs = {**record.system_attrs, BRIEF: write_brief(decode(record.user_attrs[TRIAL], 0, "the record"))}
    return kept


def without_brief(record: FrozenTrial) -> FrozenTrial:
    """A record as files keep it."""
    kept = copy.copy(record)
    kept.system_attrs = {key: value for key, value in record.system_attrs.items() if key != BRIEF}
    return kept


def write_brief(trial: Trial) -> str:
    """A trial in short.

    Example:
        >>> write_brief(Trial("t", 7, {}, "crashed", "key", "family", phases={"transform": 0.5, "jit": 0.25}))
        '7,crashed,,,0.5,,0.25,,'
    """
    samples = trial.samples
    fields = [trial.number, trial.outcome, samples and samples.median, trial.seconds]
    fields += [trial.phases.get(phase) for phase in PHASES]
    return ",".join("" if field is None else str(field) for field in fields)


def read_briefs(connection: Connection, studies: Sequence[int]) -> pd.DataFrame:
    """Every trial of some studies in short, a row each, as they were recorded: `COLUMNS`.

    Args:
        connection: Connection to the server.
        studies: Ids of the studies.
    """
    frames = [parse_lines(text) for text in read_lines(connection, studies, BRIEF)] or [parse_lines("")]
    frame = pd.concat(frames, ignore_index=True)
    whole = frame[frame["outcome"].isna()]
    if not whole.empty:  # by whatever else writes into Optuna's tables
        trials = read_trials(connection, whole["trial"].tolist())
        rows = zip(whole["study"], whole["trial"], strict=True)
        lines = [f"{study},{row},{write_brief(trials[row])}" for study, row in rows if row in trials]
        frame = pd.concat([frame.drop(whole.index), parse_lines("\n".join(lines))], ignore_index=True)
    return frame.sort_values("trial", ignore_index=True).astype({"number": "int64"})


def parse_lines(text: str) -> pd.DataFrame:
    """Lines as `read_lines` gives them, as a frame."""
    kinds: dict[str, Any] = dict.fromkeys(COLUMNS, "float64") | dict.fromkeys(TEXTS, "string")
    kinds |= {"study": "int64", "trial": "int64"}
    if not text:
        return pd.DataFrame({name: pd.Series([], dtype=kind) for name, kind in kinds.items()})
    return pd.read_csv(StringIO(text), names=list(COLUMNS), dtype=kinds)


def read_trials(connection: Connection, rows: Sequence[int]) -> dict[int, Trial]:
    """Some trials, whole, by their rows' ids; what is none is left out."""
    found: dict[int, Any] = {}
    for start in range(0, len(rows), CHUNK):
        found |= read_values(connection, rows[start : start + CHUNK], TRIAL)
    return {row: decode(data, row, "a trial of the database") for row, data in found.items() if data is not None}
