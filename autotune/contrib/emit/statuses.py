"""Statuses: every fault of a library's calls as a number and a sentence; 0 is none."""

from collections.abc import Sequence

from autotune.contrib.emit.variants import LevelProgram
from autotune.contrib.emit.weights import WeightsFile
from autotune.core.payload import DTYPES, Argument

NAMES = (
    "OK",
    "MEMORY",
    "PROCESSOR",
    "NO_WEIGHTS",
    "UNREADABLE",
    "WEIGHTS",
    "NEEDLESS",
    "THREADS",
    "CONTEXT",
    "BUSY",
)
OF_ARRAY = 4  # statuses for each array: null, misaligned, overlapping, out of range


def status_texts(
    arguments: Sequence[Argument], names: Sequence[str], variants: Sequence[LevelProgram], weights: WeightsFile | None
) -> list[str]:
    """The sentence of every status, by number.

    Args:
        arguments: Arguments of the payload.
        names: Names of these in C.
        variants: What the library holds.
        weights: File of weights, if there is one.
    """
    least = variants[-1]
    needs = ", ".join((*least.level.features, *least.features)) or "x86-64"
    threads = max(variant.threads for variant in variants)
    file = f"sha256 {weights.sha256}" if weights else "none"
    general = (
        "no fault",
        "memory for arrays and threads must be there, it is not",
        f"the processor must have {needs}, it lacks one; emit with a lower --target",
        f"a weights file must be given, of {file}; NULL was given",
        "the weights file must be readable, it is not",
        f"the weights file must be the one that was emitted, of {file}; it is another",
        "no weights file must be given, this library has no weights",
        f"threads must be from 1 to {threads}, or 0 for as many as it was tuned on",
        "a context must be one that open gave",
        "a context must serve one call at a time, it serves one; open one for each thread",
    )
    return [*general, *(text for a, name in zip(arguments, names, strict=True) for text in texts_of(a, name))]


def texts_of(argument: Argument, name: str) -> tuple[str, ...]:
    """The sentences of one array."""
    size = DTYPES[argument.dtype].itemsize
    least, most = range_of(argument) or (0, 0)
    return (
        f"{name} must be an array of {argument.bytes} bytes, it is NULL",
        f"{name} must lie at a multiple of {size} bytes, it does not",
        f"{name} is written, so it must overlap no other array; it does",
        f"elements of {name} must be from {least} to {most}, one is not",
    )


def range_of(argument: Argument) -> tuple[int, int] | None:
    """Least and most that an element may be, of whole numbers that are looked at; `None` for all."""
    if argument.role == "weight" or argument.dtype not in ("i8", "i32", "i64"):
        return None
    least, end = argument.accepts or (int(argument.low), int(argument.high))
    limit = 1 << (8 * DTYPES[argument.dtype].itemsize - 1)
    if (least, end) == (-limit, limit):
        return None
    return max(least, -limit), min(end, limit) - 1
