"""Cause of an isolated process's end: exit code, output and fault report are mapped to an outcome."""

import signal
from dataclasses import dataclass
from errno import ENOMEM

from autotune.core.evaluator import TimeLimits
from autotune.core.host.stopwatch import COMPILE
from autotune.core.trial import Outcome
from autotune.worker.isolation.fault import MARK, FaultReport, read_fault_report

OUT_OF_MEMORY = ("out of memory", "bad_alloc", "cannot allocate memory", "unable to allocate")
FOREIGN = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP)  # signals from other processes, rarely from its own code
FULL = 0.75  # share of the address space limit above which another allocation of the usual size fails
FIRST_PAGES = 1 << 16  # an address below this is a null pointer plus an offset


@dataclass(frozen=True)
class ExitCause:
    """Cause of a process's death.

    Attributes:
        outcome: ``crashed``, ``out-of-memory`` or ``timed-out``.
        diagnostic: The signal or exit code, the faulting address, and the first lines of its output.
        is_foreign: Whether it was killed from outside, in which case the call is not to blame.
    """

    outcome: Outcome
    diagnostic: str
    is_foreign: bool = False


KEEPER_KILLED = ExitCause("crashed", "the process that watches over it was killed", is_foreign=True)


def find_cause(exit_code: int, output: str, *, memory_ran_out: bool = False, width: int = 500) -> ExitCause:
    """Determine why a process ended that its worker did not kill.

    Args:
        exit_code: Exit code of the process; the negated signal number if a signal killed it.
        output: Output of the process on stdout and stderr.
        memory_ran_out: Whether the kernel's out-of-memory killer was active during the call.
        width: Maximum length of the diagnostic, in characters.
    """
    report = read_fault_report(output)
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith(MARK)]
    how = [name_of(exit_code), *([describe(report)] if report else [])]
    diagnostic = " | ".join([" ".join(how), *lines[:3]])[:width]
    if exit_code == -signal.SIGXCPU:
        return ExitCause("timed-out", f"its processor time was spent ({diagnostic})")
    if exit_code == -signal.SIGKILL and memory_ran_out:
        return ExitCause("out-of-memory", f"the system killed it, as it does when memory runs out ({diagnostic})")
    if exit_code in FOREIGN:
        return ExitCause("crashed", f"it was killed from outside ({diagnostic})", is_foreign=True)
    if any(sign in line.lower() for line in lines for sign in OUT_OF_MEMORY) or ran_out(report):
        return ExitCause("out-of-memory", diagnostic)
    return ExitCause("crashed", diagnostic)


def name_of(exit_code: int) -> str:
    """Describe an exit code: the name of the signal, or the number."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


def ran_out(report: FaultReport | None) -> bool:
    """Return whether a process faulted on a null pointer that a failed allocation returned.

    A single huge allocation fails while most memory is free, so the C library's last error is checked as well.
    """
    if report is None or report.address >= FIRST_PAGES:
        return False
    return report.error == ENOMEM or (bool(report.limit_bytes) and report.mapped_bytes > FULL * report.limit_bytes)


def describe(report: FaultReport) -> str:
    """Describe where a process faulted."""
    null = ", a null pointer (as an allocation that fails gives)" if report.address < FIRST_PAGES else ""
    return f"at address {report.address:#x}{null}, {report.mapped_bytes / 2**30:.1f} GiB mapped"


def overdue(phase: str, time_limits: TimeLimits, *, whole: bool) -> ExitCause:
    """Return the cause for a process in which a phase, or the whole call, exceeded its time limit."""
    bound = time_limits.bound(phase)
    if whole or bound is None:
        return ExitCause("timed-out", f"took longer than {time_limits.seconds:g} s")
    step = "its compilation" if phase in COMPILE else "its first call"
    return ExitCause("timed-out", f"{step} took longer than {bound:.3g} s, far beyond what good candidates take")
