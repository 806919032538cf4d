"""Turns of a race: an entry prepared in this process takes a sample on request. Isolated processes only."""

from dataclasses import dataclass

from autotune.worker.bench.measure import Batch, Run, calibrate, steady

_entered: dict[str, tuple[Run, float]] = {}


@dataclass(frozen=True)
class Turn:
    """Request for one sample of an entry.

    Attributes:
        name: Name of the entry.
        batch: Batch of a sample.
    """

    name: str
    batch: Batch


@dataclass(frozen=True)
class FirstTurn:
    """Request to calibrate an entry.

    Attributes:
        name: Name of the entry.
        sample_seconds: Target duration of a sample in seconds.
    """

    name: str
    sample_seconds: float


def remember(name: str, run: Run | None, scale: float = 1.0) -> None:
    """Register the function that runs an entry, `None` if it may not race; its times are multiplied by `scale`."""
    _entered.pop(name, None)
    if run is not None:
        _entered[name] = run, scale


def calibrate_entry(turn: FirstTurn) -> Batch | None:
    """Calibrate an entry and return its batch; `None` if it is not registered in this process."""
    run, _ = _entered.get(turn.name, (None, 1.0))
    return steady(calibrate(run, turn.sample_seconds)) if run is not None else None


def take_sample(turn: Turn) -> float | None:
    """Take one sample of an entry in seconds per call; `None` if it is not registered in this process."""
    run, scale = _entered.get(turn.name, (None, 1.0))
    return scale * turn.batch.sample(run) if run is not None else None
