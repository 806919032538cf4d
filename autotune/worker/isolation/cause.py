"""Why an isolated process ended: from its exit code, what it wrote, and its fault report, to an outcome."""

import signal
from dataclasses import dataclass
from errno import ENOMEM

from autotune.core.evaluator import TimeLimits
from autotune.core.host.stopwatch import COMPILE
from autotune.core.trial import Outcome
from autotune.worker.isolation.fault import MARK, FaultReport, read_fault_report

OUT_OF_MEMORY = ("out of memory", "bad_alloc", "cannot allocate memory", "unable to allocate")
FOREIGN = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP)  # exit codes that others give it, and seldom its own code
FULL = 0.75  # of the address space allowed: an allocation of the size of those before it no longer fits
FIRST_PAGES = 1 << 16  # an address as small as this is a null pointer and an offset


@dataclass(frozen=True)
class ExitCause:
    """Cause of a process's death.

    Attributes:
        outcome: ``crashed``, ``out-of-memory`` or ``timed-out``.
        diagnostic: The signal or exit code, where it faulted, and the first lines it wrote.
        is_foreign: Whether it was killed from outside, which says nothing about the call.
    """

    outcome: Outcome
    diagnostic: str
    is_foreign: bool = False


KEEPER_KILLED = ExitCause("crashed", "the process that watches over it was killed", is_foreign=True)


def find_cause(exit_code: int, said: str, *, memory_ran_out: bool = False, width: int = 500) -> ExitCause:
    """What a process died of that its own worker did not kill.

    Args:
        exit_code: Exit code of the process, the negative signal if one killed it.
        said: Text that the process wrote to stdout and stderr.
        memory_ran_out: Whether the system killed processes during the call because memory ran out.
        width: Longest diagnostic.
    """
    report = read_fault_report(said)
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith(MARK)]
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
    """An exit code in words."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


def ran_out(report: FaultReport | None) -> bool:
    """Return whether a process faulted on a null pointer that an allocation gave it.

    One of all the memory at once fails while most is free: the C library's last error tells.
    """
    if report is None or report.address >= FIRST_PAGES:
        return False
    return report.error == ENOMEM or (bool(report.limit_bytes) and report.mapped_bytes > FULL * report.limit_bytes)


def describe(report: FaultReport) -> str:
    """Where a process faulted."""
    null = ", a null pointer (as an allocation that fails gives)" if report.address < FIRST_PAGES else ""
    return f"at address {report.address:#x}{null}, {report.mapped_bytes / 2**30:.1f} GiB mapped"


def overdue(phase: str, time_limits: TimeLimits, *, whole: bool) -> ExitCause:
    """Cause of the end of a process of which a phase, or the whole call, took too long."""
    bound = time_limits.bound(phase)
    if whole or bound is None:
        return ExitCause("timed-out", f"took longer than {time_limits.seconds:g} s")
    what = "its compilation" if phase in COMPILE else "its first call"
    return ExitCause("timed-out", f"{what} took longer than {bound:.3g} s, far beyond what good candidates take")
