"""Versions of what is installed, and the command that installs an extra from where this package came from."""

import json
import shlex
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlparse

DISTRIBUTION = "mlir-schedule-autotune"
ORIGIN = "direct_url.json"  # PEP 610: there unless an index was asked for the package


def version_of(name: str) -> str:
    """Version of an installed distribution; empty where there is none."""
    try:
        return installed_version(name)
    except PackageNotFoundError:
        return ""


@cache
def installed_version(name: str) -> str:
    """The same, read once a process: each is a file that is looked for along ``sys.path``, and parsed as a mail is."""
    return version(name)


def install_command(*extras: str) -> str:
    """The command that installs extras into this environment.

    Args:
        extras: Names of extras, as ``pyproject.toml`` has them.
    """
    try:
        origin = distribution(DISTRIBUTION).read_text(ORIGIN)
    except PackageNotFoundError:  # run from its files
        origin = None
    installer = "pip install" if find_spec("pip") else "uv pip install"
    return f"{installer} {requirement(origin, sorted(set(extras)), Path.cwd())}"


def requirement(origin: str | None, extras: Sequence[str], folder: Path) -> str:
    """The argument of pip that names the installed package and extras of it.

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
