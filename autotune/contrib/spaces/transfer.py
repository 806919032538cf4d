"""Transfer data: what recorded spaces teach a sampler that models, of tasks that the same family schedules."""

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

MOST_TRANSFERRED = 600  # of all recordings together: to learn from as many takes 50 ms


def read_recordings(folders: Iterable[Path]) -> list[Recording]:
    """Every recording in some folders, by name; what is none of this format is passed over."""
    found = []
    for path in sorted(path for folder in folders for path in folder.glob("*.xz")):
        try:
            found.append(read_recording(path))
        except StoreError:
            continue
    return found


def read_transfer(folders: Iterable[Path]) -> TransferData | None:
    """What the recordings in some folders teach of a family; `None` where there are none: an entry point."""
    found = read_recordings(folders)
    return partial(transfer_for, recordings=found) if found else None


def transfer_for(family: Family, recordings: Sequence[Recording]) -> list[PriorTrial]:
    """What recordings teach of the configs of a family: as many configs of each, drawn at random."""
    alike = [recording for recording in recordings if recording.family == family.name]
    rng = random.Random("lessons")  # as ever, so that the same trials are drawn
    return [prior for one in alike for prior in transfer_of(one, family, MOST_TRANSFERRED // len(alike), rng)]


def transfer_of(recording: Recording, family: Family, most: int, rng: random.Random) -> list[PriorTrial]:
    """What one recording teaches."""
    describe = features_of(recording.task, family, recording.machine)
    found = recording.found
    timed = [(t.config, recording.seconds_of(found[recording.values_of(t.config)])) for t in recording.trials]
    best = min((seconds for _, seconds in timed if seconds is not None), default=1.0)
    chosen = [(describe(config), seconds) for config, seconds in rng.sample(timed, min(most, len(timed)))]
    least = min((features.get(DELAY, 0.0) for features, _ in chosen), default=0.0)
    return [
        PriorTrial(features, math.log(seconds / best) if seconds is not None else math.inf, least)
        for features, seconds in chosen
    ]
