"""Versions of installed distributions, and the command that installs an extra from this package's origin."""

import json
import shlex
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlparse

DISTRIBUTION = "mlir-schedule-autotune"
ORIGIN = "direct_url.json"  # PEP 610: present unless the package was installed from an index


def version_of(name: str) -> str:
    """Return the version of an installed distribution; empty where it is not installed."""
    try:
        return installed_version(name)
    except PackageNotFoundError:
        return ""


@cache
def installed_version(name: str) -> str:
    """Return the version of an installed distribution, cached: a look-up searches ``sys.path`` and parses a file."""
    return version(name)


def install_command(*extras: str) -> str:
    """Return the command that installs extras into this environment.

    Args:
        extras: Names of extras in ``pyproject.toml``.
    """
    try:
        origin = distribution(DISTRIBUTION).read_text(ORIGIN)
    except PackageNotFoundError:  # run from a source tree
        origin = None
    installer = "pip install" if find_spec("pip") else "uv pip install"
    return f"{installer} {requirement(origin, sorted(set(extras)), Path.cwd())}"


def requirement(origin: str | None, extras: Sequence[str], folder: Path) -> str:
    """Return pip's requirement specifier of the installed package with extras.

    Args:
        origin: Text of ``direct_url.json`` of the installed package; `None` where it came from an index.
        extras: Names of extras.
        folder: Working directory of the command.

    Example:
        >>> requirement(None, ["compare"], Path("/clone"))
        "'mlir-schedule-autotune[compare]'"
        >>> requirement('{"url": "file:///clone", "dir_info": {"editable": true}}', ["compare"], Path("/clone"))
        "-e '.[compare]'"
        >>> requirement('{"url": "https://host/a.whl", "archive_info": {}}', ["compare", "iree"], Path("/clone"))
        "'mlir-schedule-autotune[compare,iree] @ https://host/a.whl'"
    """
    names = f"[{','.join(extras)}]"
    if origin is None:
        return shlex.quote(f"{DISTRIBUTION}{names}")
    record = json.loads(origin)
    if (url := urlparse(record["url"])).scheme != "file":
        scheme = f"{record['vcs_info']['vcs']}+" if "vcs_info" in record else ""
        return shlex.quote(f"{DISTRIBUTION}{names} @ {scheme}{record['url']}")
    path = Path(unquote(url.path))
    option = "-e " if record.get("dir_info", {}).get("editable") else ""
    return option + shlex.quote(f"{'.' if path == folder else path}{names}")
