"""Sandbox: walls of the kernel around a process that runs untrusted code.

    Landlock   no file is opened for reading but those of `readable`, none for writing but one of its worker, no
               program is started, no signal leaves the process
    seccomp    no system call but those that computing needs, as `ALLOWED` lists them

Both are raised by the process itself, once its imports are done, hold for every thread it starts, and never come down.
Before that it gives up what root may do. A call that a wall stops fails with ``EPERM``, ``EACCES`` or ``ENOSYS``, and
the process goes on.

Sources: Landlock, https://docs.kernel.org/userspace-api/landlock.html; capset(2).

A list of what is allowed stays right when a kernel brings new calls: those are refused until they are added here. A
call that Linux had before 5.1 fails with ``EPERM``, a later one with ``ENOSYS``: its caller then falls back, as on an
older kernel. Calls of the 32-bit and x32 interfaces, where numbers mean something else, fail too. The kernel cuts an
``int`` argument to 32 bits, so a condition on one compares these alone.

Sources: libseccomp, seccomp_rule_add(3); syscalls(2), which says since when a call exists.
"""

import ctypes
import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from autotune.core.host.readable import SYSTEM, Readable

Wall = Literal["landlock", "seccomp"]
CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
READ_ANYTHING = 1 << 2  # CAP_DAC_READ_SEARCH: root reads what belongs to others, where Landlock lets it


def raise_walls(scratch: str, readable: Readable) -> tuple[Wall, ...]:
    """Raise every wall that this machine has around this process, for good.

    Args:
        scratch: The one file that may be written; it exists.
        readable: What may be read besides the system's; what is not there is left out.

    Returns:
        The walls that stand.
    """
    available_walls()  # finds their libraries, which it could not behind the first of them
    drop_capabilities()
    return walls_that_stand(raise_landlock(scratch, readable), filter_system_calls())


def raise_walls_around_programs(programs: tuple[str, ...]) -> tuple[Wall, ...]:
    """Raise the walls around a process that is about to become another program, for good.

    No file is opened for writing, and none beside the system's for reading but the programs.

    Args:
        programs: Programs that may be started in the process's place, none beside it, all behind the same walls.

    Returns:
        The walls that stand.
    """
    available_walls()  # which finds their libraries, and writes a file for that
    drop_capabilities()
    stands = raise_landlock(None, Readable(programs))
    return walls_that_stand(stands, filter_system_calls(("execve",)))


def walls_that_stand(landlock: bool, seccomp: bool) -> tuple[Wall, ...]:
    """The walls by name, whose state is reported."""
    raised: tuple[tuple[Wall, bool], ...] = (("landlock", landlock), ("seccomp", seccomp))
    return tuple(wall for wall, stands in raised if stands)


def available_walls() -> tuple[Wall, ...]:
    """The walls that this machine has: a kernel with Landlock, and libseccomp."""
    found: list[Wall] = []
    with suppress(ImportError, OSError, RuntimeError):
        from py_landlock import Landlock, LandlockError  # noqa: PLC0415 - for Linux alone

        with suppress(LandlockError):
            if Landlock().abi_version:
                found.append("landlock")
    with suppress(ImportError, OSError, RuntimeError):
        import pyseccomp  # noqa: F401, PLC0415 - raises where there is no libseccomp

        found.append("seccomp")
    return tuple(found)


