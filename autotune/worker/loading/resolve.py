"""Known: what a record's payload is here. A record, a bundle or a store, may be anybody's: no path in it is opened."""

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
    """The payload that a record names, which may be anybody's: an installed one, or one that the user named before.

    Raises:
        PayloadError: The record names neither, or what the user named is no payload any more.
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
    """The payload of a record with the functions that it has here, if it is known here; else as it is.

    What its name leads to is never opened, unless that is an installed payload whose parameters are words and numbers:
    only what the user named, of that text.
    """
    installed = is_registered(recorded.name)
    for spec in [recorded.name] if installed else paths_of(recorded.sha256):
        with suppress(AutotuneError):
            built = reopen_payload(spec)
            if is_same(built, recorded):
                return as_recorded(built, recorded)
    return recorded


def as_recorded(payload: Payload, recorded: Payload) -> Payload:
    """A payload that is known here, under the name of a record that computes the same, and as exact as that."""
    derived = payload.derived or recorded.derived
    return replace(payload, name=recorded.name, rules=recorded.rules, error=recorded.error, derived=derived)


def is_same(payload: Payload, other: Payload) -> bool:
    """Return whether two payloads compute the same from the same arguments."""
    return payload.text == other.text and payload.arguments == other.arguments
