"""History of regression checks: JSON lines, one per bundle and check, which git can merge and any tool can plot.

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
    """Result of a check of a bundle that `regress --update` accepted.

    Attributes:
        format_version: Format version of the line.
        time: Time of the update, with a time zone.
        payload: Name of the payload.
        verdict: Verdict of the check, before the new figures were accepted.
        slowdown: Time in the check over the recorded time, by the steadier reference; `None` unless compared.
        speedup: Speed-up over the baseline in the check; `None` if nothing could be timed.
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
    """Append one line per check; create the file if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        for check in checks:
            file.write(CHECK.dump_json(check) + b"\n")


def read_history(path: Path, payload: str | None = None) -> "pd.DataFrame":
    """Read all checks, or those of a payload, as a frame with one row each, in the order of the file.

    The columns are the attributes of `Check`, with ``time`` in UTC.

    Raises:
        StoreError: A line does not have this format.
    """
    import pandas as pd  # noqa: PLC0415 - takes half a second, needed for tables only

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
    factors = dict.fromkeys(("slowdown", "speedup", "low", "high"), "float64")  # a column of None alone is not float
    frame = frame.astype(factors).assign(time=pd.to_datetime(frame["time"], utc=True))
    return frame if payload is None else frame[frame["payload"] == payload]


def history_beside(location: str | Path) -> Path | None:
    """Return the path of the history that belongs to a store or a bundle; `None` if there is none.

    `regress --update` writes it next to the machine's store, which is next to the folder of the machine's bundles.
    """
    if "://" in str(location):
        return None
    path = Path(location).absolute()
    folders = path.parents[:2] if os.path.isdir(path) else path.parents[:1]
    return next((folder / HISTORY_FILE for folder in folders if holds(folder, HISTORY_FILE)), None)
