"""The manifest of a bundle as frozen data, and what a manifest must be to be believed: types, ranges, names.

Nothing in it is trusted for being there: numbers are bounded, names cannot leave the folder, pipelines are only text.

Format history:
    1  payload, tagged module, script, configs, samples of one process.
    2  a script and a payload for every task; sessions of samples; numerics of every output; hashes of the IR after the
       script and after the pipeline; machine, roofs and packages; the recipe of weights stored beforehand.
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
    """All of manifest.json.

    Attributes:
        format_version: `FORMAT_VERSION`.
        payload: Spec of the payload, or the file it was read from.
        entry: The entry function.
        arguments: Arguments of the entry function, in order.
        flops: Floating-point operations of one call; 0 if unknown.
        reduction: Longest chain of additions behind one element.
        sha256: SHA-256 of every other file, by name.
        seed: Seed of the search and of the input data.
        pipeline: Pass pipeline that runs after the script.
        panels: Columns of panels, by the tag of a task whose weight is stored so.
        weights: Recipes of the arguments that the program has besides those of the payload, in order.
        buffers: Plan of the arena that intermediates lie in.
        baseline: Baseline that the speed-up is quoted against.
        tasks: Records of the tasks, by tag.
        samples: One entry a process that measured.
        speedup: Baseline over best with its 95 % interval; `None` without a baseline.
        numerics: Errors of the outputs, by name, against the oracle.
        ir_sha256: SHA-256 of the IR ``transformed`` by the script and ``lowered`` by the pipeline.
        machine: Machine that recorded the bundle.
        fingerprint: Fingerprint of the machine that recorded the bundle.
        roofs: Roofs of the machine that recorded the bundle: operations a second, bytes a second.
        noise_floor: Relative differences below it were ties.
        versions: Versions of the software that wrote the bundle.
        command: The command line that tunes the same.
        notes: Notes on what did not go as hoped.
        cases: Inputs at which it was verified and measured, where there are several.
        online: Tags of tasks that the script wants as loops over blocks, with an online softmax.
        rewrites: Our own rewrites around the script, as ``name@version``, in order, then those that it asks for; empty
            in older bundles.
        script: The user's own script that was tuned, open.mlir; `None` where families of schedules were.
        rules: Rewrite rules that fired on the payload, rules.mlir; `None` where none did.
        kernels: Code of back ends, by the tag of the task that it computes.
        budget: Error budget of which tasks spend some; `None` where none rounds its operands.
        uncovered: What no schedule changes; empty in bundles of before 2026-11, too.
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
    """Read a manifest and check everything that can be checked without the other files.

    Raises:
        BundleError: The text is no JSON, of another format, or says what no manifest may say; names the first such
            place.
    """
    try:
        plain = json.loads(data.decode(), object_pairs_hook=pairs_once, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{where} must be JSON, it is not: {one_line(str(error))[:200]}; restore it") from error
    version = plain.get("format_version") if isinstance(plain, dict) else None
    if type(version) is not int or version != FORMAT_VERSION:
        way = "use a newer release" if isinstance(version, int) and version > FORMAT_VERSION else "tune again"
        raise BundleError(f"{where} must have format_version {FORMAT_VERSION}, got {str(version)[:50]}; {way}")
    try:
        return MANIFEST.validate_json(data, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = " ".join(".".join(map(str, first["loc"])).split())[:200]
        raise BundleError(f"{where} must be as it was recorded, {key} is not: {first['msg']}; restore it") from error


def pairs_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON whose keys differ, and whose texts are ones to print.

    Raises:
        ValueError: A key comes twice, which readers understand differently, or a text would command a terminal.
    """
    for key, value in pairs:
        for text in (key, *(value if isinstance(value, list) else [value])):
            if isinstance(text, str) and not text.isprintable():
                raise ValueError(f"texts must be printable, {one_line(text)[:50]!r} of {one_line(key)[:50]} is not")
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"keys must differ, {next(key for key in keys if keys.count(key) > 1)[:50]!r} comes twice")
    return found


def refuse_constant(name: str) -> None:
    """Refuse what is no number of JSON.

    Raises:
        ValueError: Always.
    """
    raise ValueError(f"numbers must be finite, it holds {name}")


def write_manifest(manifest: Manifest) -> str:
    """The text of a manifest."""
    return MANIFEST.dump_json(manifest, indent=1).decode() + "\n"


def read_bytes(path: Path) -> bytes:
    """A file of a bundle.

    Raises:
        BundleError: The file cannot be read, is a link or no regular file, or is larger than any bundle's.
    """
    if os.path.islink(path) or os.path.islink(path.parent):  # which raise nothing, of whatever cannot be looked at
        raise BundleError(f"files of a bundle must lie in its folder, {path} is a link; copy the file there")
    try:
        return read_file(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BundleError(f"a bundle must hold {path.name}, {path} cannot be read: {why}") from error
