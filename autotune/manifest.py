"""The manifest of a bundle as frozen data, and what a manifest must be to be believed: types, ranges, names.

Nothing in it is trusted for being there: numbers are bounded, names cannot leave the folder, pipelines are only text.

Format history:
    1  payload, tagged module, script, configs, samples of one process.
    2  a script and a payload for every task; sessions of samples; numerics of every output; hashes of the IR after the
       script and after the pipeline; machine, roofs and packages; the recipe of weights stored beforehand.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from autotune.errors import BundleError
from autotune.machine import Machine
from autotune.stats import Interval
from autotune.task import ROLES, Argument

FORMAT_VERSION = 2
MANIFEST_FILE = "manifest.json"
MOST_BYTES = 16 << 20  # of one file of a bundle

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,200}$")]
Symbol = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.$-]{0,200}$")]
File = Annotated[str, Field(pattern=r"^((tasks|schedules)/)?[A-Za-z0-9_]{1,200}\.mlir$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, Field(max_length=10_000)]
Seconds = Annotated[float, Field(gt=0, lt=1e6, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, lt=1e24, allow_inf_nan=False)]
Number = Annotated[float, Field(gt=-1e38, lt=1e38, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, lt=2**48)]
Size = Annotated[int, Field(ge=1, lt=2**40)]
Samples = Annotated[tuple[Seconds, ...], Field(max_length=100_000)]
KnobValue = Annotated[bool, Field(strict=True)] | Annotated[int, Field(strict=True, ge=-(2**31), lt=2**31)] | Name


@dataclass(frozen=True)
class ArgumentRecord:
    """An argument of the entry function, as `autotune.task.Argument` describes it."""

    name: Name
    role: Annotated[str, Field(pattern=f"^({'|'.join(ROLES)})$")]
    shape: Annotated[tuple[Size, ...], Field(max_length=16)]
    dtype: Name
    low: Number
    high: Number

    def restore(self) -> Argument:
        """The argument."""
        return Argument(self.name, self.role, self.shape, self.dtype, self.low, self.high)


@dataclass(frozen=True)
class WeightRecord:
    """A weight that is stored in panels before any call: how to prepare the array the program takes.

    Attributes:
        argument: The payload's argument it is made from, ``(..., n, k)`` if `transposed`, else ``(..., k, n)``.
        shape: Its logical shape, ``(..., k, n)``.
        stored_shape: Its shape in memory, ``(..., panels, k, columns)``; columns beyond n are zero.
        columns: Of a panel.
        transposed: How the payload stores it.
    """

    argument: Name
    shape: Annotated[tuple[Size, ...], Field(min_length=2, max_length=16)]
    stored_shape: Annotated[tuple[Size, ...], Field(min_length=3, max_length=17)]
    columns: Size
    transposed: bool


@dataclass(frozen=True)
class TaskRecord:
    """A task and what was chosen for it.

    Attributes:
        schedule: The family.
        config: Value of every knob; `None` for the plain lowering.
        knobs: The values each knob could take.
        structure: What the task computes, but for its sizes; equal for tasks whose configs can be compared.
        sizes: Trip counts of all of its loops.
        ops: How many ops of the module it stands for.
        count: How often a call runs such an op.
        seconds: Times of the winner in the final comparison of the task alone.
        baseline_seconds: The baseline's, a median.
        note: Why, where it is not simply the fastest.
    """

    schedule: Name
    config: dict[Name, KnobValue] | None
    knobs: dict[Name, Annotated[tuple[KnobValue, ...], Field(min_length=1, max_length=10_000)]]
    structure: Text
    sizes: Annotated[tuple[Size, ...], Field(max_length=100)]
    ops: Count
    count: Count
    seconds: Samples
    baseline_seconds: Seconds | None
    note: Text


@dataclass(frozen=True)
class Session:
    """Times of one process, seconds a call; entry i of each was taken in one round.

    Attributes:
        best_seconds: With the schedule.
        baseline_seconds: Of the baseline; empty if it could not be run.
        reference_seconds: Of the FMA kernel.
    """

    best_seconds: Annotated[Samples, Field(min_length=1)]
    baseline_seconds: Samples
    reference_seconds: Samples


@dataclass(frozen=True)
class OutputNumerics:
    """How exact one output is.

    Attributes:
        max_error: Largest absolute difference to the oracle.
        tolerance: Largest that rounding explains.
        magnitude: Largest absolute value of the oracle.
        rms_error: Root of the mean squared difference.
    """

    max_error: Amount
    tolerance: Amount
    magnitude: Amount
    rms_error: Amount


@dataclass(frozen=True)
class Numerics:
    """How exact the outputs are, by name.

    Attributes:
        oracle: ``reference``, in float64, or ``plain lowering``.
        seed: Of the input data.
        outputs: By argument.
    """

    oracle: Annotated[str, Field(pattern="^(reference|plain lowering)$")]
    seed: int
    outputs: dict[Name, OutputNumerics]


@dataclass(frozen=True)
class Buffers:
    """What intermediates take: how many, in one arena, and apart; bytes."""

    count: Count
    peak_bytes: Count
    naive_bytes: Count


@dataclass(frozen=True)
class BaselineRecord:
    """What the speed-up is quoted against."""

    name: Name
    pipeline: Text


@dataclass(frozen=True)
class Versions:
    """What wrote the bundle: this project, Python, the provider of MLIR and LLVM, and all packages in use."""

    autotune: Text
    python: Text
    compiler: Text
    packages: dict[Text, Text]


@dataclass(frozen=True)
class Manifest:
    """All of manifest.json.

    Attributes:
        format_version: `FORMAT_VERSION`.
        payload: Its spec, or the file it was read from.
        entry: The entry function.
        arguments: Of the entry function.
        flops: Floating-point operations of one call; 0 if unknown.
        reduction: Longest chain of additions behind one element.
        sha256: Of every other file.
        seed: Of the search and of the input data.
        pipeline: What runs after the script.
        panels: Columns of panels, by the tag of a task whose weight is stored so.
        weights: Recipes of the arguments that the program has besides those of the payload, in order.
        buffers: Where intermediates lie.
        baseline: What the speed-up is quoted against.
        tasks: By tag.
        samples: One entry a process that measured.
        speedup: Baseline over best with its 95 % interval; `None` without a baseline.
        numerics: How exact it is.
        ir_sha256: Of the IR ``transformed`` by the script and ``lowered`` by the pipeline.
        machine: Where it was recorded.
        fingerprint: Of that machine.
        roofs: Of that machine: operations a second, bytes a second.
        noise_floor: Relative differences below it were ties.
        versions: What wrote it.
        command: The command line that tunes the same.
        notes: What did not go as hoped.
    """

    format_version: int
    payload: Annotated[str, Field(max_length=1000)]
    entry: Symbol
    arguments: Annotated[tuple[ArgumentRecord, ...], Field(min_length=1, max_length=1000)]
    flops: Amount
    reduction: Size
    sha256: dict[File, Sha256]
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)]
    pipeline: Text
    panels: dict[Name, Size]
    weights: tuple[WeightRecord, ...]
    buffers: Buffers | None
    baseline: BaselineRecord
    tasks: dict[Name, TaskRecord]
    samples: Annotated[tuple[Session, ...], Field(min_length=1, max_length=1000)]
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


MANIFEST: TypeAdapter[Manifest] = TypeAdapter(Manifest)


def parse_manifest(data: bytes, where: str) -> Manifest:
    """Read a manifest and check everything that can be checked without the other files.

    Raises:
        BundleError: It is no JSON, of another format, or says what no manifest may say; names the first such place.
    """
    try:
        plain = from_json(data, allow_inf_nan=False)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{where} must be JSON, it is not: {error}; restore it") from error
    version = plain.get("format_version") if isinstance(plain, dict) else None
    if type(version) is not int or version != FORMAT_VERSION:
        way = "use a newer release" if isinstance(version, int) and version > FORMAT_VERSION else "tune again"
        raise BundleError(f"{where} must have format_version {FORMAT_VERSION}, got {str(version)[:50]}; {way}")
    try:
        return MANIFEST.validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = " ".join(".".join(map(str, first["loc"])).split())[:200]
        raise BundleError(f"{where} must be as it was recorded, {place} is not: {first['msg']}; restore it") from error


def write_manifest(manifest: Manifest) -> str:
    """The text of a manifest."""
    return MANIFEST.dump_json(manifest, indent=1).decode() + "\n"


def read_bytes(path: Path) -> bytes:
    """A file of a bundle.

    Raises:
        BundleError: It cannot be read, is a link, or is larger than any bundle's.
    """
    try:
        if path.is_symlink() or path.parent.is_symlink():
            raise BundleError(f"files of a bundle must lie in its folder, {path} is a link; copy the file there")
        if path.stat().st_size > MOST_BYTES:
            raise BundleError(f"files of a bundle must be at most {MOST_BYTES >> 20} MiB, {path} is larger; restore it")
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"a bundle must hold {path.name}, {path} cannot be read: {error.strerror}") from error
