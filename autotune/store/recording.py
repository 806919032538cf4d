"""Recordings: a part of a task's space with every config measured, in one compressed file; searches are replayed on it.

Format history: 1 first version; 2 a task has facts of each op, where it had those of one op itself and a count `ops`;
3 ops have operands and a body, which nothing asks of recordings: older ones are read without.
"""

import lzma
import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, TypeAdapter, ValidationError

from autotune.core.errors import StoreError
from autotune.core.host.files import check_file, read_file
from autotune.core.host.machine import Machine
from autotune.core.host.whole_file import write_file
from autotune.core.space import Config, Constraint, Knob, Space, Value
from autotune.core.task import Task
from autotune.core.trial import Trial
from autotune.registry import current_name
from autotune.store.frames import to_frame
from autotune.store.records import Versions

if TYPE_CHECKING:
    import pandas as pd

MAGIC = b"\xfd7zXZ\x00"  # what files of this kind begin with
MOST_BYTES = 4 << 20  # of the file
MOST_TEXT = 256 << 20  # of what is in it
MOST_MEMORY = 128 << 20  # of the decompressor; what `write_recording` writes takes half
DIGITS = 4  # kept of a time; machines repeat themselves to two
KEPT = 32  # recordings in memory, of about 2 MB each
ROOT_FACTS = ("gathers", "vectorizes", "lanes", "filled", "turned", "periods", "counts")  # of a task, in version 1
KEY = 12  # characters kept of a trial's key


def with_ops(task: object) -> object:
    """A task of a file of any version, as one of today's."""
    if not isinstance(task, dict) or "nest" not in task:
        return task
    kept = {name: task[name] for name in ("tag", "payload", "count") if name in task}
    members, facts = task.get("members"), {name: task[name] for name in ROOT_FACTS if name in task}
    if members and not (isinstance(members, list) and isinstance(members[0], dict)):
        return task
    root, *others = members or [{name: task[name] for name in ("nest", "contraction") if name in task}]
    return {**kept, "ops": [{**root, **facts}, *others], "occurrences": task.get("ops", 1)}


@dataclass(frozen=True)
class Recording:
    """What was measured of a task's space.

    Attributes:
        format_version: Format version of the file.
        payload: Spec of the payload.
        task: Task whose space it is, with its payload's text and without its functions.
        family: Name of the family.
        machine: Machine that the times are of.
        versions: Versions of the software that recorded it.
        seed: Seed of the part, the order, and the input data.
        knobs: Knobs with the values that the part has of them.
        combinations: Number of combinations of the whole space, valid or not.
        lawful: Number of valid configs of the part: as many as a finished recording has trials.
        default: Config that the family gives without any search.
        trials: Trials in the order they were made, failures and duplicates included.
    """

    format_version: Literal[1, 2, 3]
    payload: str
    task: Annotated[Task, BeforeValidator(with_ops)]
    family: Annotated[str, AfterValidator(current_name)]
    machine: Machine
    versions: Versions
    seed: int
    knobs: tuple[Knob, ...]
    combinations: int
    lawful: int
    default: dict[str, Value]
    trials: tuple[Trial, ...]

    @cached_property
    def found(self) -> dict[tuple[Value, ...], Trial]:
        """The outcome of every config, by the values of its knobs in order: of a duplicate, that of its original."""
        keyed = {trial.key: trial for trial in self.trials}
        return {self.values_of(trial.config): keyed.get(trial.twin, trial) for trial in self.trials}

    @cached_property
    def quiet(self) -> float:
        """Seconds of the reference kernel at its best; 1 where it was not run."""
        beside = [min(t.samples.reference_seconds) for t in self.trials if t.samples and t.samples.reference_seconds]
        return min(beside, default=1.0)

    def seconds_of(self, trial: Trial) -> float | None:
        """Seconds a call: the fastest sample, scaled by how much slower than at its best the reference kernel was.

        Of both the fastest, where a search takes quartiles: what else works a core stretches some samples many times
        and leaves others alone, and a recording has enough of them.
        """
        samples = trial.samples
        if samples is None:
            return None
        beside = min(samples.reference_seconds, default=self.quiet)
        return min(samples.seconds) * self.quiet / beside

    def values_of(self, config: Config) -> tuple[Value, ...]:
        """Values of a config's knobs, in order."""
        return tuple(config[knob.name] for knob in self.knobs)

    @property
    def space(self) -> Space:
        """The part as a space of its own: valid is what was recorded."""
        recorded = Constraint("the config was recorded", lambda config: self.values_of(config) in self.found)
        return Space(self.knobs, (recorded,))

    @property
    def frame(self) -> "pd.DataFrame":
        """Trials, one row each, as `autotune.store.frames.to_frame`; ``seconds_normalised`` is `seconds_of`."""
        about = {
            "payload": self.payload,
            "identity": {"machine": self.machine.fingerprint, "compiler": self.versions.compiler},
            "sweep": self.payload,
            "flops": self.task.payload.flops,
            "bytes": self.task.payload.bytes,
        }
        frame = to_frame([(trial, about) for trial in self.trials])
        return frame.assign(seconds_normalised=[self.seconds_of(trial) or math.nan for trial in self.trials])


