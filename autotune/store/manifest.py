"""Manifest of a bundle as frozen data, with validation of types, ranges and names.

No value in it is trusted: numbers are bounded, names cannot leave the folder, pipelines are only text.

Format history:
    1  payload, tagged module, script, configs, samples of one process.
    2  a script and a payload for every task; sessions of samples; numerics of every output; hashes of the IR after the
       script and after the pipeline; machine, roofs and packages; the layout of prepacked weights.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from autotune.core.errors import BundleError
from autotune.core.host.files import read_file
from autotune.core.host.machine import Machine
from autotune.core.payload import MOST_ARGUMENTS
from autotune.core.printable import one_line
from autotune.core.stats import Interval
from autotune.store.records import (
    ArgumentRecord,
    BaselineRecord,
    BudgetRecord,
    Buffers,
    CaseRecord,
    File,
    Flops,
    KernelRecord,
    Name,
    Numerics,
    ProcessTimes,
    RewriteStep,
    RulesRecord,
    ScriptRecord,
    Sha256,
    Size,
    Symbol,
    TaskRecord,
    Text,
    UncoveredRecord,
    Versions,
    WeightRecord,
)

FORMAT_VERSION = 2
MANIFEST_FILE = "manifest.json"
MOST_BYTES = 16 << 20  # of one file of a bundle


@dataclass(frozen=True)
class Manifest:
    """Contents of manifest.json.

    Attributes:
        format_version: Version of the format, `FORMAT_VERSION`.
        payload: Spec of the payload, or the file it was read from.
        entry: Name of the entry function.
        arguments: Arguments of the entry function, in order.
        flops: Floating-point operations of one call; 0 if unknown.
        reduction: Length of the longest sum that an output element depends on.
        sha256: SHA-256 of every other file, by name.
        seed: Seed of the search and of the input data.
        pipeline: Pass pipeline that runs after the script.
        panels: Number of columns per panel, by the tag of a task whose weight is stored in panels.
        weights: Layouts of the prepacked weights, which the program takes as additional arguments, in order.
        buffers: Plan of the arena that holds intermediates.
        baseline: Baseline that the speed-up is quoted against.
        tasks: Records of the tasks, by tag.
        samples: Samples of each process that measured.
        speedup: Baseline over best with its 95 % interval; `None` without a baseline.
        numerics: Errors of the outputs, by name, against the oracle.
        ir_sha256: SHA-256 of the IR ``transformed`` by the script and ``lowered`` by the pipeline.
        machine: Machine that recorded the bundle.
        fingerprint: Fingerprint of the machine that recorded the bundle.
        roofs: Roofs of the machine that recorded the bundle: operations per second, bytes per second.
        noise_floor: Relative difference below which configs counted as equal.
        versions: Versions of the software that wrote the bundle.
        command: Command line that repeats the tuning.
        notes: Warnings and other notes of the tuning.
        cases: Cases that were verified and measured, if there are several.
        online: Tags of tasks that are computed as loops over blocks, with an online softmax.
        rewrites: Rewrites of this project around the script, as ``name@version``, in order, then those that the script
            requests; empty in older bundles.
        script: User script that was tuned, open.mlir; `None` if families of schedules were.
        rules: Rewrite rules that fired on the payload, rules.mlir; `None` if none did.
        kernels: Machine code of back ends, by the tag of the task that it computes.
        budget: Error budget and its use; `None` if no task rounds its operands.
        uncovered: Operations that no schedule covers; also empty in bundles from before 2026-11.
    """

    format_version: int
    payload: Annotated[str, Field(max_length=1000)]
    entry: Symbol
    arguments: Annotated[tuple[ArgumentRecord, ...], Field(min_length=1, max_length=MOST_ARGUMENTS)]
    flops: Flops
    reduction: Size
    sha256: dict[File, Sha256]
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    pipeline: Text
    panels: dict[Name, Size]
    weights: tuple[WeightRecord, ...]
    buffers: Buffers | None
    baseline: BaselineRecord
    tasks: dict[Name, TaskRecord]
    samples: Annotated[tuple[ProcessTimes, ...], Field(min_length=1, max_length=1000)]
    speedup: Interval | None
    numerics: Numerics
    ir_sha256: dict[Name, Sha256]
    machine: Machine
    fingerprint: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    roofs: dict[Name, Annotated[float, Field(gt=0, lt=1e18, allow_inf_nan=False)]]
    noise_floor: Annotated[float, Field(ge=0, lt=10, allow_inf_nan=False)]
    versions: Versions
    command: tuple[Text, ...]
    notes: tuple[Text, ...] = field(default=())
    cases: Annotated[tuple[CaseRecord, ...], Field(max_length=1000)] = field(default=())
    online: tuple[Name, ...] = field(default=())
    rewrites: tuple[RewriteStep, ...] = field(default=())
    script: ScriptRecord | None = None
    rules: RulesRecord | None = None
    kernels: dict[Name, KernelRecord] = field(default_factory=dict)
    budget: BudgetRecord | None = None
    uncovered: Annotated[tuple[UncoveredRecord, ...], Field(max_length=1000)] = field(default=())


MANIFEST: TypeAdapter[Manifest] = TypeAdapter(Manifest)


def parse_manifest(data: bytes, where: str) -> Manifest:
    """Parse a manifest and validate everything that does not require the other files.

    Raises:
        BundleError: The text is not JSON, has another format version, or violates the schema; the message names the
            first error.
    """
    try:
        plain = json.loads(data.decode(), object_pairs_hook=pairs_once, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{where} must be JSON, it is not: {one_line(str(error))[:200]}; restore it") from error
    version = plain.get("format_version") if isinstance(plain, dict) else None
    if type(version) is not int or version != FORMAT_VERSION:
        remedy = "use a newer release" if isinstance(version, int) and version > FORMAT_VERSION else "tune again"
        raise BundleError(f"{where} must have format_version {FORMAT_VERSION}, got {str(version)[:50]}; {remedy}")
    try:
        return MANIFEST.validate_json(data, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = " ".join(".".join(map(str, first["loc"])).split())[:200]
        raise BundleError(f"{where} must be as it was recorded, {key} is not: {first['msg']}; restore it") from error


def pairs_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object, and refuse duplicate keys and unprintable strings.

    Raises:
        ValueError: A key occurs twice, which parsers treat differently, or a string has terminal control characters.
    """
    for key, value in pairs:
        for text in (key, *(value if isinstance(value, list) else [value])):
            if isinstance(text, str) and not text.isprintable():
                raise ValueError(f"texts must be printable, {one_line(text)[:50]!r} of {one_line(key)[:50]} is not")
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"keys must differ, {next(key for key in keys if keys.count(key) > 1)[:50]!r} comes twice")
    return mapping


def refuse_constant(name: str) -> None:
    """Refuse NaN and infinities, which are not JSON numbers.

    Raises:
        ValueError: Always.
    """
    raise ValueError(f"numbers must be finite, it holds {name}")


def write_manifest(manifest: Manifest) -> str:
    """Return the JSON text of a manifest."""
    return MANIFEST.dump_json(manifest, indent=1).decode() + "\n"


def read_bytes(path: Path) -> bytes:
    """Read a file of a bundle.

    Raises:
        BundleError: The file cannot be read, is a link or not a regular file, or is larger than `MOST_BYTES`.
    """
    if os.path.islink(path) or os.path.islink(path.parent):  # does not raise for inaccessible paths
        raise BundleError(f"files of a bundle must lie in its folder, {path} is a link; copy the file there")
    try:
        return read_file(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BundleError(f"a bundle must hold {path.name}, {path} cannot be read: {why}") from error
