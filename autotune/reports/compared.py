"""Comparisons recorded by `autotune compare --json`, read for display."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from autotune.core.errors import StoreError
from autotune.core.stats import Interval
from autotune.store.records import Seconds, Text

FOLDER = "comparisons"
MOST_BYTES = 16 << 20
Factor = Annotated[float, Field(gt=0, lt=1e12, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1e3, allow_inf_nan=False)]
Error = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class RecordedRow:
    """One entry of a recorded comparison.

    Attributes:
        name: Name of the row: ``baseline``, ``default``, ``best``, or a library.
        outcome: Status: ``ok``, or why there is no time.
        version: Version of the program or library.
        seconds: Median time in seconds per call; `None` without a time.
        interval: 95 % interval of the time.
        ratio: Time over that of the row named in `RecordedComparison.ratio_to`.
        ratio_interval: 95 % interval of the ratio.
        roof_fraction: Share of the FMA roof.
        max_error: Largest absolute difference to the oracle.
    """

    name: Annotated[str, Field(max_length=200)]
    outcome: Annotated[str, Field(max_length=200)]
    version: Text
    seconds: Seconds | None
    interval: tuple[Seconds, Seconds] | None
    ratio: Factor | None
    ratio_interval: tuple[Factor, Factor] | None
    roof_fraction: Share | None
    max_error: Error | None

    @property
    def time(self) -> Interval | None:
        """Time in seconds per call with its interval; `None` without a time."""
        return interval_of(self.seconds, self.interval)

    @property
    def factor(self) -> Interval | None:
        """Ratio with its interval; `None` without one."""
        return interval_of(self.ratio, self.ratio_interval)


@dataclass(frozen=True)
class RecordedMachine:
    """The host of a recorded comparison, by its fingerprint."""

    fingerprint: str


@dataclass(frozen=True)
class RecordedComparison:
    """Recorded result of one run of `compare`.

    Attributes:
        payload: Name of the payload.
        machine: The host.
        ratio_to: Name of the row that ratios are relative to; `None` if it has no time.
        rows: Row of each entry.
        unproved: Whether the payload was imported, and its plain lowering was the only oracle.
    """

    payload: str
    machine: RecordedMachine
    ratio_to: str | None
    rows: Annotated[tuple[RecordedRow, ...], Field(max_length=100)]
    unproved: bool = False


COMPARISON: TypeAdapter[RecordedComparison] = TypeAdapter(RecordedComparison)


def interval_of(estimate: float | None, ends: tuple[float, float] | None) -> Interval | None:
    """Return an interval that includes the estimate; `None` if the estimate or the ends are missing."""
    if estimate is None or ends is None:
        return None
    return Interval(min(ends[0], estimate), estimate, max(ends[1], estimate))


def compared_beside(bundle: Path, payload: str, fingerprint: str) -> RecordedComparison | None:
    """Read the comparison that belongs to a bundle, ``comparisons/NAME.json`` beside the folder of bundles.

    Args:
        bundle: Folder of the bundle, ``.../bundles/NAME``.
        payload: Name of its payload; a comparison of another one is ignored.
        fingerprint: Fingerprint of its machine; likewise.

    Raises:
        StoreError: The file is not what `compare --json` writes.
    """
    folder = bundle.absolute()
    path = folder.parents[1] / FOLDER / f"{folder.name}.json"
    if not path.is_file() or path.stat().st_size > MOST_BYTES:
        return None
    try:
        comparison = COMPARISON.validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise StoreError(
            f"{path} must be what `autotune compare --json` writes, {where} is not: {first['msg']}; remove it"
        ) from error
    return comparison if (comparison.payload, comparison.machine.fingerprint) == (payload, fingerprint) else None
