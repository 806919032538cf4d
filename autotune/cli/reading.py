"""The payloads that a command line names."""

from collections.abc import Sequence

from autotune.core.listener import Listener
from autotune.core.payload import Payload
from autotune.worker.loading.reading import open_payload


def read_payloads(specs: Sequence[str], line: Listener) -> list[Payload]:
    """The payloads that a user names; the line says what takes the time."""
    line.stage(f"reading {', '.join(specs)}; a model's file is imported the first time, half a minute for a large one")
    return [open_payload(spec) for spec in specs]
