"""Named: where payloads lie that the user named to a verb, by the hash of their text.

A record, a bundle or a store, says what its payload was read from, and may be anybody's: that path is never opened.
What is opened is a path that the user named before, on this account.

    open_payload --remember--> file of lines "hash spec" --paths_of, is_named--> known
"""

import os
from contextlib import suppress
from pathlib import Path

from autotune.core.host.files import read_file

MOST_BYTES = 1 << 22  # some ten thousand names; then it begins anew


def remember(spec: str, sha256: str) -> None:
    """Record that the user named a payload; where nothing can be written, records of it will not find it.

    Args:
        spec: File, folder, or model's file with its sizes.
        sha256: Hash of the text.
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
    """Paths of payloads that have a text of this hash, the one that was named last first."""
    return list(dict.fromkeys(path for text, path in reversed(read_names()) if text == sha256))


def is_named(spec: str) -> bool:
    """Return whether the user named this very file or folder."""
    return os.path.abspath(spec) in (path for _, path in read_names())


def read_names() -> list[tuple[str, str]]:
    """Hash and path of every payload that was named, in order."""
    try:
        text = read_file(names(), 2 * MOST_BYTES).decode(errors="replace")
    except OSError:
        return []
    return [(sha256, path) for sha256, space, path in (line.partition(" ") for line in text.splitlines()) if space]


def names() -> Path:
    """File of all names."""
    return cache() / "named"


def cache() -> Path:
    """Folder for what is kept between runs and may be lost."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autotune"
