"""Channels: length-prefixed messages between the tuner and an isolated process, which may send malformed ones.

A message is its length in eight bytes, big-endian, followed by that many bytes. Every wait has a deadline.
"""

import socket
import struct
import time
from collections.abc import Sequence
from math import inf

from autotune.core.errors import AnswerError

HEADER = struct.Struct("!Q")
MOST_BYTES = 1 << 31  # of a message: room for a payload of hundreds of megabytes, too little to exhaust the tuner


class Channel:
    """One end of a channel.

    Args:
        end: Connected stream socket; the channel owns it.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    @classmethod
    def pair(cls) -> tuple["Channel", "Channel"]:
        """Create a channel and return both ends."""
        ours, theirs = socket.socketpair()
        return cls(ours), cls(theirs)

    @classmethod
    def opened(cls, handle: int) -> "Channel":
        """Return the end of a channel whose socket has the given descriptor."""
        return cls(socket.socket(fileno=handle))

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def send(self, message: Sequence[bytes | memoryview], until: float = inf) -> None:
        """Send a message.

        Args:
            message: Parts of the message, in order.
            until: Deadline in seconds of the monotonic clock.

        Raises:
            TimeoutError: The other end did not receive it in time.
            OSError: The other end is closed.
        """
        for part in (HEADER.pack(sum(map(len, message))), *message):
            self._wait_until(until)
            self._socket.sendall(part)

    def receive(self, until: float = inf) -> bytes:
        """Receive the next message.

        Raises:
            TimeoutError: The message was not complete by the deadline.
            EOFError: The other end closed the connection.
            AnswerError: The message is longer than `MOST_BYTES`.
        """
        (length,) = HEADER.unpack(self._exactly(HEADER.size, until))
        if length > MOST_BYTES:
            raise AnswerError(f"a message must be at most {MOST_BYTES} bytes, got {length}")
        return self._exactly(length, until)

    def _exactly(self, length: int, until: float) -> bytes:
        """Receive exactly `length` bytes; memory is allocated as they arrive, not as announced."""
        parts, missing = [], length
        while missing:
            self._wait_until(until)
            part = self._socket.recv(min(missing, 1 << 20))
            if not part:
                raise EOFError("the other end hung up")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _wait_until(self, until: float) -> None:
        """Set the deadline of the next system call on the socket."""
        self._socket.settimeout(None if until == inf else max(1e-3, until - time.monotonic()))
