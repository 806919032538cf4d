"""Resolution of a record's payload on this machine; no path in a record is opened, since it may come from anybody."""

from contextlib import suppress
from dataclasses import replace

from autotune.core.errors import AutotuneError, PayloadError
from autotune.core.payload import Payload
from autotune.core.printable import one_line
from autotune.registry import is_importable, is_registered, load_payload, may_open_file
from autotune.worker.loading.imports import imported_before
from autotune.worker.loading.paths import is_named, paths_of
from autotune.worker.loading.reading import open_model, open_path


def reopen_payload(spec: str) -> Payload:
    """Open the payload that a record names: an installed one, or one whose path the user has passed before.

    Raises:
        PayloadError: The record names neither, or the path no longer holds a payload.
    """
    installed = is_registered(spec)
    if installed and not may_open_file(spec):
        return load_payload(spec)
    if not is_named(spec):
        raise PayloadError(
            f"a payload that a record names must be installed, or named by you before, {one_line(spec)[:200]!r} is "
            "neither; where it is yours, `autotune show` it once"
        )
    if installed:
        return load_payload(spec)
    return open_model(imported_before(spec), spec) if is_importable(spec) else open_path(spec)


def known_payload(recorded: Payload) -> Payload:
    """Return a record's payload with its oracle and inputs if it is known here; else return it unchanged.

    The name in the record is opened only if it is an installed payload with plain parameters; otherwise registered
    paths of payloads with the same text are tried.
    """
    installed = is_registered(recorded.name)
    for spec in [recorded.name] if installed else paths_of(recorded.sha256):
        with suppress(AutotuneError):
            built = reopen_payload(spec)
            if is_same(built, recorded):
                return as_recorded(built, recorded)
    return recorded


def as_recorded(payload: Payload, recorded: Payload) -> Payload:
    """Return a payload with the name, rules, allowed error and derivation of an equivalent recorded one."""
    derived = payload.derived or recorded.derived
    return replace(payload, name=recorded.name, rules=recorded.rules, error=recorded.error, derived=derived)


def is_same(payload: Payload, other: Payload) -> bool:
    """Return whether two payloads have the same text and arguments."""
    return payload.text == other.text and payload.arguments == other.arguments
