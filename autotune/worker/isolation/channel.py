"""Channels: messages between the tuner and an isolated process, which may send nonsense, half a message, or none.

A message is its length, eight bytes, and as many bytes. No end waits longer than it wants to.
"""

import socket
import struct
import time
from collections.abc import Sequence
from math import inf

from autotune.core.errors import AnswerError

HEADER = struct.Struct("!Q")
MOST_BYTES = 1 << 31  # of a message: a payload of some hundred megabytes, and far from what would end the tuner


class Channel:
    """One end of a channel.

    Args:
        end: Connected stream socket; the channel owns it.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    @classmethod
    def pair(cls) -> tuple["Channel", "Channel"]:
        """Both ends of a new channel."""
        mine, theirs = socket.socketpair()
        return cls(mine), cls(theirs)

    @classmethod
    def opened(cls, handle: int) -> "Channel":
        """The end that a descriptor is of."""
        return cls(socket.socket(fileno=handle))

    def fileno(self) -> int:
        """Its descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def send(self, message: Sequence[bytes | memoryview], until: float = inf) -> None:
        """Send a message.

        Args:
            message: Parts of the message, one after the other.
            until: Time of the monotonic clock, in seconds, when it must be sent.

        Raises:
            TimeoutError: The other end did not take it in time.
            OSError: The other end is gone.
        """
        for part in (HEADER.pack(sum(map(len, message))), *message):
            self._wait_until(until)
            self._socket.sendall(part)

    def receive(self, until: float = inf) -> bytes:
        """The next message.

        Raises:
            TimeoutError: The message did not come whole in time.
            EOFError: The other end hung up.
            AnswerError: The message is of more than `MOST_BYTES`.
        """
        (length,) = HEADER.unpack(self._exactly(HEADER.size, until))
        if length > MOST_BYTES:
            raise AnswerError(f"a message must be at most {MOST_BYTES} bytes, got {length}")
        return self._exactly(length, until)

    def _exactly(self, length: int, until: float) -> bytes:
        """As many bytes; memory is taken as they come, not as they are announced."""
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
        """Let the next call of the system wait so long."""
        self._socket.settimeout(None if until == inf else max(1e-3, until - time.monotonic()))
