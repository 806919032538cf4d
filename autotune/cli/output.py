"""Standard outputs that fail: errors of the one for results name it, and messages that nobody can read are dropped.

The system's errors name no file, and would be taken for those of any; and no sweep may end since its log has no room.
"""

import os
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STDOUT = 1  # its number
STDERR = 2
NAME = "standard output"


class PrintedResults(FileIO):
    """The file below standard output."""

    def write(self, data: "ReadableBuffer") -> int:
        """Write bytes; how many were taken.

        Raises:
            OSError: The bytes cannot be written; the file name of the error is `NAME`.
        """
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, NAME) from error


class PrintedMessages(FileIO):
    """The file below standard error."""

    def write(self, data: "ReadableBuffer") -> int:
        """Write bytes, or drop them; how many that were."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def guard_outputs() -> None:
    """Let results that cannot be written be an error that says so, and messages that cannot be none."""
    if isinstance(sys.stdout, TextIOWrapper):  # else a test's
        sys.stdout = above(PrintedResults(STDOUT, "wb", closefd=False), sys.stdout)
    if isinstance(sys.stderr, TextIOWrapper):
        sys.stderr = above(PrintedMessages(STDERR, "wb", closefd=False), sys.stderr)


def above(file: FileIO, like: TextIOWrapper) -> TextIOWrapper:
    """Text on a file, as another one is."""
    return TextIOWrapper(
        cast(BinaryIO, file if like.write_through else BufferedWriter(file)),
        like.encoding,
        like.errors,
        line_buffering=like.line_buffering,
        write_through=like.write_through,
    )


def end_output() -> None:
    """Let standard output lead nowhere: at its end Python writes what is left to what does not take it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, STDOUT)
    os.close(nowhere)
