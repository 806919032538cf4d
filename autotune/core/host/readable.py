"""What a process in the sandbox may read: the system's libraries, the code that Python imports, and named files.

Nothing else of the user's is readable there: no key, no other project, no file beside one that is. A payload whose
functions read a file when they make inputs names it here, as the payloads of this project do:

    allow_reading(path)  # in the process that opens the payload, before anything runs
"""

import os
import site
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import all_suffixes
from pathlib import Path

SYSTEM = (
    *("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64"),
    *("/usr/share/zoneinfo", "/usr/share/locale", "/nix/store", "/gnu/store"),  # the last two hold what is public
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.preload", "/etc/localtime"),
    *("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/filesystems", "/proc/version"),
    *("/proc/sys/vm/overcommit_memory", "/proc/sys/vm/mmap_min_addr", "/proc/sys/vm/max_map_count"),
    "/proc/sys/vm/nr_hugepages",
    *("/proc/sys/kernel/osrelease", "/proc/sys/kernel/cap_last_cap"),
    *("/sys/devices/system", "/sys/kernel/mm", "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpuset.cpus.effective"),
    *("/sys/class/powercap", "/sys/devices/virtual/powercap"),
)
VARIABLES = ("LD_LIBRARY_PATH", "AUTOTUNE_POWERCAP")  # of the environment: folders, with colons between them
OF_INSTALLED = ("site-packages", "dist-packages")  # folders that hold installed packages and nothing else
METADATA = (".dist-info", ".egg-info")
_named: dict[str, None] = {}


@dataclass(frozen=True)
class Readable:
    """What may be read besides the files of `SYSTEM`.

    Attributes:
        paths: Files, and folders with all that is in them.
        listed: Folders in which the names of files may be seen: Python looks for modules there.
    """

    paths: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()

    def __or__(self, other: "Readable") -> "Readable":
        """What either may be read."""
        paths, listed = dict.fromkeys((*self.paths, *other.paths)), dict.fromkeys((*self.listed, *other.listed))
        return Readable(tuple(paths), tuple(listed))

    def __ge__(self, other: "Readable") -> bool:
        """Whether all of another is in this."""
        return set(self.paths) >= set(other.paths) and set(self.listed) >= set(other.listed)


def allow_reading(*paths: str | Path) -> None:
    """Let processes in the sandbox read a file, or all that is in a folder, from their next call on.

    Args:
        *paths: Files and folders; of links what they lead to now.
    """
    _named.update(dict.fromkeys(os.path.realpath(path) for path in paths))


def named_paths() -> tuple[str, ...]:
    """The files and folders given to `allow_reading`."""
    return tuple(_named)


def readable() -> Readable:
    """What a process in the sandbox may read, by what this process has imported and allowed."""
    code = code_of(tuple(sys.path), len(sys.modules))
    return Readable((*code.paths, *named_paths()), code.listed)


@lru_cache(maxsize=1)
def code_of(folders: tuple[str, ...], modules: int) -> Readable:
    """What Python may import; of a folder that holds other things, too, its modules alone.

    Args:
        folders: Folders in which it looks for modules, ``sys.path``.
        modules: Number of those that are loaded; asked again where it changes.
    """
    found, listed = dict.fromkeys(path for path in interpreter_paths() if os.path.exists(path)), []
    for folder in folders:
        path = os.path.abspath(folder)
        if is_below(path, found) or not os.path.exists(path):
            continue
        if os.path.basename(path) in OF_INSTALLED or os.path.isfile(path):
            found[path] = None
        else:
            listed.append(path)
            found.update(dict.fromkeys(modules_in(path)))
    for path in loaded_paths():
        if not is_below(path, found) and not is_shared(path):  # the second looks at the disk
            found[path] = None
    return Readable(tuple(found), tuple(listed))


def interpreter_paths() -> Iterator[str]:
    """Libraries of the interpreter and of its environment, wherever they are installed."""
    for prefix in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix):
        yield from (os.path.join(prefix, name) for name in ("lib", "lib64", "pyvenv.cfg"))
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        yield sysconfig.get_path(name)
    if site.ENABLE_USER_SITE and site.USER_SITE:
        yield site.USER_SITE
    for variable in VARIABLES:
        for path in os.environ.get(variable, "").split(os.pathsep):
            if os.path.isabs(path) and not is_shared(path):
                yield path


def modules_in(folder: str) -> Iterator[str]:
    """What may be imported from a folder; the folder itself may be listed, as Python does to find it."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    is_package = any(os.path.exists(f"{entry.path}/__init__{suffix}") for suffix in all_suffixes())
                    if is_package or entry.name == "__pycache__" or entry.name.endswith(METADATA):
                        yield entry.path
                elif entry.name.endswith(tuple(all_suffixes())):
                    yield entry.path
    except OSError:
        return  # Python finds nothing there either


def loaded_paths() -> Iterator[str]:
    """Where the modules that this process has loaded lie: some are links, or found by other ways than ``sys.path``."""
    for name, module in sorted(sys.modules.items()):
        if "." in name or name == "__main__" or module is None:
            continue
        try:
            around, file = [str(path) for path in getattr(module, "__path__", ())], getattr(module, "__file__", None)
        except Exception:  # another module, which may answer anything
            continue
        if isinstance(file, str):
            around = [*around, os.path.dirname(os.path.realpath(file))] if around else [file]
        yield from filter(os.path.isabs, around)


def is_below(path: str, folders: dict[str, None]) -> bool:
    """Return whether a path is one of some folders, or lies in one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def is_shared(folder: str) -> bool:
    """Return whether a folder holds all that a user, or everybody, has: no rule may be about such a one."""
    path, home = os.path.realpath(folder), os.path.realpath(os.path.expanduser("~"))
    return path in ("/", home, os.path.realpath(tempfile.gettempdir())) or home.startswith(f"{path}/")
