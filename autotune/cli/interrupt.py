"""Ctrl-C: one line and exit code 130, at whatever moment it comes; SIGTERM and SIGHUP, 143 and 129, likewise.

Python's own handler raises KeyboardInterrupt wherever the program is. An import then leaves half-made modules behind,
of which libraries make other errors, and Python prints a traceback where it is not caught: while the command line
itself is loaded, in callbacks, at exit. Nothing is imported here that the interpreter has not loaded anyway.
"""

import atexit
import os
import signal
import sys
from contextlib import suppress
from types import FrameType

# Signals that end a verb, each with what the one line says; the exit code is the shell's for it.
ENDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "the terminal is gone"}
OF_SIGNALS = 128  # what a shell adds to the number of a signal
INTERRUPTED = OF_SIGNALS + signal.SIGINT
RESUMED = (["tune"], ["lab", "record"], ["lab", "copy"])  # verbs that keep what they did
KEPT = "every finished trial is kept, and the same command goes on"
IMPORTING = "<frozen importlib._bootstrap>"  # the file of frames that import a module
LOOK_SECONDS = 0.05  # between looks whether an import is done


class Interrupts:
    """What Ctrl-C does in this process.

    Attributes:
        is_loading: Whether the command line is still being loaded: nothing is open, and the process ends at once.
        seen: Whether there was an interrupt.
        number: The signal that was the first.
        code: Exit code once the verb is over, which an interrupt then does not change; `None` before.
    """

    def __init__(self) -> None:
        self.is_loading = True
        self.seen = False
        self.number = signal.SIGINT
        self.code: int | None = None

    def install(self) -> None:
        """Handle Ctrl-C in this process from now on, and what else ends it, unless it was started with it ignored."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self.handle)
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the first is the last to run: what is left
        signal.signal(signal.SIGALRM, self.handle)  # is the interpreter's end, of milliseconds
        signal.signal(signal.SIGINT, self.handle)
        sys.unraisablehook = self.hold

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle an interrupt; one that comes while a module is imported is handled when that is done.

        Where there is nothing to close, or it is the second, the process ends at once.

        Raises:
            KeyboardInterrupt: The verb shall close what it has open, and end.
        """
        if self.code is not None:
            os._exit(self.code)
        is_again = self.seen and number in ENDS
        if number in ENDS and not self.seen:
            self.seen, self.number = True, signal.Signals(number)
        if not self.is_loading and not is_importing(frame):
            raise KeyboardInterrupt
        if self.is_loading or is_again or not has_children():
            show_cursor = b"\x1b[?25h" if os.isatty(2) else b""  # which a progress line hides
            with suppress(OSError):  # of a terminal that is gone
                os.write(2, show_cursor + f"autotune: {self.sentence}\n".encode())
            os._exit(self.ended)
        self.look_again()

    @property
    def ended(self) -> int:
        """Exit code of a process that a signal ended."""
        return OF_SIGNALS + self.number

    @property
    def sentence(self) -> str:
        """What is true of the verb that was interrupted."""
        is_kept = any(sys.argv[1 : 1 + len(words)] == words for words in RESUMED)
        return f"{ENDS[self.number]}; {KEPT}" if is_kept else ENDS[self.number]

    def end(self, code: int) -> None:
        """The verb is over: from now on an interrupt ends the process with this exit code."""
        self.code = code
        signal.setitimer(signal.ITIMER_REAL, 0)

    def hold(self, lost: "sys.UnraisableHookArgs") -> None:
        """Keep an interrupt that came in a callback, where Python prints and drops it; print other exceptions."""
        if isinstance(lost.exc_value, KeyboardInterrupt):
            self.look_again()
        else:
            sys.__unraisablehook__(lost)

    def look_again(self) -> None:
        """Handle the interrupt a little later."""
        signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS)


def has_children() -> bool:
    """Whether there are processes of ours: workers and converters, which have folders to remove."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported, in the calls that led to a frame."""
    while frame is not None and frame.f_code.co_filename != IMPORTING:
        frame = frame.f_back
    return frame is not None
