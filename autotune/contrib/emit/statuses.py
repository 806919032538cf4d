"""Status codes and messages for all errors of a library's calls; 0 is success."""

from collections.abc import Sequence

from autotune.contrib.emit.weights import WeightsFile
from autotune.core.payload import DTYPES, Argument
from autotune.core.plugs.any_size import AnySizePrograms

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
OF_ARRAY = 4  # status codes per array: null, misaligned, overlapping, out of range


def status_texts(
    arguments: Sequence[tuple[Argument, str]], needs: str, threads: int, weights: WeightsFile | None, *, is_open: bool
) -> list[str]:
    """Return the messages of all status codes, in order.

    Args:
        arguments: Arguments of a call, with their names in C.
        needs: CPU features that the library needs.
        threads: Maximum number of threads of a call.
        weights: Weights file, if there is one.
        is_open: Whether the sizes of arrays are chosen by the call.
    """
    file = f"sha256 {weights.sha256}" if weights else "none"
    general = (
        "no fault",
        "memory for arrays and threads must be there, it is not",
        f"the processor must have {needs}, and its system save their registers, it does not; "
        "emit with a lower --target",
        f"a weights file must be given, of {file}; NULL was given",
        "the weights file must be readable, it is not",
        f"the weights file must be the one that was emitted, of {file}; it is another",
        "no weights file must be given, this library has no weights",
        f"threads must be from 1 to {threads}, or 0 for as many as it was tuned on",
        "a context must be one that open gave",
        "a context must serve one call at a time, it serves one; open one for each thread",
    )
    return [*general, *(text for argument, name in arguments for text in texts_of(argument, name, is_open=is_open))]


def texts_of(argument: Argument, name: str, *, is_open: bool = False) -> tuple[str, ...]:
    """Return the messages of one array."""
    of_bytes = "" if is_open else f" of {argument.bytes} bytes"
    size = DTYPES[argument.dtype].itemsize
    least, most = range_of(argument) or (0, 0)
    return (
        f"{name} must be an array{of_bytes}, it is NULL",
        f"{name} must lie at a multiple of {size} bytes, it does not",
        f"{name} is written, so it must overlap no other array; it does",
        f"elements of {name} must be from {least} to {most}, one is not",
    )


def feature_texts(features: Sequence[str]) -> list[str]:
    """Return the messages for a processor that lacks a feature, one for each required feature."""
    needs = ", ".join(features)
    return [f"the processor must have {needs}, it lacks {each}; emit with a lower --target" for each in features]


def size_texts(sizes: AnySizePrograms, names: Sequence[str], arguments: Sequence[tuple[Argument, str]]) -> list[str]:
    """Return the additional messages of a library of any size.

    Args:
        sizes: Programs of its model.
        names: Names of the open dimensions in C.
        arguments: Arguments of a call, with their names in C.
    """
    dims = [
        f"{name} must be from {dim.low} to {dim.high}, it is not" for dim, name in zip(sizes.dims, names, strict=True)
    ]
    masks = [f"{name} must hold a 1 in each line that is padded, one has zeros alone" for _, name in arguments]
    return ["a request must fit a compiled size, it fits none", *dims, *masks]


def range_of(argument: Argument) -> tuple[int, int] | None:
    """Return the range of an argument's elements, if it is of integers and must be checked; `None` otherwise."""
    if argument.role not in ("input", "state") or argument.dtype not in ("i8", "i32", "i64"):
        return None
    least, end = argument.accepts or (int(argument.low), int(argument.high))
    limit = 1 << (8 * DTYPES[argument.dtype].itemsize - 1)
    if (least, end) == (-limit, limit):
        return None
    return max(least, -limit), min(end, limit) - 1
