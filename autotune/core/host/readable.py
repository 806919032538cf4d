"""Read permissions of sandboxed processes: system libraries, Python code, and explicitly allowed files.

Other files of the user are not readable: no key, no other project, no file beside an allowed one. A payload whose
functions read a file to generate inputs must allow it, as the payloads of this project do:

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
VARIABLES = ("LD_LIBRARY_PATH", "AUTOTUNE_POWERCAP")  # environment variables of folders, separated by colons
OF_INSTALLED = ("site-packages", "dist-packages")  # names of folders that contain installed packages only
METADATA = (".dist-info", ".egg-info")
_named: dict[str, None] = {}


@dataclass(frozen=True)
class Readable:
    """Paths that may be read in addition to `SYSTEM`.

    Attributes:
        paths: Files, and folders with all their contents.
        listed: Folders that may be listed only, since Python searches them for modules.
    """

    paths: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()

    def __or__(self, other: "Readable") -> "Readable":
        """Return the union of both."""
        paths, listed = dict.fromkeys((*self.paths, *other.paths)), dict.fromkeys((*self.listed, *other.listed))
        return Readable(tuple(paths), tuple(listed))

    def __ge__(self, other: "Readable") -> bool:
        """Return whether this is a superset of another."""
        return set(self.paths) >= set(other.paths) and set(self.listed) >= set(other.listed)


def allow_reading(*paths: str | Path) -> None:
    """Allow sandboxed processes to read files, or all contents of folders, from their next call on.

    Args:
        *paths: Files and folders; links are resolved now.
    """
    _named.update(dict.fromkeys(os.path.realpath(path) for path in paths))


def named_paths() -> tuple[str, ...]:
    """Return the files and folders given to `allow_reading`."""
    return tuple(_named)


def readable() -> Readable:
    """Return what a sandboxed process may read, from the modules and permissions of this process."""
    variables = tuple(os.environ.get(variable, "") for variable in VARIABLES)
    code = code_of(tuple(sys.path), len(sys.modules), variables, never_shared())
    return Readable((*code.paths, *named_paths()), code.listed)


@lru_cache(maxsize=1)
def code_of(
    folders: tuple[str, ...], modules: int, variables: tuple[str, ...], private: tuple[str, str, str]
) -> Readable:
    """Return the paths that Python imports from; of a folder with other contents, its modules only.

    Args:
        folders: Search path of modules, ``sys.path``.
        modules: Number of loaded modules, a key that invalidates the cache.
        variables: Values of `VARIABLES`.
        private: Folders of `never_shared`, a key that invalidates the cache.
    """
    paths, listed = dict.fromkeys(path for path in interpreter_paths(variables) if os.path.exists(path)), []
    for folder in folders:
        path = os.path.abspath(folder)
        if is_below(path, paths) or not os.path.exists(path):
            continue
        if os.path.basename(path) in OF_INSTALLED or os.path.isfile(path):
            paths[path] = None
        else:
            listed.append(path)
            paths.update(dict.fromkeys(modules_in(path)))
    for path in loaded_paths():
        if not is_below(path, paths) and not is_shared(path):  # in this order: the second accesses the disk
            paths[path] = None
    return Readable(tuple(paths), tuple(listed))


def interpreter_paths(variables: tuple[str, ...]) -> Iterator[str]:
    """Yield the library paths of the interpreter and its environment, given the values of `VARIABLES`."""
    for prefix in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix):
        yield from (os.path.join(prefix, name) for name in ("lib", "lib64", "pyvenv.cfg"))
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        yield sysconfig.get_path(name)
    if site.ENABLE_USER_SITE and site.USER_SITE:
        yield site.USER_SITE
    for value in variables:
        for path in value.split(os.pathsep):
            if os.path.isabs(path) and not is_shared(path):
                yield path


def modules_in(folder: str) -> Iterator[str]:
    """Yield the paths in a folder that can be imported: modules, packages, byte code and metadata."""
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
        return  # Python cannot import from it either


def loaded_paths() -> Iterator[str]:
    """Yield the paths of the loaded modules: some are links, or were not found along ``sys.path``."""
    for name, module in sorted(sys.modules.items()):
        if "." in name or name == "__main__" or module is None:
            continue
        try:
            paths, file = [str(path) for path in getattr(module, "__path__", ())], getattr(module, "__file__", None)
        except Exception:  # attribute access of an arbitrary module may raise anything
            continue
        if isinstance(file, str):
            paths = [*paths, os.path.dirname(os.path.realpath(file))] if paths else [file]
        yield from filter(os.path.isabs, paths)


def is_below(path: str, folders: dict[str, None]) -> bool:
    """Return whether a path is one of some folders, or lies in one.

    Example:
        >>> [is_below(path, {"/usr/lib": None}) for path in ("/usr/lib", "/usr/lib/a/b.so", "/usr/lib64/b.so")]
        [True, True, False]
    """
    while path:
        if path in folders:
            return True
        path = path.rpartition("/")[0]
    return False


def never_shared() -> tuple[str, str, str]:
    """Return the folders that are never to be allowed: the root, the temporary folder, and the home folder."""
    return "/", os.path.realpath(tempfile.gettempdir()), os.path.realpath(os.path.expanduser("~"))


def is_shared(folder: str) -> bool:
    """Return whether a folder is one of `never_shared`, or above the home folder: never to be allowed."""
    path, private = os.path.realpath(folder), never_shared()
    return path in private or private[2].startswith(f"{path}/")
