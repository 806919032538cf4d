"""Messages for errors of the operating system: the requirement, the failure and a remedy."""

import errno
import resource
from traceback import walk_tb

from autotune.cli.output import NAME as OUTPUT
from autotune.core.host.files import FULL, kind_at, why_refused

FILES = (errno.EMFILE, errno.ENFILE)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


def sentence_of(error: OSError) -> str:
    """Return the message for an `OSError`."""
    if error.filename == OUTPUT:
        return f"{OUTPUT} must take what is printed, it does not: {error.strerror}; make room, or print elsewhere"
    if error.errno in FULL:
        return f"the disk{f' of {error.filename}' if error.filename else ''} must have room, it is full; make room"
    if error.errno in FILES:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"this process must be able to open files, it has too many for a limit of {most}; raise ulimit -n"
    if error.errno == errno.EAGAIN and error.filename is None:
        most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        limit = "" if most == resource.RLIM_INFINITY else f", the limit of this user is {most}"
        return f"processes must start, the system starts none{limit}; raise ulimit -u, or end other programs"
    return out_of_memory() if error.errno == errno.ENOMEM else of_path(error)


def of_path(error: OSError) -> str:
    """Return the message for a path that cannot be opened."""
    why = why_refused(error)
    if error.errno in FORBIDDEN and error.filename is not None:
        return f"{error.filename} must be open to this user, it is not: {why}; name another, or allow it"
    if error.errno == errno.EEXIST and error.filename is not None:
        return (
            f"{error.filename} must be a folder or a new name, it is neither: {kind_at(error.filename)}; name another"
        )
    return f"{error.filename or 'the file system'}: {why}"


def ended_early(error: EOFError) -> str:
    """Return the message for a file that ends too early; it names the file if that is bytecode of a Python module."""
    variables = [frame.f_locals for frame, _ in walk_tb(error.__traceback__)]
    bytecode = next((each["bytecode_path"] for each in reversed(variables) if each.get("bytecode_path")), None)
    if bytecode is not None:
        return f"bytecode of Python must be whole, {bytecode} is cut off; delete it"
    return f"files must be whole, one that is read ends too early: {error}; restore it"


def out_of_memory() -> str:
    """Return the message for a failed memory allocation of this process."""
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    limit = "" if most == resource.RLIM_INFINITY else f", the limit is {most / 2**30:.2g} GiB of address space"
    return f"this process must get the memory it asks for, it did not{limit}; raise ulimit -v, or end other programs"
