"""Path registry: paths of payloads that the user passed to a command, by the hash of their text.

A record (a bundle or a store) states the path of its payload, but may come from anybody: that path is never opened.
Only a path that the user passed before, under this account, is opened.

    open_payload --remember--> file of lines "hash spec" --paths_of, is_named--> known
"""

import os
from contextlib import suppress
from pathlib import Path

from autotune.core.host.files import read_file

MOST_BYTES = 1 << 22  # some ten thousand paths; a larger file is overwritten


def remember(spec: str, sha256: str) -> None:
    """Register a payload's path; if the registry is not writable, records will not find the payload.

    Args:
        spec: Path of a file or folder, or of a model file with its dimension sizes.
        sha256: Hash of the payload's text.
    """
    named = os.path.abspath(spec)
    if not named.isprintable() or named in paths_of(sha256)[:1]:
        return
    with suppress(OSError):
        path = names()
        path.parent.mkdir(parents=True, exist_ok=True)
        is_full = path.exists() and path.stat().st_size > MOST_BYTES
        with path.open("w" if is_full else "a", encoding="utf-8") as file:
            file.write(f"{sha256} {named}\n")


def paths_of(sha256: str) -> list[str]:
    """Return the registered paths of payloads whose text has this hash, the most recent first."""
    return list(dict.fromkeys(path for text, path in reversed(read_names()) if text == sha256))


def is_named(spec: str) -> bool:
    """Return whether this file or folder is registered."""
    return os.path.abspath(spec) in (path for _, path in read_names())


def read_names() -> list[tuple[str, str]]:
    """Return the hash and path of every registered payload, in order of registration."""
    try:
        text = read_file(names(), 2 * MOST_BYTES).decode(errors="replace")
    except OSError:
        return []
    return [(sha256, path) for sha256, space, path in (line.partition(" ") for line in text.splitlines()) if space]


def names() -> Path:
    """Return the path of the registry file."""
    return cache() / "named"


def cache() -> Path:
    """Return the cache folder, whose contents may be deleted at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autotune"
