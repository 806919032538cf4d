"""Users' own scripts, read and written in the isolated process: their text is a stranger's.

The one place from which reader and writer are called.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from autotune.compiler.concrete import concrete_sequences, concrete_text
from autotune.compiler.open_script import read_open_script
from autotune.compiler.rehearsal import Rehearsal, rehearse
from autotune.core.candidate import Script
from autotune.core.errors import ScheduleError
from autotune.core.evaluator import Evaluation
from autotune.core.open_script import ChosenScript, OpenScript
from autotune.worker.worker import Worker

A = TypeVar("A")
T = TypeVar("T")
SECONDS = 60.0
MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class ScriptFile:
    """A user's file.

    Attributes:
        source: Name of the file.
        text: Text of the file.
    """

    source: str
    text: str

    @classmethod
    def read(cls, path: Path) -> "ScriptFile":
        """A file as it is.

        Raises:
            ScheduleError: The file cannot be read, is no text, or is far longer than any script.
        """
        try:
            if path.stat().st_size > MOST_BYTES:
                raise ScheduleError(f"a schedule must be at most {MOST_BYTES >> 20} MiB long, {path} is longer")
            return cls(str(path), path.read_text())
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise ScheduleError(f"a schedule must be a readable MLIR file, {path} is not: {reason}") from error


def read_script(file: ScriptFile, worker: Worker | None = None) -> OpenScript:
    """The knobs and laws of a user's script.

    Raises:
        ScheduleError: The script cannot be read or tuned; the error has its line and column.
    """
    return called(read_file, file, file.source, worker)


def read_file(file: ScriptFile) -> OpenScript:
    """`read_open_script` with one argument, as workers call it."""
    return read_open_script(file.text, file.source)


def script_text(script: Script | None, worker: Worker | None = None) -> str:
    """A script as text; a user's own with what is chosen."""
    if isinstance(script, ChosenScript):
        return called(concrete_text, script, script.source, worker)
    return script or ""


def script_sequences(chosen: ChosenScript, prefix: str, worker: Worker | None = None) -> tuple[str, str]:
    """A script of one op as named sequences, and the ops that include them; their names begin with `prefix`."""
    return called(concrete_sequences, (chosen, prefix), chosen.source, worker)


def rehearse_script(rehearsal: Rehearsal, worker: Worker | None = None) -> tuple[str, ...]:
    """What a script does to a payload, once, before it is searched."""
    return called(rehearse, rehearsal, rehearsal.script.source, worker)


def called(function: Callable[[A], T], argument: A, source: str, worker: Worker | None) -> T:
    """Call a function in the isolated process.

    Raises:
        ScheduleError: The process failed over it.
    """
    with nullcontext(worker) if worker is not None else Worker(SECONDS) as running:
        found = running.call(function, argument, SECONDS)
    if isinstance(found, Evaluation):
        raise ScheduleError(
            f"{source} must be a script that MLIR takes and ends, it {found.outcome}: {found.diagnostic}"
        )
    return found
