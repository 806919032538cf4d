"""Command line with one module per verb. Results go to stdout, progress and messages to stderr.

Exit codes: 0 success, 1 a check failed, 2 usage error, 130 interrupted, 141 the reader of stdout is gone (`| head`),
143 terminated. This module imports little, because loading the verbs takes long enough for a Ctrl-C to arrive.
"""

import gc
import os
import resource
import sys
from io import TextIOWrapper

from autotune.cli.interrupt import Interrupts
from autotune.cli.output import guard_outputs
from autotune.core.errors import MachineError
from autotune.core.host.address_space import check_address_space

MOST_NEW = 20_000  # threshold of garbage collection; with the default of 700, imports trigger hundreds of collections


def main() -> None:
    """Entry point: run the command line and end the process."""
    gc.set_threshold(MOST_NEW)
    interrupts = Interrupts()
    interrupts.install()
    open_what_is_closed()
    print_whatever_it_is()
    guard_outputs()
    keep_bytecode_whole()
    try:
        code = run(interrupts)
    except KeyboardInterrupt:  # a second one, while the message about the first was written
        code = interrupts.ended
    gc.freeze()  # skips the final garbage collection of all loaded modules, which takes half a second
    sys.exit(code)


def open_what_is_closed() -> None:
    """Open closed standard streams on the null device.

    Otherwise the next opened file, such as a store, would get the descriptor, and a library would write errors into it.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, which is this one
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - never closed


def print_whatever_it_is() -> None:
    """Print a question mark for characters outside the locale's encoding on stdout; stderr already escapes them."""
    if isinstance(sys.stdout, TextIOWrapper) and not sys.stdout.encoding.lower().startswith("utf"):
        sys.stdout.reconfigure(errors="replace")


def keep_bytecode_whole() -> None:
    """Keep Python from writing bytecode if file lengths are limited (`ulimit -f`).

    Python would write the part of a module's bytecode that fits, and fail to read it in every later process.
    """
    if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


def run(interrupts: Interrupts | None = None) -> int:
    """Run the command line in `sys.argv`; return its exit code.

    Args:
        interrupts: Signal handling of this process; by default that of the caller.
    """
    interrupts = interrupts or Interrupts()
    try:
        check_address_space()
        from autotune.cli import verbs
    except (MachineError, EOFError) as error:
        from autotune.cli.say import complain
        from autotune.cli.system_errors import ended_early

        complain(ended_early(error) if isinstance(error, EOFError) else str(error))
        return 2
    return verbs.run(interrupts)
