"""The history of regression checks: a line of JSON a bundle and check, so that git merges it and anybody plots it.

Format history: 1 first version.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from autotune.core.errors import StoreError
from autotune.core.host.files import holds

if TYPE_CHECKING:
    import pandas as pd

FORMAT_VERSION: Literal[1] = 1
HISTORY_FILE = "history.jsonl"
Factor = Annotated[float, Field(gt=0, allow_inf_nan=False)] | None


@dataclass(frozen=True)
class Check:
    """What `regress --update` accepted of a bundle.

    Attributes:
        format_version: Format version of the line.
        time: Time of the update, with a zone.
        payload: Name of the payload.
        verdict: Verdict of the check, before the new figures were accepted.
        slowdown: Time in the check over that recorded before, against what was steadier; `None` unless compared.
        speedup: Speed-up over the baseline in the check; `None` where nothing could be timed.
        low: Lower end of the 95 % interval of the speed-up.
        high: Upper end of the 95 % interval of the speed-up.
        machine: Fingerprint of the machine.
        compiler: Version of MLIR.
        version: Version of this project.
    """

    format_version: Literal[1]
    time: datetime
    payload: str
    verdict: Literal["ok", "faster", "slower", "wrong", "stale", "inconclusive"]
    slowdown: Factor
    speedup: Factor
    low: Factor
    high: Factor
    machine: str
    compiler: str
    version: str


CHECK: TypeAdapter[Check] = TypeAdapter(Check)
COLUMNS = tuple(name for name in Check.__dataclass_fields__ if name != "format_version")


def append_history(path: Path, checks: Sequence[Check]) -> None:
    """Add a line a check; the file is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        for check in checks:
            file.write(CHECK.dump_json(check) + b"\n")


def read_history(path: Path, payload: str | None = None) -> "pd.DataFrame":
    """Every check, or those of a payload, a row a bundle, in the order of the file.

    Columns are those of `Check`, ``time`` in UTC.

    Raises:
        StoreError: A line is none of this format.
    """
    import pandas as pd  # noqa: PLC0415 - takes half a second, which only tables need

    checks = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            checks.append(asdict(CHECK.validate_json(line)))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            location = " ".join(map(str, ("line", number, *first["loc"])))
            raise StoreError(
                f"lines of a history must be of format {FORMAT_VERSION}; {path} {location}: {first['msg']}; restore it"
            ) from error
    frame = pd.DataFrame(checks, columns=list(COLUMNS))
    factors = dict.fromkeys(("slowdown", "speedup", "low", "high"), "float64")  # without a number None is no NaN yet
    frame = frame.astype(factors).assign(time=pd.to_datetime(frame["time"], utc=True))
    return frame if payload is None else frame[frame["payload"] == payload]


def history_beside(location: str | Path) -> Path | None:
    """Find the history that goes with a store or a bundle; `None` where there is none.

    `regress --update` writes it beside the machine's store, which is beside the folder of the machine's bundles.
    """
    if "://" in str(location):
        return None
    path = Path(location).absolute()
    near = path.parents[:2] if os.path.isdir(path) else path.parents[:1]
    return next((folder / HISTORY_FILE for folder in near if holds(folder, HISTORY_FILE)), None)
