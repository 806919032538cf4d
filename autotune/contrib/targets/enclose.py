"""Run a program behind walls; `python -m` this module BYTES SECONDS PROGRAM WORDS... becomes that program.

It reads the system's libraries and writes to what it was given open: no other file, no network, no process beside it.
"""

import os
import resource
import sys

from autotune.worker.isolation.sandbox import raise_walls_around_programs


def enclose(most_bytes: int, seconds: int, command: list[str]) -> None:
    """Limit this process, raise walls around it, and become a program.

    Args:
        most_bytes: Length of any file it writes.
        seconds: Processor time it may take.
        command: The program, and its words.
    """
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    raise_walls_around_programs(tuple(word for word in command if os.path.isabs(word)))
    os.execve(command[0], command, {})


if __name__ == "__main__":
    enclose(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
