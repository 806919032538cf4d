"""Recordings: measurements of every config in part of a task's space, in one file, on which searches are replayed.

Format history: 1 first version; 2 a task has attributes per op, instead of those of one op and a count `ops`;
3 ops have operands and a body, which recordings do not need: older files are read without them.
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

MAGIC = b"\xfd7zXZ\x00"  # magic number of xz files
MOST_BYTES = 4 << 20  # of the file
MOST_TEXT = 256 << 20  # of the decompressed text
MOST_MEMORY = 128 << 20  # of the decompressor; files of `write_recording` take half
DIGITS = 4  # significant digits of a time; measurements are reproducible to two
MOST_CACHED = 32  # recordings cached in memory, of about 2 MB each
ROOT_FACTS = ("gathers", "vectorizes", "lanes", "filled", "turned", "periods", "counts")  # of a task, in version 1
KEY = 12  # stored characters of a trial's key


def with_ops(task: object) -> object:
    """Convert a task of any format version to the current one."""
    if not isinstance(task, dict) or "nest" not in task:
        return task
    common = {name: task[name] for name in ("tag", "payload", "count") if name in task}
    members, facts = task.get("members"), {name: task[name] for name in ROOT_FACTS if name in task}
    if members and not (isinstance(members, list) and isinstance(members[0], dict)):
        return task
    root, *others = members or [{name: task[name] for name in ("nest", "contraction") if name in task}]
    return {**common, "ops": [{**root, **facts}, *others], "occurrences": task.get("ops", 1)}


@dataclass(frozen=True)
class Recording:
    """Measurements of part of a task's space.

    Attributes:
        format_version: Format version of the file.
        payload: Spec of the payload.
        task: Task of the space, with its payload's text but without its functions.
        family: Name of the family.
        machine: Machine that the times were measured on.
        versions: Versions of the software that recorded it.
        seed: Seed of the choice of the part, the order of trials, and the input data.
        knobs: Knobs, each with its values in the part.
        combinations: Number of combinations of the whole space, valid or not.
        lawful: Number of valid configs of the part, which is the number of trials of a finished recording.
        default: Default config of the family.
        trials: Trials in chronological order, failures and duplicates included.
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
    def trials_by_values(self) -> dict[tuple[Value, ...], Trial]:
        """Trial of every config, by the values of its knobs in order; a duplicate maps to its original's trial."""
        keyed = {trial.key: trial for trial in self.trials}
        return {self.values_of(trial.config): keyed.get(trial.twin, trial) for trial in self.trials}

    @cached_property
    def quiet(self) -> float:
        """Best time of the reference kernel in seconds; 1 if it was not run."""
        fastest = [min(t.samples.reference_seconds) for t in self.trials if t.samples and t.samples.reference_seconds]
        return min(fastest, default=1.0)

    def seconds_of(self, trial: Trial) -> float | None:
        """Return the time of a trial in seconds per call: the fastest sample, corrected for drift.

        The correction divides by the reference kernel's fastest time beside the trial, relative to its best. The minima
        are used instead of a search's quartiles: interference stretches some samples many times and leaves others
        unaffected, and a recording has enough samples.
        """
        samples = trial.samples
        if samples is None:
            return None
        reference = min(samples.reference_seconds, default=self.quiet)
        return min(samples.seconds) * self.quiet / reference

    def values_of(self, config: Config) -> tuple[Value, ...]:
        """Return the values of a config's knobs, in order."""
        return tuple(config[knob.name] for knob in self.knobs)

    @property
    def space(self) -> Space:
        """The recorded part as a space, in which exactly the recorded configs are valid."""
        recorded = Constraint("the config was recorded", lambda config: self.values_of(config) in self.trials_by_values)
        return Space(self.knobs, (recorded,))

    @property
    def frame(self) -> "pd.DataFrame":
        """Frame of the trials as in `autotune.store.frames.to_frame`, with ``seconds_normalised`` by `seconds_of`."""
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
    """Strip a trial of data that replays do not need: fingerprints, most of its keys, insignificant digits."""
    error = trial.max_error if trial.max_error is not None and math.isfinite(trial.max_error) else None
    samples = trial.samples and replace(
        trial.samples,
        seconds=shortened(trial.samples.seconds),
        reference_seconds=shortened(trial.samples.reference_seconds),
    )
    phases = dict(zip(trial.phases, shortened(tuple(trial.phases.values())), strict=True))
    key, original = trial.key[:KEY], trial.twin[:KEY]
    stripped = replace(trial, key=key, twin=original, samples=samples, phases=phases, max_error=error)
    return replace(stripped, scheduled="", compiled="", reason=None)


def shortened(times: tuple[float, ...]) -> tuple[float, ...]:
    """Round times to `DIGITS` significant digits."""
    return tuple(float(f"{seconds:.{DIGITS}g}") for seconds in times)


def write_recording(path: Path, recording: Recording) -> None:
    """Write a recording atomically."""
    stripped = replace(recording, trials=tuple(map(slim, recording.trials)))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, lzma.compress(RECORDING.dump_json(stripped), preset=9 | lzma.PRESET_EXTREME))


def is_recording(path: str | Path) -> bool:
    """Return whether a path is a regular file that starts with the magic number of recordings."""
    try:
        check_file(path)
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


@lru_cache(maxsize=MOST_CACHED)
def recording_in(data: bytes, most_text: int, most_memory: int) -> Recording:
    """Parse the contents of a recording's file; results are cached, since several sweeps may read the same file."""
    text = lzma.LZMADecompressor(lzma.FORMAT_XZ, most_memory).decompress(data, most_text)
    return RECORDING.validate_json(text)


def read_recording(path: str | Path) -> Recording:
    """Read a recording.

    Raises:
        StoreError: The file cannot be read, or does not have this format.
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
