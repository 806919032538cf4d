"""Sandbox: walls of the kernel around a process that runs a stranger's code.

    Landlock   no file is opened for writing but one of its worker, no program is started, no signal leaves the process
    seccomp    no socket, no new process or program, no look into or signal to another process, no file made, removed
               or given other rights, no door of the kernel that computing never needs

Both are raised by the process itself, once its imports are done, hold for every thread it starts, and never come down.
They do not hide what the user may read. A call that a wall stops fails with ``EPERM`` or ``EACCES``, and the process
goes on.

Sources: Landlock, https://docs.kernel.org/userspace-api/landlock.html; libseccomp, seccomp_rule_add(3).
"""

import errno
import fcntl
import os
from contextlib import suppress
from typing import Literal

Wall = Literal["landlock", "seccomp"]

NETWORK = ("socket", "connect", "bind", "listen", "accept", "accept4", "sendmsg", "sendmmsg")
PROCESSES = (
    *("execve", "execveat", "fork", "vfork", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise"),
    *("pidfd_open", "pidfd_getfd", "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "tkill", "kcmp"),
    *("setpriority", "ioprio_set", "migrate_pages", "move_pages", "sched_setscheduler", "sched_setattr"),
)
FILES = (
    *("creat", "truncate", "rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "unlink"),
    *("unlinkat", "mkdir", "mkdirat", "rmdir", "mknod", "mknodat", "chmod", "fchmod", "fchmodat", "chown", 452),
    *("fchown", "lchown", "fchownat", "utime", "utimes", "utimensat", "futimesat", "setxattr", "lsetxattr"),
    *("fsetxattr", "removexattr", "lremovexattr", "fremovexattr", "memfd_create", "memfd_secret"),
    *("mq_open", "mq_unlink", "shmget", "shmat", "msgget", "semget"),
)  # 452 is fchmodat2, of which libraries before 2024 do not know the name
KERNEL = (
    *("mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "bpf", "userfaultfd", "keyctl", "add_key"),
    *("request_key", "io_uring_setup", "io_uring_enter", "io_uring_register", "open_by_handle_at", "fanotify_init"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "swapon", "swapoff", "reboot"),
    *("acct", "quotactl", "open_tree", "move_mount", "fsopen", "fsmount", "fspick", "fsconfig", "mount_setattr"),
)
UNKNOWN = ("clone3", "openat2")  # their arguments lie in memory; callers fall back to calls that can be judged
CLONE_THREAD = 0x10000
SELF_SIGNALS = ("kill", "tgkill")  # to oneself they are how a program aborts
OF_ONESELF = ("prlimit64", "sched_setaffinity")  # by the number 0
PR_SET_PDEATHSIG = 1
OWNERS = (fcntl.F_SETOWN, 15)  # of fcntl: F_SETOWN_EX; who gets the signals of a descriptor
DOORS = (0x5412, 0x541C, 0x8901, 0x8902)  # of ioctl: TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP


def raise_walls(scratch: str) -> tuple[Wall, ...]:
    """Raise every wall that this machine has around this process, for good.

    Args:
        scratch: The one file that may be written; it exists.

    Returns:
        The walls that stand.
    """
    return walls_that_stand(raise_landlock(scratch), raise_seccomp())


def raise_walls_around_programs() -> tuple[Wall, ...]:
    """Raise the walls around a process that is about to become another program, for good.

    Programs may be started in the process's place, none beside it, all behind the same walls; no file is opened for
    writing.

    Returns:
        The walls that stand.
    """
    available_walls()  # which finds their libraries, and writes a file for that
    return walls_that_stand(raise_landlock(None), raise_seccomp(allowed=("execve",)))


def walls_that_stand(landlock: bool, seccomp: bool) -> tuple[Wall, ...]:
    """The walls by name, of which it is told whether they stand."""
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


def raise_landlock(scratch: str | None) -> bool:
    """Allow reading everywhere, writing one file, and nothing else; tell whether the kernel does that.

    Args:
        scratch: The file; `None` for none, but programs may be started.
    """
    try:
        from py_landlock import AccessFs, Landlock, LandlockError  # noqa: PLC0415
    except (ImportError, OSError, RuntimeError):
        return False
    try:
        rules = Landlock(strict=False).allow_read("/")
        if scratch is None:
            rules.allow_execute("/").apply()
        else:
            rules.add_path_rule(scratch, access=AccessFs.WRITE_FILE | AccessFs.TRUNCATE).apply()
    except (LandlockError, OSError):
        return False
    return True


def raise_seccomp(allowed: tuple[str, ...] = ()) -> bool:
    """Filter the system calls of this process; tell whether that was possible.

    Args:
        allowed: Calls that are let through all the same.
    """
    try:
        import pyseccomp as seccomp  # noqa: PLC0415
    except (ImportError, OSError, RuntimeError):
        return False
    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    rules.set_attr(seccomp.Attr.CTL_SSB, 1)  # the processor's speculation stays as it is: times must not change
    refuse, me = seccomp.ERRNO(errno.EPERM), os.getpid()

    def refuse_if(name: str | int, *conditions: object) -> None:
        with suppress(OSError, RuntimeError, ValueError):  # an older library, or a processor without that call
            rules.add_rule(refuse, name, *conditions)

    for name in (*NETWORK, *PROCESSES, *KERNEL, *FILES):
        if name not in allowed:
            refuse_if(name)
    for name in UNKNOWN:
        with suppress(OSError, RuntimeError, ValueError):
            rules.add_rule(seccomp.ERRNO(errno.ENOSYS), name)
    refuse_if("clone", seccomp.Arg(0, seccomp.MASKED_EQ, CLONE_THREAD, 0))
    for name in SELF_SIGNALS:
        refuse_if(name, seccomp.Arg(0, seccomp.NE, me))
    for name in OF_ONESELF:
        refuse_if(name, seccomp.Arg(0, seccomp.NE, 0))
    refuse_if("prctl", seccomp.Arg(0, seccomp.EQ, PR_SET_PDEATHSIG))
    for command in OWNERS:
        refuse_if("fcntl", seccomp.Arg(1, seccomp.EQ, command))
    for request in DOORS:
        refuse_if("ioctl", seccomp.Arg(1, seccomp.EQ, request))
    try:
        rules.load()
    except (OSError, RuntimeError):
        return False
    return True
