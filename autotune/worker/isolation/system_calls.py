"""System calls of a program that only computes, as a filter of the kernel (seccomp): what is not listed is refused.

A list of what is allowed stays right when a kernel brings new calls: those are refused until somebody puts them here. A
call that Linux had before 5.1 fails with ``EPERM``, a later one with ``ENOSYS``: who makes it then falls back, as on an
older kernel. Calls of the 32-bit and x32 interfaces, where numbers mean something else, fail too.

The kernel cuts an ``int`` argument to 32 bits, so a condition on one compares these alone.

Sources: libseccomp, seccomp_rule_add(3); syscalls(2), which says since when a call exists.
"""

import errno
import os
from contextlib import suppress
from dataclasses import dataclass

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
        ArgumentRule("sendto", 4, (0,), (1 << 64) - 1),  # an address: only to who holds the other end
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
