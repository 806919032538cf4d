"""Transfer data for model-based samplers, from recorded spaces of tasks of the same family."""

import math
import random
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from autotune.core.errors import StoreError
from autotune.core.plugs.family import Family
from autotune.store.recording import Recording, read_recording
from autotune.tuning.samplers.features import features_of
from autotune.tuning.samplers.sampler import DELAY, PriorTrial, TransferData

MOST_TRANSFERRED = 600  # configs from all recordings together; fitting as many takes 50 ms


def read_recordings(folders: Iterable[Path]) -> list[Recording]:
    """Read all recordings in some folders, sorted by path; skip files of another format."""
    recordings = []
    for path in sorted(path for folder in folders for path in folder.glob("*.xz")):
        try:
            recordings.append(read_recording(path))
        except StoreError:
            continue
    return recordings


def read_transfer(folders: Iterable[Path]) -> TransferData | None:
    """Return a function from families to transfer data of the recordings in some folders; `None` if there are none.

    It is the entry point of this package in the group ``autotune.transfer``.
    """
    recorded = read_recordings(folders)
    return partial(transfer_for, recordings=recorded) if recorded else None


def transfer_for(family: Family, recordings: Sequence[Recording]) -> list[PriorTrial]:
    """Return the transfer data of a family: the same number of configs of each of its recordings, drawn at random."""
    alike = [recording for recording in recordings if recording.family == family.name]
    rng = random.Random("lessons")  # seed kept for reproducibility: the same trials are drawn
    return [prior for one in alike for prior in transfer_of(one, family, MOST_TRANSFERRED // len(alike), rng)]


def transfer_of(recording: Recording, family: Family, most: int, rng: random.Random) -> list[PriorTrial]:
    """Return the transfer data of one recording; the target is the logarithm of the time over the best time."""
    describe = features_of(recording.task, family, recording.machine)
    by_values = recording.trials_by_values
    timed = [(t.config, recording.seconds_of(by_values[recording.values_of(t.config)])) for t in recording.trials]
    best = min((seconds for _, seconds in timed if seconds is not None), default=1.0)
    chosen = [(describe(config), seconds) for config, seconds in rng.sample(timed, min(most, len(timed)))]
    least = min((features.get(DELAY, 0.0) for features, _ in chosen), default=0.0)
    return [
        PriorTrial(features, math.log(seconds / best) if seconds is not None else math.inf, least)
        for features, seconds in chosen
    ]
