"""Signal handling: SIGINT ends the process with one line and exit code 130 at any time; SIGTERM 143, SIGHUP 129.

Python's default handler raises KeyboardInterrupt wherever the program is. During an import that leaves partially
initialized modules, which cause other errors in libraries, and where it is not caught (while the command line is
loaded, in callbacks, at exit) Python prints a traceback. This module only imports what the interpreter has loaded.
"""

import atexit
import os
import signal
import sys
from contextlib import suppress
from types import FrameType

# Signals that end a verb, with their messages; exit codes follow the convention of shells.
ENDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "the terminal is gone"}
OF_SIGNALS = 128  # added to the number of a signal by shells
INTERRUPTED = OF_SIGNALS + signal.SIGINT
RESUMED = (["tune"], ["lab", "record"], ["lab", "copy"])  # verbs that can be resumed
KEPT = "every finished trial is kept, and the same command goes on"
IMPORTING = "<frozen importlib._bootstrap>"  # file name of the frames that import a module
LOOK_SECONDS = 0.05  # interval of checks whether an import has finished


class Interrupts:
    """Signal handlers of this process.

    Attributes:
        is_loading: Whether the command line is still being loaded; then the process can end at once.
        seen: Whether a signal arrived.
        number: First signal.
        code: Exit code of a finished verb, which later signals do not change; `None` before.
    """

    def __init__(self) -> None:
        self.is_loading = True
        self.seen = False
        self.number = signal.SIGINT
        self.code: int | None = None

    def install(self) -> None:
        """Install handlers of SIGINT, SIGTERM and SIGHUP, except for signals that were ignored at the start."""
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
        """Handle a signal; during an import, handling is deferred to its end.

        The process ends at once if it has no children, or if this is the second signal.

        Raises:
            KeyboardInterrupt: Raised in the verb, so that it closes its resources and ends.
        """
        if self.code is not None:
            os._exit(self.code)
        is_again = self.seen and number in ENDS
        if number in ENDS and not self.seen:
            self.seen, self.number = True, signal.Signals(number)
        if not self.is_loading and not is_importing(frame):
            raise KeyboardInterrupt
        if self.is_loading or is_again or not has_children():
            show_cursor = b"\x1b[?25h" if os.isatty(2) else b""  # hidden by a progress line
            with suppress(OSError):  # the terminal may be gone
                os.write(2, show_cursor + f"autotune: {self.sentence}\n".encode())
            os._exit(self.ended)
        self.look_again()

    @property
    def ended(self) -> int:
        """Exit code of a process ended by the signal."""
        return OF_SIGNALS + self.number

    @property
    def sentence(self) -> str:
        """Message about the interrupted verb."""
        is_kept = any(sys.argv[1 : 1 + len(words)] == words for words in RESUMED)
        return f"{ENDS[self.number]}; {KEPT}" if is_kept else ENDS[self.number]

    def end(self, code: int) -> None:
        """Record the exit code of the finished verb; from now on a signal ends the process with it."""
        self.code = code
        signal.setitimer(signal.ITIMER_REAL, 0)

    def hold(self, lost: "sys.UnraisableHookArgs") -> None:
        """Defer an interrupt raised in a callback, where Python would drop it; print other exceptions."""
        if isinstance(lost.exc_value, KeyboardInterrupt):
            self.look_again()
        else:
            sys.__unraisablehook__(lost)

    def look_again(self) -> None:
        """Set a timer to handle the signal again after `LOOK_SECONDS`."""
        signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS)


def has_children() -> bool:
    """Return whether this process has children, such as workers, whose temporary folders must be removed."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def is_importing(frame: FrameType | None) -> bool:
    """Return whether a module is being imported in the call stack of a frame."""
    while frame is not None and frame.f_code.co_filename != IMPORTING:
        frame = frame.f_back
    return frame is not None
