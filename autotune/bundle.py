"""Bundles: a winner as a folder of plain files that anybody can check and run again.

Nothing in one is executed but MLIR.

    payload.mlir     what is computed, as the payload builder wrote it
    tagged.mlir      the same after element-wise fusion, every tunable op tagged; what the schedule applies to
    schedule.mlir    the transform script: `mlir-opt --transform-preload-library` takes it as it is
    manifest.json    configs, hashes, versions, machine, samples

Format history: 1 first version.
"""

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autotune.assembly import Assembly
from autotune.choose import Choice
from autotune.errors import AutotuneError, BundleError
from autotune.ir.lower import TAIL
from autotune.ir.module import compiler_version
from autotune.registry import load_baseline, load_payload
from autotune.result import TuneResult
from autotune.task import Argument, Payload

FORMAT_VERSION = 1
FILES = ("payload.mlir", "tagged.mlir", "schedule.mlir")
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Bundle:
    """A bundle as it was read and checked.

    Attributes:
        folder: Where it is.
        payload: With its reference, where its spec still builds the same text here.
        tagged: Text of the module that the script applies to.
        script: The transform script.
        manifest: All of manifest.json.
    """

    folder: Path
    payload: Payload
    tagged: str
    script: str
    manifest: dict[str, Any]


def write_bundle(
    folder: Path,
    payload: Payload,
    tagged: Payload,
    *,
    assembly: Assembly,
    choices: Sequence[Choice],
    result: TuneResult,
    seed: int,
    command: Sequence[str],
) -> Path:
    """Write a bundle; an older one at the same place is replaced only when the new one is complete.

    Raises:
        BundleError: The folder cannot be written, or holds something that is no bundle.
    """
    check_target(folder)
    texts = dict(zip(FILES, (payload.text, tagged.text, assembly.script), strict=True))
    baseline = load_baseline(result.baseline_name)
    manifest: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "payload": payload.name,
        "entry": payload.entry,
        "arguments": [asdict(argument) for argument in payload.arguments],
        "flops": payload.flops,
        "reduction": payload.reduction,
        "seed": seed,
        "sha256": {name: digest(text) for name, text in texts.items()},
        "pipeline": TAIL,
        "panels": dict(assembly.panels),
        "buffers": assembly.buffers.to_json() if assembly.buffers else None,
        "baseline": {"name": baseline.name, "pipeline": baseline.pipeline},
        "result": {key: value for key, value in result.to_json().items() if key != "bundle"},
        "tasks": {c.search.task.tag: describe_choice(c) for c in choices},
        "samples": {
            "best_seconds": assembly.best.seconds,
            "reference_seconds": assembly.best.reference_seconds,
            "baseline_seconds": assembly.baseline.seconds if assembly.baseline else [],
        },
        "versions": {"compiler": compiler_version(), "python": sys.version.split()[0]},
        "command": list(command),
    }
    texts[MANIFEST] = json.dumps(manifest, indent=1)
    try:
        replace_folder(folder, texts)
    except OSError as error:
        raise BundleError(f"a bundle must be writable, {folder} is not: {error.strerror}; pass --bundle") from error
    return folder


def check_target(folder: Path) -> None:
    """Refuse a place that cannot take a bundle, before any work is done for it.

    Raises:
        BundleError: It cannot be written, or holds something that is no bundle.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        free = not folder.exists() or (folder / MANIFEST).exists() or not any(folder.iterdir())
        tempfile.TemporaryFile(dir=folder.parent).close()
    except OSError as error:
        raise BundleError(f"a bundle must be writable, {folder} is not: {error.strerror}; pass --bundle") from error
    if not free:
        raise BundleError(f"a bundle must go to a new folder or replace a bundle, {folder} is neither; pass --bundle")


def describe_choice(choice: Choice) -> dict[str, Any]:
    """A task's share of the manifest."""
    task = choice.search.task
    return {
        "schedule": choice.search.family.name,
        "config": dict(choice.config) if choice.config is not None else None,
        "ops": task.ops,
        "count": task.count,
        "seconds": list(choice.samples.seconds) if choice.samples else [],
        "baseline_seconds": choice.baseline_seconds,
        "knobs": {knob.name: list(knob.values) for knob in choice.search.space.knobs},
    }


def replace_folder(folder: Path, texts: dict[str, str]) -> None:
    """Write files to a folder beside the target, then swap the two."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, text in texts.items():
            (fresh / name).write_text(text)
        fresh.chmod(0o755)
        if folder.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
            os.replace(folder, old)
            shutil.rmtree(old)
        os.replace(fresh, folder)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def read_bundle(folder: Path) -> Bundle:
    """Read a bundle and check every hash.

    Raises:
        BundleError: A file is missing, edited, or of another format version.
    """
    manifest = read_manifest(folder)
    texts = {name: read_text(folder / name) for name in FILES}
    for name, text in texts.items():
        if digest(text) != manifest["sha256"].get(name):
            raise BundleError(f"{folder / name} must be as it was recorded, its sha256 differs; restore it")
    try:
        payload = Payload(
            name=manifest["payload"],
            text=texts["payload.mlir"],
            entry=manifest["entry"],
            arguments=tuple(Argument(**{**a, "shape": tuple(a["shape"])}) for a in manifest["arguments"]),
            flops=float(manifest["flops"]),
            reduction=int(manifest["reduction"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BundleError(f"{folder / MANIFEST} must describe the payload, it does not: {error!r}") from error
    return Bundle(folder, with_reference(payload), texts["tagged.mlir"], texts["schedule.mlir"], manifest)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, its version checked.

    Raises:
        BundleError: It is missing, no JSON, or of another version.
    """
    try:
        manifest = json.loads(read_text(folder / MANIFEST))
    except json.JSONDecodeError as error:
        raise BundleError(f"{folder / MANIFEST} must be JSON: line {error.lineno}: {error.msg}; restore it") from error
    version = manifest.get("format_version") if isinstance(manifest, dict) else None
    if version != FORMAT_VERSION:
        raise BundleError(
            f"{folder / MANIFEST} must have format_version {FORMAT_VERSION}, got {version}; "
            "tune again, or use the release that wrote it"
        )
    if not isinstance(manifest.get("sha256"), dict):
        raise BundleError(f"{folder / MANIFEST} must list the sha256 of every file, it does not; restore it")
    return dict(manifest)


def read_text(path: Path) -> str:
    """A file of a bundle.

    Raises:
        BundleError: It cannot be read.
    """
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise BundleError(f"a bundle must hold {path.name}, {path} cannot be read: {reason}") from error


def with_reference(payload: Payload) -> Payload:
    """The payload as its spec builds it here, if that gives the same text; else as it is, without a reference."""
    try:
        built = load_payload(payload.name)
    except AutotuneError:
        return payload
    return built if built.sha256 == payload.sha256 else payload


def digest(text: str) -> str:
    """Hex sha256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