def drop_capabilities() -> None:
    """Give up for good what root may do besides reading: clocks, names, limits and devices of the machine."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    held = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice 32 of them
    libc = ctypes.CDLL(None)
    if libc.capget(header, held) == 0:
        kept = held[1] & READ_ANYTHING
        libc.capset(header, (ctypes.c_uint32 * 6)(kept, kept))


def raise_landlock(scratch: str | None, readable: Readable) -> bool:
    """Allow reading some files, writing one, and nothing else; tell whether the kernel does that.

    Args:
        scratch: The file that may be written; `None` for none, but what is readable may be started as a program.
        readable: What may be read.
    """
    try:
        from py_landlock import AccessFs, Landlock, LandlockError  # noqa: PLC0415
    except (ImportError, OSError, RuntimeError):
        return False
    read = AccessFs.READ_FILE if scratch is not None else AccessFs.READ_FILE | AccessFs.EXECUTE
    rules = Landlock(strict=False)

    def allow(path: str, of_file: AccessFs, of_folder: AccessFs) -> None:
        with suppress(OSError, LandlockError):  # what is not there cannot be read
            rules.add_path_rule(path, access=of_folder if os.path.isdir(path) else of_file)

    # The kernel's rule about a folder of /proc holds as long as the folder is in its cache, where this keeps it.
    os.set_inheritable(os.open("/proc/self", os.O_PATH), True)
    for path in (*SYSTEM, "/proc/self", *readable.paths):
        allow(path, read, read | AccessFs.READ_DIR)
    for path in readable.listed:
        allow(path, AccessFs(0), AccessFs.READ_DIR)
    if scratch is not None:
        allow(scratch, AccessFs.READ_FILE | AccessFs.WRITE_FILE | AccessFs.TRUNCATE, AccessFs(0))
    try:
        rules.apply()
    except (LandlockError, OSError):
        return False
    return True


MEMORY = ("brk", "mmap", "munmap", "mremap", "mprotect", "membarrier", "get_mempolicy", "set_mempolicy")
KEYS = (
    "pkey_alloc",
    "pkey_free",
    "pkey_mprotect",
    453,
)  # 453 is map_shadow_stack: stacks of threads on newer processors
THREADS = (
    *("futex", 449, 454, 455, 456),  # futex_waitv, futex_wake, futex_wait, futex_requeue
    *("set_robust_list", "rseq", "set_tid_address", "gettid", "exit", "exit_group", "restart_syscall"),
    *("sched_yield", "sched_getaffinity", "sched_getparam", "sched_getscheduler", "sched_get_priority_max"),
    *("sched_get_priority_min", "getcpu", "getpriority", "wait4", "waitid"),
)
SIGNALS = (
    *("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigsuspend", "rt_sigtimedwait"),
    *("sigaltstack", "pause", "alarm", "setitimer", "getitimer"),
)
CLOCKS = (
    *("clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "times"),
    *("getrusage", "getrlimit", "setrlimit", "sysinfo", "uname", "getrandom"),
)
ONESELF = (
    *("getpid", "getppid", "getpgid", "getpgrp", "getsid", "getuid", "geteuid", "getgid", "getegid", "getgroups"),
    *("getresuid", "getresgid", "capget"),
)
OPENED = (  # descriptors that there are: Landlock decides which files may be opened
    *("read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "pwrite64", "pwritev", "pwritev2", "lseek"),
    *("close", 436, "dup", "dup2", "dup3", "fstat", "fstatfs", "ftruncate", "fallocate", "fadvise64", "getdents64"),
    *("pipe", "pipe2", "poll", "ppoll", "select", "pselect6", "recvfrom"),
)  # 436 is close_range
FILES = (
    *("open", "openat", "stat", "lstat", "newfstatat", "statx", "statfs", "access", "faccessat", 439, "readlink"),
    *("readlinkat", "getcwd", "umask"),
)  # 439 is faccessat2
OF_RISCV = ("riscv_flush_icache", "riscv_hwprobe")
ALLOWED: tuple[str | int, ...] = (*MEMORY, *KEYS, *THREADS, *SIGNALS, *CLOCKS, *ONESELF, *OPENED, *FILES, *OF_RISCV)

INT = 0xFFFFFFFF
CLONE_THREAD = 0x10000
# VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, SETTLS, PARENT_SETTID, CHILD_CLEARTID, DETACHED, CHILD_SETTID
CLONE_OF_THREADS = 0x100 | 0x200 | 0x400 | 0x800 | CLONE_THREAD | 0x40000 | 0x80000 | 0x100000 | 0x200000 | 0x1400000
MADVISE = (
    *range(5),  # NORMAL, RANDOM, SEQUENTIAL, WILLNEED, DONTNEED
    *(8, 10, 11, 14, 15, 16, 17, 18, 19),  # FREE, DONTFORK, DOFORK, (NO)HUGEPAGE, DONTDUMP, DODUMP, (WIPE|KEEP)ONFORK
    *(22, 23, 25, 102, 103),  # POPULATE_READ, POPULATE_WRITE, COLLAPSE, GUARD_INSTALL, GUARD_REMOVE
)
FCNTL = (0, 1, 2, 3, 4, 1030)  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC
IOCTL = (  # TCGETS, TCGETS2, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX
    *(0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5451, 0x5450),
)
PRCTL = (
    *(2, 3, 15, 16, 21, 23, 30, 39, 42),  # GET_ PDEATHSIG, DUMPABLE; SET_NAME; GET_ NAME, SECCOMP, ...
    *(38, 41, 50, 51, 56, 63, 64, 69, 70),  # NO_NEW_PRIVS, THP_DISABLE, vector lengths of SVE, SME and RISC-V
    *(0x53564D41, 0x41555856),  # SET_VMA, which names memory; GET_AUXV
)
ARCH_PRCTL = (
    *range(0x1001, 0x1005),  # bases of segments: storage of a thread
    *range(0x1021, 0x1024),  # asking for the registers of AMX
    *range(0x5001, 0x5006),  # shadow stacks
)
UNIFIED = range(424, 512)  # calls since Linux 5.1, of one number on every processor
UNKNOWN = ("clone3", "openat2")  # their arguments lie in memory, where a filter cannot look; callers fall back


@dataclass(frozen=True)
class ArgumentRule:
    """An argument of a system call that must have some value.

    Attributes:
        call: Name of the call.
        argument: Number of the argument, from 0.
        values: Values of which it has one.
        mask: Bits of the argument that are compared.
    """

    call: str
    argument: int
    values: tuple[int, ...]
    mask: int = INT


def argument_rules(process: int) -> tuple[ArgumentRule, ...]:
    """Calls that are allowed with some arguments only.

    Args:
        process: Number of the process: it may signal itself, which is how a program aborts.
    """
    return (
        ArgumentRule("clone", 0, (CLONE_THREAD,), INT & ~CLONE_OF_THREADS | CLONE_THREAD),
        ArgumentRule("kill", 0, (process,)),
        ArgumentRule("tgkill", 0, (process,)),
        ArgumentRule("prlimit64", 0, (0,)),
        ArgumentRule("sched_setaffinity", 0, (0,)),
        ArgumentRule("sendto", 4, (0,), (1 << 64) - 1),  # an address: only to the holder of the other end
        ArgumentRule("personality", 0, (INT,)),  # asks what it is
        ArgumentRule("madvise", 2, MADVISE),
        ArgumentRule("fcntl", 1, FCNTL),
        ArgumentRule("ioctl", 1, IOCTL),
        ArgumentRule("prctl", 0, PRCTL),
        ArgumentRule("arch_prctl", 0, ARCH_PRCTL),
    )


def filter_system_calls(besides: tuple[str, ...] = ()) -> bool:
    """Refuse this process what is not listed, for good; tell whether that was possible.

    Args:
        besides: Calls that are allowed, too.
    """
    try:
        import pyseccomp as seccomp  # noqa: PLC0415 - for Linux alone; raises where there is no libseccomp

        rules = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
        rules.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.ERRNO(errno.EPERM))
        rules.set_attr(seccomp.Attr.CTL_SSB, 1)  # the processor's speculation stays as it is: times must not change
    except (ImportError, OSError, RuntimeError):
        return False
    with suppress(OSError):  # a library before 2.5
        rules.set_attr(seccomp.Attr.CTL_OPTIMIZE, 2)  # the filter is searched, not read from its beginning

    def add(action: int, call: str | int, *wanted: object) -> None:
        with suppress(OSError, RuntimeError, ValueError):  # a call that this processor, or library, does not know
            rules.add_rule(action, call, *wanted)

    for call in (*ALLOWED, *besides):
        add(seccomp.ALLOW, call)
    for each in argument_rules(os.getpid()):
        for value in each.values:
            add(seccomp.ALLOW, each.call, seccomp.Arg(each.argument, seccomp.MASKED_EQ, each.mask, value))
    unknown: tuple[str | int, ...] = (*UNKNOWN, *(number for number in UNIFIED if number not in ALLOWED))
    for call in unknown:
        add(seccomp.ERRNO(errno.ENOSYS), call)
    try:
        rules.load()
    except (OSError, RuntimeError):
        return False
    return True
