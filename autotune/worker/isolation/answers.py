"""Messages of an isolated process, decoded as data only, since untrusted code in the process may forge them.

Calls are sent to the process as pickles, since it trusts the tuner. A message back is a progress report (`Moment`), the
value of a call in the return type that its function declares, or an exception by the name of its class, all encoded by
`typed_json`. A process without the sandbox has all rights of its user anyway: its messages are pickles.
"""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from autotune.core import errors
from autotune.core.errors import AnswerError, AutotuneError, CompileError, KernelError, MachineError
from autotune.core.evaluator import Evaluation
from autotune.core.host.machine import Roofs
from autotune.core.host.stopwatch import PHASES, Moment
from autotune.core.stats import as_times
from autotune.core.trial import RIGHT, Samples
from autotune.worker.isolation import typed_json

RETURNED, RAISED, MOMENT = (word.ljust(typed_json.ALIGNMENT) for word in (b"returned", b"raised", b"moment"))
MOST_CHARACTERS = 1 << 14  # characters of an error message, and of each note
MOST_NOTES = 8
MOST_MOMENT = 1 << 10  # bytes
PLAIN_ERRORS: tuple[type[Exception], ...] = (  # built-in exceptions whose constructor only stores its message
    *(ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, FileNotFoundError, ImportError),
    *(IndexError, KeyError, LookupError, MemoryError, NameError, NotImplementedError, OSError, OverflowError),
    *(PermissionError, RecursionError, RuntimeError, TimeoutError, TypeError, ValueError, ZeroDivisionError),
)
OURS: list[type[Exception]] = [
    each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, AutotuneError)
]
ERRORS: dict[str, type[Exception]] = {each.__name__: each for each in (*PLAIN_ERRORS, *OURS)}
FIRST_ARGUMENT = {CompileError: "stage", KernelError: "outcome"}  # attribute of the first of two arguments


@dataclass(frozen=True)
class Returned:
    """Answer to a call that returned."""

    value: Any


@dataclass(frozen=True)
class Raised:
    """Answer to a call that raised."""

    error: Exception


@dataclass(frozen=True)
class ErrorRecord:
    """Serializable form of an exception.

    Attributes:
        name: Name of its class, a key of `ERRORS`.
        message: Message of the error.
        first: Argument before the message, if the class is in `FIRST_ARGUMENT`; else empty.
        notes: Notes of the error.
    """

    name: str
    message: str
    first: str = ""
    notes: tuple[str, ...] = ()


def kind_of(function: Callable[..., object]) -> object:
    """Return the declared return type of a function, or of the function of a `functools.partial`."""
    return typed_json.promised(getattr(function, "func", function))


def write_moment(moment: Moment) -> list[memoryview]:
    """Encode a progress report as the parts of a message."""
    return [memoryview(MOMENT), *typed_json.dump(moment, Moment)]


def write_answer(answer: Returned | Raised, kind: object) -> list[memoryview]:
    """Encode an answer as the parts of a message; a value that is not of type `kind` becomes a `TypeError`."""
    if isinstance(answer, Returned):
        try:
            return [memoryview(RETURNED), *typed_json.dump(answer.value, kind)]
        except Exception as error:
            answer = Raised(TypeError(f"an answer must be of {kind}; {type(error).__name__}: {error}"))
    return [memoryview(RAISED), *typed_json.dump(record_of(answer.error), ErrorRecord)]


def read_answer(data: bytes, kind: object) -> Returned | Raised | Moment:
    """Decode a message of a sandboxed process.

    Args:
        data: The message.
        kind: Declared type of the call's value.

    Raises:
        AnswerError: The message is neither a progress report, nor an error, nor a value of that type.
    """
    tag, rest = data[: len(MOMENT)], memoryview(data)[len(MOMENT) :]
    if tag == RETURNED:
        return Returned(typed_json.load(rest, kind))
    if tag == RAISED:
        return Raised(error_of(typed_json.load(rest, ErrorRecord)))
    if tag != MOMENT or len(rest) > MOST_MOMENT:
        raise AnswerError("an answer must be a value, an error or a short moment, it is none")
    moment: Moment = typed_json.load(rest, Moment)
    if moment.phase not in PHASES:
        raise AnswerError(f"a moment must be of a phase of {', '.join(PHASES)}")
    return moment


