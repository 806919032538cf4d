"""The command line, a module a verb: results to stdout, progress to stderr.

Exit codes: 0 fine, 1 the check failed, 2 misuse, 130 interrupted, 141 nobody reads the results (`| head`),
143 terminated. This file imports next to nothing: what it takes to load the verbs is long enough for a Ctrl-C.
"""

import gc
import os
import sys
from io import TextIOWrapper

from autotune.cli.interrupt import Interrupts
from autotune.cli.output import guard_outputs
from autotune.core.errors import MachineError
from autotune.core.host.address_space import check_address_space

MOST_NEW = 20_000  # objects between searches for garbage: after the usual 700, imports are searched hundreds of times


def main() -> None:
    """Entry point: run the command line and end the process."""
    gc.set_threshold(MOST_NEW)
    interrupts = Interrupts()
    interrupts.install()
    open_what_is_closed()
    print_whatever_it_is()
    guard_outputs()
    try:
        code = run(interrupts)
    except KeyboardInterrupt:  # one more, while the line about the first was written
        code = interrupts.ended
    gc.freeze()  # at its end Python looks for garbage among all that is loaded, for half a second
    sys.exit(code)


def open_what_is_closed() -> None:
    """Let standard input and outputs that are closed lead nowhere: a file that is opened would be in their place.

    That may be a store, into which a library would then write its errors.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free, which is this one
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for good


def print_whatever_it_is() -> None:
    """Let what the locale's encoding lacks be a question mark in results; for messages Python does so by itself."""
    if isinstance(sys.stdout, TextIOWrapper) and not sys.stdout.encoding.lower().startswith("utf"):
        sys.stdout.reconfigure(errors="replace")


def run(interrupts: Interrupts | None = None) -> int:
    """Run the command line that `sys.argv` holds; its exit code.

    Args:
        interrupts: What Ctrl-C does in this process; by default what the caller has it do.
    """
    interrupts = interrupts or Interrupts()
    try:
        check_address_space()
    except MachineError as error:
        from autotune.cli.say import complain

        complain(str(error))
        return 2
    from autotune.cli import verbs

    return verbs.run(interrupts)
