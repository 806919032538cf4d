"""Execute a program in a sandbox: `python -m` this module BYTES SECONDS PROGRAM WORDS... is replaced by that program.

The program can read the system's libraries and use the files it inherits open, but no other file, network or process.
"""

import os
import resource
import sys

from autotune.worker.isolation.sandbox import enter_program_sandbox


def enclose(most_bytes: int, seconds: int, command: list[str]) -> None:
    """Set resource limits, sandbox this process, and execute a program in it.

    Args:
        most_bytes: Maximum size of any file that it writes.
        seconds: Limit of CPU time.
        command: Program and its arguments.
    """
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    enter_program_sandbox(tuple(word for word in command if os.path.isabs(word)))
    os.execve(command[0], command, {})


if __name__ == "__main__":
    enclose(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