def read_trusted(data: bytes, _: object) -> Returned | Raised | Moment:
    """Decode a message of a process without the sandbox, a pickle."""
    answer: Returned | Raised | Moment = pickle.loads(data)
    return answer


def record_of(error: Exception) -> ErrorRecord:
    """Convert an exception to a record: of its own class, or of the nearest base class in `ERRORS`."""
    error_class = type(error)
    nearest = next((each for each in error_class.__mro__ if ERRORS.get(each.__name__) is each), RuntimeError)
    message = error.args[0] if len(error.args) == 1 and isinstance(error.args[0], str) else str(error)
    if nearest is not error_class:
        message = f"{error_class.__name__}: {message}"
    first = str(getattr(error, FIRST_ARGUMENT[nearest])) if nearest in FIRST_ARGUMENT else ""
    notes = tuple(str(note)[-MOST_CHARACTERS:] for note in getattr(error, "__notes__", ())[-MOST_NOTES:])
    return ErrorRecord(nearest.__name__, message[:MOST_CHARACTERS], first, notes)


def error_of(record: ErrorRecord) -> Exception:
    """Rebuild the exception of a record.

    Raises:
        AnswerError: The class is not in `ERRORS`, or a text or the number of notes exceeds its limit.
    """
    error_class = ERRORS.get(record.name)
    if error_class is None or len(record.notes) > MOST_NOTES:
        raise AnswerError("an error must be of a class that may cross, with few notes")
    if any(len(text) > MOST_CHARACTERS for text in (record.message, record.first, *record.notes)):
        raise AnswerError(f"an error must be reported in {MOST_CHARACTERS} characters")
    error = error_class(record.first, record.message) if error_class in FIRST_ARGUMENT else error_class(record.message)
    for note in record.notes:
        error.add_note(note)
    return error


def plain_error(error: Exception) -> Exception:
    """Return an exception as the receiving process would rebuild it."""
    return error_of(record_of(error))


def evaluations(answer: object, count: int, *, timed: bool = True) -> list[Evaluation]:
    """Return an answer if it is a list of `count` valid evaluations; else an empty list.

    Args:
        answer: Value that a process returned.
        count: Number of candidates.
        timed: Whether the evaluations of correct candidates must have samples.
    """
    if not isinstance(answer, list) or len(answer) != count:
        return []
    return answer if all(is_evaluation(each, timed=timed) for each in answer) else []


def no_evaluation(count: int, who: str) -> list[Evaluation]:
    """Return the evaluations of candidates whose process returned something other than evaluations."""
    return [Evaluation("crashed", diagnostic=f"{who} answered with what is no evaluation") for _ in range(count)]


def is_evaluation(value: object, *, timed: bool) -> bool:
    """Return whether a value is an evaluation whose fields are in their valid ranges."""
    if not isinstance(value, Evaluation) or len(value.diagnostic) > MOST_CHARACTERS:
        return False
    if not is_positive(value.first_call, *value.phases.values()) or not set(value.phases) <= set(PHASES):
        return False
    plan = value.buffers
    if plan is not None and (len(plan.offsets) != len(plan.buffers) or plan.peak_bytes < 0):
        return False
    if value.samples is None:
        return not timed or value.outcome not in RIGHT
    return are_samples(value.samples)


def are_samples(samples: Samples) -> bool:
    """Return whether all times of samples are valid, and the other numbers finite and not negative."""
    numbers = (samples.quiet_reference, samples.reference_level, samples.joules or 0.0)
    try:
        as_times(samples.seconds)
        if samples.reference_seconds or samples.quiet_reference:
            as_times(samples.reference_seconds)
    except ValueError:
        return False
    return samples.calls > 0 and is_positive(*numbers)


def check_roofs(roofs: Roofs) -> Roofs:
    """Return roofs unchanged after validation.

    Raises:
        MachineError: A rate is not a finite number above zero.
    """
    rates = (roofs.flops, roofs.dram_bytes, roofs.l2_bytes)
    if not (all(isfinite(rate) and rate > 0 for rate in rates) and is_positive(*roofs.known.values())):
        raise MachineError(f"roofs must be finite and above zero, their process answered {rates}; try again")
    return roofs


def is_positive(*numbers: float) -> bool:
    """Return whether all numbers are finite and none is negative."""
    return all(isfinite(number) and number >= 0 for number in numbers)


def joined(parts: Sequence[memoryview]) -> bytes:
    """Concatenate the parts of a message."""
    return b"".join(parts)
