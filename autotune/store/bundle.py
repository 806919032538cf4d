"""Bundles: a winner as a folder of plain files that anybody can check and run again.

Nothing in one is executed but MLIR. Files, and the format's history, are described in results/README.md and
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
FILES = (PAYLOAD, TAGGED, SCHEDULE)  # what every bundle holds, besides its manifest and what its tasks bring
DERIVED = ("tasks/", "schedules/")  # each task alone: `show --stage tasks` and `show --task` give them again


@dataclass(frozen=True)
class BundleFiles:
    """The files of a bundle, as they were read and checked.

    Attributes:
        folder: Folder of the bundle.
        payload: Payload, with its reference where it is known here.
        texts: Texts of every MLIR file, by name; those of tasks alone may be left out.
        manifest: All of manifest.json.
        kernels: Code of back ends that computes some of the tasks.
    """

    folder: Path
    payload: Payload
    texts: Mapping[str, str]
    manifest: Manifest
    kernels: tuple[ExternalKernel, ...] = ()

    @property
    def files(self) -> dict[str, str | bytes]:
        """Every file but the manifest, by name."""
        found: dict[str, str | bytes] = dict(self.texts)
        for kernel in self.kernels:
            found |= kernel.files
        return found

    @property
    def tagged(self) -> str:
        """Text of the module that the script applies to."""
        return self.texts[TAGGED]

    @property
    def script(self) -> str:
        """The transform script."""
        return self.texts[SCHEDULE]


def write_bundle(folder: Path, files: Mapping[str, str | bytes], manifest: Manifest) -> Path:
    """Write a bundle; an older one in the same folder is replaced only when the new one is complete.

    Raises:
        BundleError: The folder cannot be written, or holds something that is no bundle.
    """
    check_target(folder)
    try:
        replace_folder(folder, {**files, MANIFEST_FILE: write_manifest(manifest)})
    except OSError as error:
        raise BundleError(f"a bundle must be writable, {folder} is not: {error.strerror}; pass --bundle") from error
    return folder


def check_describable(payload: Payload) -> None:
    """Refuse a payload that no bundle may describe, before any work is done for it.

    Raises:
        PayloadError: Arguments are more than a bundle may have.
    """
    if len(payload.arguments) > MOST_ARGUMENTS:
        raise PayloadError(
            f"{payload.name} must have {MOST_ARGUMENTS} arguments at most, it has {len(payload.arguments)}; join some"
        )


def check_target(folder: Path) -> None:
    """Refuse a folder that cannot take a bundle, before any work is done for it.

    Raises:
        BundleError: The folder cannot be written, or holds something that is no bundle.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        free = not folder.exists() or (folder / MANIFEST_FILE).exists() or not any(folder.iterdir())
        tempfile.TemporaryFile(dir=folder.parent).close()
    except OSError as error:
        raise BundleError(f"a bundle must be writable, {folder} is not: {error.strerror}; pass --bundle") from error
    if not free:
        raise BundleError(f"a bundle must go to a new folder or replace a bundle, {folder} is neither; pass --bundle")


def scratch_beside(folder: Path) -> Scratch:
    """A temporary folder on the file system of a bundle, whose files may be renamed to it; its parents are made."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    return Scratch(f".{folder.name}-autotune-", folder.parent)


def replace_folder(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files to a temporary folder, then exchange it and the target, if there is one."""
    with scratch_beside(folder) as scratch:
        fresh = scratch.path / "new"
        fresh.mkdir()
        for name, data in files.items():
            (fresh / name).parent.mkdir(exist_ok=True)
            (fresh / name).write_bytes(data.encode() if isinstance(data, str) else data)
        if folder.exists():
            if exchange(fresh, folder):  # what was there goes with the temporary folder
                return
            folder.replace(scratch.path / "old")
        fresh.replace(folder)


def read_bundle(folder: Path, named: Payload | None = None) -> BundleFiles:
    """Read a bundle; every hash, number and MLIR file is checked before anything is compiled.

    Args:
        folder: Folder of the bundle.
        named: What it computes, where the user names that; by default what is known here of the same text.

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
    """Whether a bundle does without a file that the others determine, as the ones of a repository may."""
    return name.startswith(DERIVED) and not os.path.lexists(folder / name)


def read_kernel(folder: Path, manifest: Manifest, tag: str) -> ExternalKernel:
    """The code of a back end for a task; nothing looks into it but the process that runs it.

    Raises:
        BundleError: A file is missing or edited, or nothing is installed here that puts it in a program.
    """
    if not registered(RIVALS):
        raise BundleError(
            f"{folder}: code of a back end needs an entry point of {RIVALS}, none is installed; install one, or tune "
            "the payload again"
        )
    record, (code, source) = manifest.kernels[tag], kernel_files(tag)
    text = read_text(folder / source, manifest.sha256[source])
    made = MadeObject(
        record.symbol, read_bytes_of(folder / code, manifest.sha256[code]), record.sizes, record.maker, text
    )
    return ExternalKernel(tag, record.backend, record.types, made)


def recorded_rules(manifest: Manifest, texts: Mapping[str, str]) -> Rules:
    """The rules that a bundle's payload was rewritten by: all of them are in the bundle, and no others apply."""
    if manifest.rules is None:
        return NO_RULES
    return Rules(manifest.rules.source or RULES, texts[RULES], ours=False)


def passes_of_baselines() -> set[str]:
    """Passes that the installed baselines use."""
    return {name for baseline in registered(BASELINES) for name in passes_of(load_baseline(baseline).pipeline)}


def read_text(path: Path, sha256: str) -> str:
    """A text as it was recorded.

    Raises:
        BundleError: The file is missing, no text, or edited.
    """
    try:
        return read_bytes_of(path, sha256).decode()
    except UnicodeDecodeError as error:
        raise BundleError(f"{path} must be text, it is not: {error.reason} at byte {error.start}") from error


def read_bytes_of(path: Path, sha256: str) -> bytes:
    """A file as it was recorded.

    Raises:
        BundleError: The file is missing or edited.
    """
    data = read_bytes(path)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise BundleError(f"{path} must be as it was recorded, its sha256 differs; restore it")
    return data


def with_reference(recorded: Payload, named: Payload | None) -> Payload:
    """The payload of a bundle with the functions that it has here, where it is known here.

    Raises:
        BundleError: What the user names computes something else.
    """
    if named is None:
        return known_payload(recorded)
    if not is_same(named, recorded):
        raise BundleError(
            f"--payload must be what the bundle computes, {recorded.name}, {named.name} has another text or arguments"
        )
    return as_recorded(named, recorded)


def digest(data: str | bytes) -> str:
    """Hex sha256 of a file."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()
