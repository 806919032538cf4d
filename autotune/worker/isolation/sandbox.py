"""Sandbox: Linux security mechanisms that confine a process that runs untrusted code.

    Landlock   only files of `readable` can be opened for reading, only one file of the worker for writing; no
               program can be started, no signal can be sent to another process
    seccomp    only system calls needed for computing are allowed, as listed in `ALLOWED`

The process enters both itself once its imports are done; they apply to all of its threads and cannot be left. Before
that it drops the capabilities of root. A refused call fails with ``EPERM``, ``EACCES`` or ``ENOSYS``, and the process
continues.

Sources: Landlock, https://docs.kernel.org/userspace-api/landlock.html; capset(2).

An allowlist remains safe when a kernel adds system calls: they are refused until they are listed here. A call that
Linux had before 5.1 fails with ``EPERM``, a later one with ``ENOSYS``, so that its caller falls back as on an older
kernel. Calls of the 32-bit and x32 interfaces, which have other numbers, fail as well. The kernel truncates an ``int``
argument to 32 bits, so a condition on one compares only these.

Sources: libseccomp, seccomp_rule_add(3); syscalls(2), which says since when a call exists.
"""

import ctypes
import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from autotune.core.host.readable import SYSTEM, Readable

Mechanism = Literal["landlock", "seccomp"]
CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
READ_ANYTHING = 1 << 2  # CAP_DAC_READ_SEARCH: root may read files of other users, within Landlock's rules


def enter_sandbox(scratch: str, readable: Readable) -> tuple[Mechanism, ...]:
    """Confine this process irrevocably with every mechanism that this machine supports.

    Args:
        scratch: Path of the only file that may be written; it must exist.
        readable: Paths that may be read besides the system's; missing ones are ignored.

    Returns:
        The mechanisms in effect.
    """
    available_mechanisms()  # loads the libraries, which is impossible once Landlock is in effect
    drop_capabilities()
    return mechanisms_in_effect(restrict_files(scratch, readable), filter_system_calls())


def enter_program_sandbox(programs: tuple[str, ...]) -> tuple[Mechanism, ...]:
    """Confine this process irrevocably before it executes another program.

    No file can be opened for writing, and only the system's files and the programs for reading.

    Args:
        programs: Paths of programs that may replace this process by exec; they inherit the confinement.

    Returns:
        The mechanisms in effect.
    """
    available_mechanisms()  # loads the libraries, which writes a file
    drop_capabilities()
    restricted = restrict_files(None, Readable(programs))
    return mechanisms_in_effect(restricted, filter_system_calls(("execve",)))


def mechanisms_in_effect(landlock: bool, seccomp: bool) -> tuple[Mechanism, ...]:
    """Return the names of the mechanisms in effect."""
    known: tuple[tuple[Mechanism, bool], ...] = (("landlock", landlock), ("seccomp", seccomp))
    return tuple(mechanism for mechanism, in_effect in known if in_effect)


def available_mechanisms() -> tuple[Mechanism, ...]:
    """Return the mechanisms that this machine supports: a kernel with Landlock, and libseccomp."""
    mechanisms: list[Mechanism] = []
    with suppress(ImportError, OSError, RuntimeError):
        from py_landlock import Landlock, LandlockError  # noqa: PLC0415 - for Linux alone

        with suppress(LandlockError):
            if Landlock().abi_version:
                mechanisms.append("landlock")
    with suppress(ImportError, OSError, RuntimeError):
        import pyseccomp  # noqa: F401, PLC0415 - raises where there is no libseccomp

        mechanisms.append("seccomp")
    return tuple(mechanisms)


