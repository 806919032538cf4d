"""Turns of a race: what entered in this process takes a sample when the tuner says so. In isolated processes only."""

from dataclasses import dataclass

from autotune.worker.bench.measure import Batch, Run, calibrate, steady

_entered: dict[str, tuple[Run, float]] = {}


@dataclass(frozen=True)
class Turn:
    """One entry's turn.

    Attributes:
        name: Name of the entry.
        batch: How its samples are taken.
    """

    name: str
    batch: Batch


@dataclass(frozen=True)
class FirstTurn:
    """A turn in which an entry finds how its samples are to be taken.

    Attributes:
        name: Name of the entry.
        sample_seconds: Seconds that a sample should last.
    """

    name: str
    sample_seconds: float


def remember(name: str, run: Run | None, scale: float = 1.0) -> None:
    """Keep how an entry is run, for its samples; `None` if it may not race. Its times are multiplied by `scale`."""
    _entered.pop(name, None)
    if run is not None:
        _entered[name] = run, scale


def calibrate_entry(turn: FirstTurn) -> Batch | None:
    """How samples of an entry are to be taken; `None` if it did not enter in this process."""
    run, _ = _entered.get(turn.name, (None, 1.0))
    return steady(calibrate(run, turn.sample_seconds)) if run is not None else None


def take_sample(turn: Turn) -> float | None:
    """Seconds a call of an entry; `None` if it did not enter in this process."""
    run, scale = _entered.get(turn.name, (None, 1.0))
    return scale * turn.batch.sample(run) if run is not None else None
