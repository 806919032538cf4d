"""Error handling of the standard streams: write errors on stdout name it, and those on stderr are ignored.

Without a file name, an error on stdout could not be told from that of another file; and a sweep must not end because
its log cannot be written.
"""

import os
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STDOUT = 1  # file descriptor
STDERR = 2
NAME = "standard output"


class PrintedResults(FileIO):
    """Raw file of standard output."""

    def write(self, data: "ReadableBuffer") -> int:
        """Write bytes; return the number written.

        Raises:
            OSError: The bytes cannot be written; the file name of the error is `NAME`.
        """
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, NAME) from error


class PrintedMessages(FileIO):
    """Raw file of standard error."""

    def write(self, data: "ReadableBuffer") -> int:
        """Write bytes, or drop them on an error; return their number."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def guard_outputs() -> None:
    """Replace the standard streams: write errors on stdout get a file name, and those on stderr are ignored."""
    if isinstance(sys.stdout, TextIOWrapper):  # tests replace it
        sys.stdout = above(PrintedResults(STDOUT, "wb", closefd=False), sys.stdout)
    if isinstance(sys.stderr, TextIOWrapper):
        sys.stderr = above(PrintedMessages(STDERR, "wb", closefd=False), sys.stderr)


def above(file: FileIO, like: TextIOWrapper) -> TextIOWrapper:
    """Wrap a raw file in a text stream with the settings of another."""
    return TextIOWrapper(
        cast(BinaryIO, file if like.write_through else BufferedWriter(file)),
        like.encoding,
        like.errors,
        line_buffering=like.line_buffering,
        write_through=like.write_through,
    )


def end_output() -> None:
    """Redirect standard output to the null device, so that Python's final flush cannot fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, STDOUT)
    os.close(nowhere)
