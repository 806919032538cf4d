"""Answers of an isolated process, read as data: it may have run untrusted code, and then says what that code wants.

Calls go to the process as pickles, since it trusts the tuner. What comes back is a moment, the value of a call in the
type that its function declares, or an error by the name of its class, all as `typed_json` writes them. A process
without the sandbox may do whatever its user may: its answers are pickles.
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
MOST_SAID = 1 << 14  # characters of a message, and of each note
MOST_NOTES = 8
MOST_MOMENT = 1 << 10  # bytes
PLAIN_ERRORS: tuple[type[Exception], ...] = (  # of Python's, which take a text and do nothing but keep it
    *(ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, FileNotFoundError, ImportError),
    *(IndexError, KeyError, LookupError, MemoryError, NameError, NotImplementedError, OSError, OverflowError),
    *(PermissionError, RecursionError, RuntimeError, TimeoutError, TypeError, ValueError, ZeroDivisionError),
)
OURS: list[type[Exception]] = [
    each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, AutotuneError)
]
ERRORS: dict[str, type[Exception]] = {each.__name__: each for each in (*PLAIN_ERRORS, *OURS)}
FIRST_ARGUMENT = {CompileError: "stage", KernelError: "outcome"}  # of classes that take two, what they call it


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
    """An error as data.

    Attributes:
        name: Name of its class, a key of `ERRORS`.
        said: Message of the error.
        first: Argument before the message, of a class of `FIRST_ARGUMENT`.
        notes: Notes of the error.
    """

    name: str
    said: str
    first: str = ""
    notes: tuple[str, ...] = ()


def kind_of(function: Callable[..., object]) -> object:
    """The type that a call of a function answers with."""
    return typed_json.promised(getattr(function, "func", function))  # a partial application is of one


def write_moment(moment: Moment) -> list[memoryview]:
    """A moment as the parts of a message."""
    return [memoryview(MOMENT), *typed_json.dump(moment, Moment)]


def write_answer(answer: Returned | Raised, kind: object) -> list[memoryview]:
    """An answer as the parts of a message; what is not of the type that was promised is a fault of ours, and said."""
    if isinstance(answer, Returned):
        try:
            return [memoryview(RETURNED), *typed_json.dump(answer.value, kind)]
        except Exception as error:
            answer = Raised(TypeError(f"an answer must be of {kind}; {type(error).__name__}: {error}"))
    return [memoryview(RAISED), *typed_json.dump(record_of(answer.error), ErrorRecord)]


def read_answer(data: bytes, kind: object) -> Returned | Raised | Moment:
    """What a process says.

    Args:
        data: A message.
        kind: Type of the value that the call returns.

    Raises:
        AnswerError: The message is no moment, no error, and no value of that type.
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
    """What a process without the sandbox says."""
    answer: Returned | Raised | Moment = pickle.loads(data)
    return answer


def record_of(error: Exception) -> ErrorRecord:
    """An error as data: of its own class, or of the nearest one that crosses, with its name."""
    kind = type(error)
    nearest = next((each for each in kind.__mro__ if ERRORS.get(each.__name__) is each), RuntimeError)
    said = error.args[0] if len(error.args) == 1 and isinstance(error.args[0], str) else str(error)
    if nearest is not kind:
        said = f"{kind.__name__}: {said}"
    first = str(getattr(error, FIRST_ARGUMENT[nearest])) if nearest in FIRST_ARGUMENT else ""
    notes = tuple(str(note)[-MOST_SAID:] for note in getattr(error, "__notes__", ())[-MOST_NOTES:])
    return ErrorRecord(nearest.__name__, said[:MOST_SAID], first, notes)


def error_of(record: ErrorRecord) -> Exception:
    """The error of a record.

    Raises:
        AnswerError: The class of the error is not one of `ERRORS`, or its texts are longer than any.
    """
    kind = ERRORS.get(record.name)
    if kind is None or len(record.notes) > MOST_NOTES:
        raise AnswerError("an error must be of a class that may cross, with few notes")
    if any(len(text) > MOST_SAID for text in (record.said, record.first, *record.notes)):
        raise AnswerError(f"an error must be reported in {MOST_SAID} characters")
    error = kind(record.first, record.said) if kind in FIRST_ARGUMENT else kind(record.said)
    for note in record.notes:
        error.add_note(note)
    return error


def plain_error(error: Exception) -> Exception:
    """An error as it is where it crossed to."""
    return error_of(record_of(error))


def evaluations(answer: object, count: int, *, timed: bool = True) -> list[Evaluation]:
    """An answer as so many evaluations; empty if it is none.

    Args:
        answer: What a process answered.
        count: Number of candidates.
        timed: Whether those that are right must have times.
    """
    if not isinstance(answer, list) or len(answer) != count:
        return []
    return answer if all(is_evaluation(each, timed=timed) for each in answer) else []


def no_evaluation(count: int, who: str) -> list[Evaluation]:
    """What candidates are whose process answered with what is no evaluation."""
    return [Evaluation("crashed", diagnostic=f"{who} answered with what is no evaluation") for _ in range(count)]


def is_evaluation(found: object, *, timed: bool) -> bool:
    """Whether something is an evaluation whose numbers are what they stand for."""
    if not isinstance(found, Evaluation) or len(found.diagnostic) > MOST_SAID:
        return False
    if not is_positive(found.first_call, *found.phases.values()) or not set(found.phases) <= set(PHASES):
        return False
    plan = found.buffers
    if plan is not None and (len(plan.offsets) != len(plan.buffers) or plan.peak_bytes < 0):
        return False
    if found.samples is None:
        return not timed or found.outcome not in RIGHT
    return are_samples(found.samples)


def are_samples(samples: Samples) -> bool:
    """Whether times are times."""
    numbers = (samples.quiet_reference, samples.reference_level, samples.joules or 0.0)
    try:
        as_times(samples.seconds)
        if samples.reference_seconds or samples.quiet_reference:
            as_times(samples.reference_seconds)
    except ValueError:
        return False
    return samples.calls > 0 and is_positive(*numbers)


def check_roofs(roofs: Roofs) -> Roofs:
    """Roofs that a process answered with.

    Raises:
        MachineError: A rate is not a finite number above zero.
    """
    rates = (roofs.flops, roofs.dram_bytes, roofs.l2_bytes)
    if not (all(isfinite(rate) and rate > 0 for rate in rates) and is_positive(*roofs.known.values())):
        raise MachineError(f"roofs must be finite and above zero, their process answered {rates}; try again")
    return roofs


def is_positive(*numbers: float) -> bool:
    """Whether numbers are finite, and none is below zero."""
    return all(isfinite(number) and number >= 0 for number in numbers)


def joined(parts: Sequence[memoryview]) -> bytes:
    """The parts of a message as one."""
    return b"".join(parts)
