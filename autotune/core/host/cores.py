"""Cores that this process may use: physical ones, by its affinity and by the quota of its control group."""

import os
from pathlib import Path

from autotune.core.errors import OptionError
from autotune.core.options import check_whole

TOPOLOGY = Path("/sys/devices/system/cpu")
MOST_THREADS = 4096
QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of control groups, version 2: microseconds of each period, and the period


def physical_cores(allowed: frozenset[int] | None = None) -> tuple[int, ...]:
    """One CPU of each physical core that may be used, in ascending order; the last ones are the quietest.

    Args:
        allowed: CPUs to choose from; by default those of this process's affinity.
    """
    wanted = allowed if allowed is not None else frozenset(os.sched_getaffinity(0))
    last: dict[str, int] = {}
    for cpu in sorted(wanted):
        path = TOPOLOGY / f"cpu{cpu}/topology/thread_siblings_list"
        siblings = path.read_text(encoding="utf-8").strip() if path.exists() else str(cpu)
        last[siblings] = cpu
    found = sorted(last.values())
    most = quota()
    return tuple(found[-most:] if most is not None else found)


def quota() -> int | None:
    """Whole CPUs that the control group may keep busy, one at least; `None` for no bound."""
    try:
        share, period = QUOTA.read_text(encoding="utf-8").split()
        return max(1, int(share) // int(period)) if share != "max" else None
    except (OSError, ValueError):
        return None


def check_threads(threads: object) -> None:
    """Raise unless so many threads have a physical core each.

    Raises:
        OptionError: There are not as many cores, or it is no count.
    """
    check_cores("threads", threads)


def check_jobs(jobs: object, threads: int) -> None:
    """Raise unless so many jobs have a physical core each, and measure programs of one thread.

    Raises:
        OptionError: There are not as many cores, it is no count, or programs have several threads.
    """
    if jobs != 1 and threads > 1:
        raise OptionError(f"jobs must be 1 where programs have {threads} threads; got {jobs}; leave out one of the two")
    check_cores("jobs", jobs)


def check_cores(name: str, value: object) -> None:
    """Raise unless an option is a count of physical cores that may be used.

    Raises:
        OptionError: There are not as many cores, or it is no count.
    """
    check_whole(name, value, 1, MOST_THREADS)
    cores = len(physical_cores())
    if isinstance(value, int) and value > cores:
        raise OptionError(f"{name} must be at most {cores}, the cores this process may use; got {value}; try {cores}")


def own_cores() -> int:
    """CPUs that this process is kept to: a library's, in a process of its own, has one for each of its threads."""
    return len(os.sched_getaffinity(0))