def drop_capabilities() -> None:
    """Drop all capabilities of root except reading any file: clocks, host name, limits and devices of the machine."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    capabilities = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable sets of 32 bits, twice
    libc = ctypes.CDLL(None)
    if libc.capget(header, capabilities) == 0:
        remaining = capabilities[1] & READ_ANYTHING
        libc.capset(header, (ctypes.c_uint32 * 6)(remaining, remaining))


def restrict_files(scratch: str | None, readable: Readable) -> bool:
    """Restrict file access to reading some paths and writing one; return whether the kernel enforces it.

    Args:
        scratch: Path of the file that may be written; if `None`, none may be, but readable files may be executed.
        readable: Paths that may be read.
    """
    try:
        from py_landlock import AccessFs, Landlock, LandlockError  # noqa: PLC0415
    except (ImportError, OSError, RuntimeError):
        return False
    read = AccessFs.READ_FILE if scratch is not None else AccessFs.READ_FILE | AccessFs.EXECUTE
    rules = Landlock(strict=False)

    def allow(path: str, of_file: AccessFs, of_folder: AccessFs) -> None:
        with suppress(OSError, LandlockError):  # a missing path needs no rule
            rules.add_path_rule(path, access=of_folder if os.path.isdir(path) else of_file)

    # A rule on a folder of /proc is valid while its inode is cached; the open descriptor keeps it there.
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
OPENED = (  # on open descriptors: Landlock decides which files may be opened
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
UNIFIED = range(424, 512)  # calls since Linux 5.1, which have the same number on every architecture
UNKNOWN = ("clone3", "openat2")  # arguments are passed in memory, which a filter cannot read; callers fall back


@dataclass(frozen=True)
class ArgumentRule:
    """Set of allowed values of a system call's argument.

    Attributes:
        call: Name of the call.
        argument: Index of the argument, from 0.
        values: Allowed values.
        mask: Bits of the argument that are compared.
    """

    call: str
    argument: int
    values: tuple[int, ...]
    mask: int = INT


def argument_rules(process: int) -> tuple[ArgumentRule, ...]:
    """Return the rules for calls that are allowed only with certain arguments.

    Args:
        process: Identifier of this process, which may signal itself, as `abort` does.
    """
    return (
        ArgumentRule("clone", 0, (CLONE_THREAD,), INT & ~CLONE_OF_THREADS | CLONE_THREAD),
        ArgumentRule("kill", 0, (process,)),
        ArgumentRule("tgkill", 0, (process,)),
        ArgumentRule("prlimit64", 0, (0,)),
        ArgumentRule("sched_setaffinity", 0, (0,)),
        ArgumentRule("sendto", 4, (0,), (1 << 64) - 1),  # no address: only to the connected peer
        ArgumentRule("personality", 0, (INT,)),  # query only
        ArgumentRule("madvise", 2, MADVISE),
        ArgumentRule("fcntl", 1, FCNTL),
        ArgumentRule("ioctl", 1, IOCTL),
        ArgumentRule("prctl", 0, PRCTL),
        ArgumentRule("arch_prctl", 0, ARCH_PRCTL),
    )


def filter_system_calls(besides: tuple[str, ...] = ()) -> bool:
    """Install the system call filter irrevocably; return whether that succeeded.

    Args:
        besides: Names of further calls to allow.
    """
    try:
        import pyseccomp as seccomp  # noqa: PLC0415 - for Linux alone; raises where there is no libseccomp

        rules = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
        rules.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.ERRNO(errno.EPERM))
        rules.set_attr(seccomp.Attr.CTL_SSB, 1)  # keep speculative store bypass: times must not change
    except (ImportError, OSError, RuntimeError):
        return False
    with suppress(OSError):  # libseccomp before 2.5
        rules.set_attr(seccomp.Attr.CTL_OPTIMIZE, 2)  # binary search of the rules instead of a linear one

    def add(action: int, call: str | int, *wanted: object) -> None:
        with suppress(OSError, RuntimeError, ValueError):  # a call unknown to this architecture or library
            rules.add_rule(action, call, *wanted)

    for call in (*ALLOWED, *besides):
        add(seccomp.ALLOW, call)
    for rule in argument_rules(os.getpid()):
        for value in rule.values:
            add(seccomp.ALLOW, rule.call, seccomp.Arg(rule.argument, seccomp.MASKED_EQ, rule.mask, value))
    unknown: tuple[str | int, ...] = (*UNKNOWN, *(number for number in UNIFIED if number not in ALLOWED))
    for call in unknown:
        add(seccomp.ERRNO(errno.ENOSYS), call)
    try:
        rules.load()
    except (OSError, RuntimeError):
        return False
    return True