RECORDING: TypeAdapter[Recording] = TypeAdapter(Recording)


def slim(trial: Trial) -> Trial:
    """A trial without what no replay needs: fingerprints, most of its keys, digits that are noise."""
    error = trial.max_error if trial.max_error is not None and math.isfinite(trial.max_error) else None
    samples = trial.samples and replace(
        trial.samples,
        seconds=shortened(trial.samples.seconds),
        reference_seconds=shortened(trial.samples.reference_seconds),
    )
    phases = dict(zip(trial.phases, shortened(tuple(trial.phases.values())), strict=True))
    key, twin = trial.key[:KEY], trial.twin[:KEY]
    kept = replace(trial, key=key, twin=twin, samples=samples, phases=phases, max_error=error)
    return replace(kept, scheduled="", compiled="", reason=None)


def shortened(times: tuple[float, ...]) -> tuple[float, ...]:
    """Times with `DIGITS` significant digits."""
    return tuple(float(f"{seconds:.{DIGITS}g}") for seconds in times)


def write_recording(path: Path, recording: Recording) -> None:
    """Write a recording, whole or not at all."""
    kept = replace(recording, trials=tuple(map(slim, recording.trials)))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, lzma.compress(RECORDING.dump_json(kept), preset=9 | lzma.PRESET_EXTREME))


def is_recording(path: str | Path) -> bool:
    """Whether a path is of a regular file that begins as recordings do."""
    try:
        check_file(path)
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


@lru_cache(maxsize=KEPT)
def recording_in(data: bytes, most_text: int, most_memory: int) -> Recording:
    """The recording that a file's bytes are of; the same bytes are read once, however many sweeps learn from them."""
    text = lzma.LZMADecompressor(lzma.FORMAT_XZ, most_memory).decompress(data, most_text)
    return RECORDING.validate_json(text)


def read_recording(path: str | Path) -> Recording:
    """Read a recording.

    Raises:
        StoreError: The file cannot be read, or is none of this format.
    """
    try:
        return recording_in(read_file(path, MOST_BYTES), MOST_TEXT, MOST_MEMORY)
    except OSError as error:
        raise StoreError(f"a recording must be a readable file, {path} is not: {error.strerror}") from error
    except (lzma.LZMAError, EOFError) as error:
        raise StoreError(f"a recording must be an xz file, {path} is not: {error}; restore it") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        location = ".".join(map(str, first["loc"]))[:200]
        raise StoreError(
            f"{path} must be a recording, {location or 'its text'} is not: {first['msg']}; record it again"
        ) from error
