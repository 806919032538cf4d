"""Cache of lowered programs on disk; a damaged or unwritable entry is compiled again.

key --read--> LoweredProgram, or None     key, LoweredProgram --write--> file: a hash, then JSON
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from autotune.compiler.lowering.text import LoweredProgram
from autotune.compiler.panel_weight import PanelWeight
from autotune.core.host.files import read_file
from autotune.core.host.whole_file import write_file
from autotune.worker.loading.paths import cache

FORMAT = 1  # 1: hash of the rest, a line; JSON of text, weights, threads
MOST_FILES, MOST_BYTES = 1000, 256 << 20


def key_of(*parts: str) -> str:
    """Return the cache key of a sequence of strings."""
    digest = hashlib.sha256(f"{FORMAT}".encode())
    for part in parts:
        digest.update(f"\0{len(part)}\0{part}".encode())
    return digest.hexdigest()


def folder() -> Path:
    """Return the folder of the cache."""
    return cache() / "tensors"


def read_cached(key: str) -> LoweredProgram | None:
    """Return the cached program of a key; `None` if it is missing or damaged."""
    try:
        digest, _, data = read_file(folder() / key, MOST_BYTES).partition(b"\n")
        if hashlib.sha256(data).hexdigest().encode() != digest:
            return None
        fields = json.loads(data)
        weights = tuple(PanelWeight(**{**weight, "shape": tuple(weight["shape"])}) for weight in fields["weights"])
        return LoweredProgram(fields["text"], weights, fields["threads"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(key: str, program: LoweredProgram) -> None:
    """Write a program to the cache; errors are ignored, and the next process compiles it again."""
    data = json.dumps(asdict(program)).encode()
    with suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        forget_oldest()
        write_file(folder() / key, hashlib.sha256(data).hexdigest().encode() + b"\n" + data)


def forget_oldest() -> None:
    """Delete the oldest files to make room for another one."""
    files = sorted((path for path in folder().iterdir() if path.is_file()), key=lambda path: path.stat().st_mtime)
    for path in files[: max(0, len(files) - MOST_FILES + 1)]:
        path.unlink(missing_ok=True)
