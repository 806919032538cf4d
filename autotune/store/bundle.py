"""Bundles: a winner as a folder of plain files that can be verified and run again.

Only MLIR in a bundle is executed. The files and the history of the format are described in results/README.md and
`autotune.manifest`.
"""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autotune.compiler.guard import RULES, BundleTexts, check_pipeline
from autotune.compiler.script.checks import PASSES, passes_of
from autotune.core.errors import BundleError, PayloadError
from autotune.core.host.exchange import exchange
from autotune.core.host.files import why_refused
from autotune.core.host.scratch import Scratch
from autotune.core.payload import MOST_ARGUMENTS, REFERENCE, Payload
from autotune.core.plugs.external_kernel import ExternalKernel, MadeObject, kernel_files
from autotune.core.scripts.rules import NO_RULES, Rules
from autotune.registry import BASELINES, RIVALS, is_registered, load_baseline, registered
from autotune.store.manifest import MANIFEST_FILE, Manifest, parse_manifest, read_bytes, write_manifest
from autotune.store.manifest_checks import check_manifest
from autotune.worker.loading.reading import check_bundle
from autotune.worker.loading.resolve import as_recorded, is_same, known_payload

PAYLOAD, TAGGED, SCHEDULE, REWRITTEN = "payload.mlir", "tagged.mlir", "schedule.mlir", "prepared.mlir"
FILES = (PAYLOAD, TAGGED, SCHEDULE)  # in every bundle, besides the manifest and the files of tasks
DERIVED = ("tasks/", "schedules/")  # one file per task, which `show --stage tasks` and `show --task` can regenerate


@dataclass(frozen=True)
class BundleFiles:
    """Files of a bundle, read and checked.

    Attributes:
        folder: Folder of the bundle.
        payload: Payload, with its reference if it is known on this machine.
        texts: Text of every MLIR file, by name; files of single tasks may be missing.
        manifest: Contents of manifest.json.
        kernels: Machine code of external back ends that compute some of the tasks.
    """

    folder: Path
    payload: Payload
    texts: Mapping[str, str]
    manifest: Manifest
    kernels: tuple[ExternalKernel, ...] = ()

    @property
    def files(self) -> dict[str, str | bytes]:
        """All files except the manifest, by name."""
        contents: dict[str, str | bytes] = dict(self.texts)
        for kernel in self.kernels:
            contents |= kernel.files
        return contents

    @property
    def tagged(self) -> str:
        """Text of the module that the script applies to."""
        return self.texts[TAGGED]

    @property
    def script(self) -> str:
        """Text of the transform script."""
        return self.texts[SCHEDULE]


def write_bundle(folder: Path, files: Mapping[str, str | bytes], manifest: Manifest) -> Path:
    """Write a bundle; an older one in the same folder is replaced only when the new one is complete.

    Raises:
        BundleError: The folder cannot be written, or holds something other than a bundle.
    """
    check_target(folder)
    try:
        replace_folder(folder, {**files, MANIFEST_FILE: write_manifest(manifest)})
    except OSError as error:
        raise BundleError(f"a bundle must be writable, {folder} is not: {why_refused(error)}; pass --bundle") from error
    return folder


def check_describable(payload: Payload) -> None:
    """Refuse a payload that a bundle cannot describe, before any work is done for it.

    Raises:
        PayloadError: The payload has more than `MOST_ARGUMENTS` arguments.
    """
    if len(payload.arguments) > MOST_ARGUMENTS:
        raise PayloadError(
            f"{payload.name} must have {MOST_ARGUMENTS} arguments at most, it has {len(payload.arguments)}; join some"
        )


def check_target(folder: Path) -> None:
    """Refuse a target folder for a bundle before any work is done for it.

    Raises:
        BundleError: The folder cannot be written, or holds something other than a bundle.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        free = not folder.exists() or (folder / MANIFEST_FILE).exists() or not any(folder.iterdir())
        tempfile.TemporaryFile(dir=folder.parent).close()
    except OSError as error:
        raise BundleError(f"a bundle must be writable, {folder} is not: {why_refused(error)}; pass --bundle") from error
    if not free:
        raise BundleError(f"a bundle must go to a new folder or replace a bundle, {folder} is neither; pass --bundle")


def scratch_beside(folder: Path) -> Scratch:
    """Create a temporary folder next to a bundle, on the same file system, so that it can be renamed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    return Scratch(f".{folder.name}-autotune-", folder.parent)


