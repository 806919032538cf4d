"""Kept: lowered programs on disk, found by what they are made of; whatever is damaged or unwritable is compiled anew.

key --read--> LoweredProgram, or None     key, LoweredProgram --write--> file: a hash, then JSON
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from autotune.compiler.lowering.text import LoweredProgram
from autotune.compiler.panel_weight import PanelWeight
from autotune.core.host.files import read_file, replace_file
from autotune.worker.loading.paths import cache

FORMAT = 1  # 1: hash of the rest, a line; JSON of text, weights, threads
MOST_FILES, MOST_BYTES = 1000, 256 << 20


def key_of(*parts: str) -> str:
    """The name of what is made of some texts."""
    digest = hashlib.sha256(f"{FORMAT}".encode())
    for part in parts:
        digest.update(f"\0{len(part)}\0{part}".encode())
    return digest.hexdigest()


def folder() -> Path:
    """Where lowered programs are kept."""
    return cache() / "tensors"


def read_kept(key: str) -> LoweredProgram | None:
    """The program of a key, if it was kept whole."""
    try:
        digest, _, data = read_file(folder() / key, MOST_BYTES).partition(b"\n")
        if hashlib.sha256(data).hexdigest().encode() != digest:
            return None
        found = json.loads(data)
        weights = tuple(PanelWeight(**{**weight, "shape": tuple(weight["shape"])}) for weight in found["weights"])
        return LoweredProgram(found["text"], weights, found["threads"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(key: str, program: LoweredProgram) -> None:
    """Keep a program; where nothing can be written, the next process compiles it again."""
    data = json.dumps(asdict(program)).encode()
    with suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        forget_oldest()
        replace_file(folder() / key, hashlib.sha256(data).hexdigest().encode() + b"\n" + data)


def forget_oldest() -> None:
    """Make room for one more."""
    files = sorted(folder().iterdir(), key=lambda path: path.stat().st_mtime)
    for path in files[: max(0, len(files) - MOST_FILES + 1)]:
        path.unlink(missing_ok=True)
