"""Answers of an isolated process, read as data: it may have run a stranger's code, and then says what that code wants.

Calls go to the process as pickles, since it trusts the tuner. What comes back is unpickled from a short list: our
dataclasses and errors, Python's own errors and containers, NumPy's arrays, and the references of tasks, which are
partial applications of functions of one module that computes and does nothing else.
"""

import builtins
import io
import pickle
from contextlib import suppress
from dataclasses import is_dataclass
from functools import partial
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from autotune.core.evaluator import Evaluation
from autotune.core.stopwatch import Moment

T = TypeVar("T")
OURS = ("autotune.", "payload.", "schedules.")
REFERENCES = ("autotune.compiler.tasks.oracle",)
CONTAINERS = {"builtins": ("set", "frozenset", "complex", "slice", "range", "bytearray")}
NUMPY = {
    "numpy": ("ndarray", "dtype"),
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
    "numpy._core.numeric": ("_frombuffer",),
    "numpy.core.multiarray": ("_reconstruct", "scalar"),
    "ml_dtypes": ("bfloat16",),
}
FLAVOURS = {"collections": ("OrderedDict", "Counter"), "pathlib": ("Path", "PosixPath")}
MOMENT = TypeAdapter(Moment)
EVALUATIONS = TypeAdapter(list[Evaluation])
NAMED = CONTAINERS | NUMPY | FLAVOURS


class AnswerReader(pickle.Unpickler):
    """An unpickler that knows what an answer may be made of."""

    def find_class(self, module: str, name: str) -> object:
        """The class or function of a name, if an answer may hold it.

        Raises:
            UnpicklingError: An answer may not.
        """
        if name in NAMED.get(module, ()):
            found: object = super().find_class(module, name)
            return found
        if (module, name) == ("functools", "partial"):
            return partial
        if module == "builtins" and is_error(found := getattr(builtins, name, None)):
            return found
        if module.startswith(OURS) and "." not in name:
            found = super().find_class(module, name)
            if is_answer(found) or module in REFERENCES:
                return found
        raise pickle.UnpicklingError(f"this one holds {module}.{name}")


def read_answer(data: bytes) -> object:
    """The object of an answer.

    Raises:
        UnpicklingError: The bytes are no answer.
    """
    try:
        return AnswerReader(io.BytesIO(data)).load()
    except Exception as error:
        raise pickle.UnpicklingError(f"answers must be data; {error}"[:200]) from error


def check_answer(found: object, kind: TypeAdapter[T]) -> T:
    """An object whose every field is of the type that its class declares.

    Raises:
        UnpicklingError: A field, or the object itself, is of another type.
    """
    try:
        return kind.validate_python(kind.dump_python(found, warnings="none"))  # type: ignore[arg-type]
    except (ValidationError, TypeError, ValueError) as error:
        raise pickle.UnpicklingError(f"an answer must be as it was promised, it is {type(found).__name__}") from error


def evaluations(answer: list[Evaluation], count: int) -> list[Evaluation]:
    """An answer as so many evaluations; empty if it is none."""
    with suppress(pickle.UnpicklingError):
        found = check_answer(answer, EVALUATIONS)
        return found if len(found) == count else []
    return []


def is_error(found: object) -> bool:
    """Whether an object is a class of errors."""
    return isinstance(found, type) and issubclass(found, Exception)


def is_answer(found: object) -> bool:
    """Whether an object is a class that answers are made of: data, or an error."""
    return isinstance(found, type) and (is_dataclass(found) or is_error(found))


def plain_error(error: Exception) -> Exception:
    """An error that the other end can read: itself, or its words where its class is somebody else's."""
    kind = type(error)
    if kind.__module__ == "builtins" or kind.__module__.startswith(OURS):
        return error
    plain = RuntimeError(f"{kind.__name__}: {error}")
    for note in getattr(error, "__notes__", ()):
        plain.add_note(note)
    return plain