def replace_folder(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files to a temporary folder, then exchange it atomically with the target if that exists."""
    with scratch_beside(folder) as scratch:
        fresh = scratch.path / "new"
        fresh.mkdir()
        for name, data in files.items():
            (fresh / name).parent.mkdir(exist_ok=True)
            (fresh / name).write_bytes(data.encode() if isinstance(data, str) else data)
        if folder.exists():
            if exchange(fresh, folder):  # the old contents are removed with the temporary folder
                return
            folder.replace(scratch.path / "old")
        fresh.replace(folder)


def read_bundle(folder: Path, named: Payload | None = None) -> BundleFiles:
    """Read a bundle and check every hash, number and MLIR file before anything is compiled.

    Args:
        folder: Folder of the bundle.
        named: Payload that the user names for it; by default a known payload with the same text.

    Raises:
        BundleError: The bundle is refused; the error names the file and what is wrong with it.
    """
    where = str(folder / MANIFEST_FILE)
    manifest = parse_manifest(read_bytes(folder / MANIFEST_FILE), where)
    check_manifest(manifest, where)
    check_pipeline(where, "pipeline", manifest.pipeline)
    check_pipeline(where, "baseline.pipeline", manifest.baseline.pipeline, PASSES | passes_of_baselines())
    files = sorted(manifest.sha256.items())
    here = [(name, sha256) for name, sha256 in files if name.endswith(".mlir") and not is_left_out(folder, name)]
    texts = {name: read_text(folder / name, sha256) for name, sha256 in here}
    kernels = tuple(read_kernel(folder, manifest, tag) for tag in manifest.kernels)
    payload = Payload(
        name=manifest.payload,
        text=texts[PAYLOAD],
        entry=manifest.entry,
        arguments=tuple(argument.restore() for argument in manifest.arguments),
        flops=manifest.flops,
        reduction=manifest.reduction,
        cases=tuple(case.restore() for case in manifest.cases),
        foreign=not is_registered(manifest.payload),
        rules=recorded_rules(manifest, texts),
        error=manifest.budget.error if manifest.budget is not None else 0.0,
        derived=manifest.numerics.oracle == REFERENCE or manifest.numerics.unproved,
    )
    check_bundle(BundleTexts(str(folder), texts, payload))
    return BundleFiles(folder, with_reference(payload, named), texts, manifest, kernels)


def is_left_out(folder: Path, name: str) -> bool:
    """Return whether a derived file is missing, as is allowed for bundles in a repository."""
    return name.startswith(DERIVED) and not os.path.lexists(folder / name)


def read_kernel(folder: Path, manifest: Manifest, tag: str) -> ExternalKernel:
    """Read a back end's machine code for a task; only the isolated process that runs it parses it.

    Raises:
        BundleError: A file is missing or edited, or no plug-in that can link it into a program is installed.
    """
    if not registered(RIVALS):
        raise BundleError(
            f"{folder}: code of a back end needs an entry point of {RIVALS}, none is installed; install one, or tune "
            "the payload again"
        )
    record, (code, source) = manifest.kernels[tag], kernel_files(tag)
    text = read_text(folder / source, manifest.sha256[source])
    code_object = MadeObject(
        record.symbol, read_bytes_of(folder / code, manifest.sha256[code]), record.sizes, record.maker, text
    )
    return ExternalKernel(tag, record.backend, record.types, code_object)


def recorded_rules(manifest: Manifest, texts: Mapping[str, str]) -> Rules:
    """Return the rewrite rules of a bundle's payload: those in the bundle, without any default rules."""
    if manifest.rules is None:
        return NO_RULES
    return Rules(manifest.rules.source or RULES, texts[RULES], ours=False)


def passes_of_baselines() -> set[str]:
    """Return the names of the passes in the pipelines of installed baselines."""
    return {name for baseline in registered(BASELINES) for name in passes_of(load_baseline(baseline).pipeline)}


def read_text(path: Path, sha256: str) -> str:
    """Read a text file with the given hash.

    Raises:
        BundleError: The file is missing, not text, or edited.
    """
    data = read_bytes_of(path, sha256)
    if (at := data.find(0)) >= 0:  # MLIR reads it as white space, C as the end
        raise BundleError(f"{path} must be text, it is not: byte {at} is a NUL; restore it")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BundleError(f"{path} must be text, it is not: {error.reason} at byte {error.start}") from error


def read_bytes_of(path: Path, sha256: str) -> bytes:
    """Read a file with the given hash.

    Raises:
        BundleError: The file is missing or edited.
    """
    data = read_bytes(path)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise BundleError(f"{path} must be as it was recorded, its sha256 differs; restore it")
    return data


def with_reference(recorded: Payload, named: Payload | None) -> Payload:
    """Return the payload of a bundle with its oracle and inputs if it is known on this machine.

    Raises:
        BundleError: The payload that the user names has another text or other arguments.
    """
    if named is None:
        return known_payload(recorded)
    if not is_same(named, recorded):
        raise BundleError(
            f"--payload must be what the bundle computes, {recorded.name}, {named.name} has another text or arguments"
        )
    return as_recorded(named, recorded)


def digest(data: str | bytes) -> str:
    """Return the SHA-256 of a file's contents in hexadecimal."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()
