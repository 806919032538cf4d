"""Physical cores that this process may use, by its CPU affinity and the quota of its control group."""

import os
from pathlib import Path

from autotune.core.errors import OptionError
from autotune.core.options import check_whole

TOPOLOGY = Path("/sys/devices/system/cpu")
MOST_THREADS = 4096
QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of cgroup v2: quota and period, in microseconds


def physical_cores(allowed: frozenset[int] | None = None) -> tuple[int, ...]:
    """Return one CPU of each physical core that may be used, in ascending order; the last ones are the least disturbed.

    Args:
        allowed: CPUs to choose from; by default those of this process's affinity.
    """
    candidates = allowed if allowed is not None else frozenset(os.sched_getaffinity(0))
    by_core: dict[str, int] = {}
    for cpu in sorted(candidates):
        path = TOPOLOGY / f"cpu{cpu}/topology/thread_siblings_list"
        siblings = path.read_text(encoding="utf-8").strip() if path.exists() else str(cpu)
        by_core[siblings] = cpu
    cpus = sorted(by_core.values())
    most = quota()
    return tuple(cpus[-most:] if most is not None else cpus)


def quota() -> int | None:
    """Return the CPU quota of the control group, rounded down to whole CPUs, at least 1; `None` for no limit."""
    try:
        share, period = QUOTA.read_text(encoding="utf-8").split()
        return max(1, int(share) // int(period)) if share != "max" else None
    except (OSError, ValueError):
        return None


def check_threads(threads: object) -> None:
    """Raise unless there is a physical core for each thread.

    Raises:
        OptionError: There are fewer cores, or the value is no positive integer.
    """
    check_cores("threads", threads)


def check_jobs(jobs: object, threads: int) -> None:
    """Raise unless there is a physical core for each job, and several jobs measure single-threaded programs only.

    Raises:
        OptionError: There are fewer cores, the value is no positive integer, or programs have several threads.
    """
    if jobs != 1 and threads > 1:
        raise OptionError(f"jobs must be 1 where programs have {threads} threads; got {jobs}; leave out one of the two")
    check_cores("jobs", jobs)


def check_cores(name: str, value: object) -> None:
    """Raise unless an option is a number of physical cores that may be used.

    Raises:
        OptionError: There are fewer cores, or the value is no positive integer.
    """
    check_whole(name, value, 1, MOST_THREADS)
    cores = len(physical_cores())
    if isinstance(value, int) and value > cores:
        raise OptionError(f"{name} must be at most {cores}, the cores this process may use; got {value}; try {cores}")


def own_cores() -> int:
    """Return the number of CPUs in this process's affinity mask; a library's process has one for each thread."""
    return len(os.sched_getaffinity(0))
