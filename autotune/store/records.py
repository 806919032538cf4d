"""Records of a bundle's manifest, validated when read: numbers are bounded, names cannot leave the folder."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field

from autotune.core.payload import MOST_DIMENSIONS, ROLES, SYMBOL, Argument, Case
from autotune.core.precision import PRECISIONS
from autotune.registry import current_name, weight_form

MOST_PART_ERROR = 1.0  # relative error above which a partial measurement of a baseline is useless
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,200}$")]
FamilyName = Annotated[Name, AfterValidator(current_name)]
RewriteStep = Annotated[str, Field(pattern=r"^[a-z][a-z-]{0,50}@[0-9]{1,6}$")]  # a rewrite and its version
RuleName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,60}$")]
Symbol = Annotated[str, Field(pattern=f"^{SYMBOL}$")]
File = Annotated[
    str, Field(pattern=r"^(((tasks|schedules)/)?[A-Za-z0-9_]{1,200}\.mlir|kernels/[A-Za-z0-9_]{1,200}\.(o|txt))$")
]
Memory = Annotated[
    str, Field(pattern=rf"^memref<([1-9][0-9]{{0,11}}x){{0,{MOST_DIMENSIONS}}}(f32|f64|f16|bf16|i8|i32|i64)>$")
]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, Field(max_length=10_000)]
# The minimum allows for 2^32 calls that were compiled into one: a program without inputs, such as rotary angles.
Seconds = Annotated[float, Field(ge=1e-18, lt=1e6, allow_inf_nan=False)]
Distance = Annotated[float, Field(ge=0, allow_inf_nan=False)]  # difference of f64 numbers
Amount = Annotated[float, Field(ge=0, lt=1e24, allow_inf_nan=False)]
Flops = Annotated[float, Field(ge=1, lt=1e24, allow_inf_nan=False)] | Annotated[float, Field(ge=0, le=0)]
Number = Annotated[float, Field(gt=-1e38, lt=1e38, allow_inf_nan=False)]
Bound = Annotated[int, Field(ge=-(2**63), le=2**63)]
Count = Annotated[int, Field(ge=0, lt=2**48)]
Share = Annotated[float, Field(ge=0, le=1)]
Size = Annotated[int, Field(ge=1, lt=2**40)]
SampleSeconds = Annotated[tuple[Seconds, ...], Field(max_length=100_000)]
KnobName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")]
Spelled = Annotated[str, Field(pattern=r"^[ -~]{1,1000}$")]  # a name, or an attribute as MLIR spells it
KnobValue = Annotated[bool, Field(strict=True)] | Annotated[int, Field(strict=True, ge=-(2**31), lt=2**31)] | Spelled


def check_accepted(accepts: tuple[int, int]) -> tuple[int, int]:
    """Return a half-open range of accepted integers if it is not empty.

    Raises:
        ValueError: The range is empty.
    """
    if accepts[0] >= accepts[1]:
        raise ValueError(f"accepts must begin below its end, got {accepts}")
    return accepts


@dataclass(frozen=True)
class ArgumentRecord:
    """An argument of the entry function, as `autotune.core.payload.Argument` describes it."""

    name: Name
    role: Annotated[str, Field(pattern=f"^({'|'.join(ROLES)})$")]
    shape: Annotated[tuple[Size, ...], Field(max_length=MOST_DIMENSIONS)]
    dtype: Name
    low: Number
    high: Number
    accepts: Annotated[tuple[Bound, Bound], AfterValidator(check_accepted)] | None = (
        None  # since 2026-11; earlier records accept the range of random inputs
    )

    def restore(self) -> Argument:
        """Convert the record to an argument."""
        return Argument(self.name, self.role, self.shape, self.dtype, self.low, self.high, self.accepts)


@dataclass(frozen=True)
class CaseRecord:
    """A case, as `autotune.core.payload.Case` describes it."""

    values: Annotated[tuple[tuple[Name, Annotated[int, Field(ge=-(2**63), lt=2**63)]], ...], Field(max_length=1000)]
    weight: Size

    def restore(self) -> Case:
        """Convert the record to a case."""
        return Case(self.values, self.weight)


@dataclass(frozen=True)
class WeightRecord:
    """A weight that is packed into panels before any call, and the layout of the array that the program takes.

    Attributes:
        argument: Payload argument that it is packed from, ``(..., n, k)`` if `transposed`, else ``(..., k, n)``.
        shape: Logical shape of the weight, ``(..., k, n)``.
        stored_shape: Shape in memory, ``(..., panels, k, columns)``; columns beyond n are zero.
        columns: Number of columns of a panel.
        transposed: Whether the payload stores the weight as ``(..., n, k)``.
        precision: Precision that its values are rounded to, in which case k counts words of several values; or the name
            of another storage form. Empty if the values are unchanged.
    """

    argument: Name
    shape: Annotated[tuple[Size, ...], Field(min_length=2, max_length=MOST_DIMENSIONS)]
    stored_shape: Annotated[tuple[Size, ...], Field(min_length=3, max_length=MOST_DIMENSIONS + 1)]
    columns: Size
    transposed: bool
    precision: Annotated[str, Field(pattern=r"^\w{0,64}$")] = ""

    def dtype(self, source: str) -> str:
        """Return the dtype of the packed array for a weight of dtype `source`."""
        if not self.precision:
            return source
        return "i32" if self.precision in PRECISIONS else weight_form(self.precision).element


@dataclass(frozen=True)
class BudgetRecord:
    """Error budget for tasks that round their operands, and the measured errors.

    Attributes:
        error, spent: Allowed error of outputs, relative to the largest element of each; error measured on other inputs.
        tasks: Error with a single task rounded, by tag of each rounded task.
        agreement, agrees, rows: Required share of rows whose argmax is unchanged; measured share; number of rows.
        weighted_flops: Operations of a call, with those of rounded tasks divided by the ratio of their unit's roof to
            the f32 roof; 0 if unknown.
    """

    error: Annotated[float, Field(gt=0, le=1)]
    spent: Share
    tasks: dict[Name, Annotated[float, Field(ge=0, le=1e30)]]
    agreement: Share = 0.0
    agrees: Share = 1.0
    rows: Count = 0
    weighted_flops: Annotated[float, Field(ge=0, le=1e30)] = 0.0  # since 2026-11


@dataclass(frozen=True)
class TaskRecord:
    """A task and its chosen config.

    Attributes:
        schedule: Name of the family.
        config: Value of every knob; `None` for the plain lowering.
        knobs: Possible values of each knob.
        structure: Description of the computation without sizes; equal for tasks whose configs are comparable.
        sizes: Trip counts of all of its loops.
        ops: Number of ops in the module that the task stands for.
        count: Number of executions of the task's ops in one call of the payload.
        seconds: Samples of the winner in the final comparison of the single task.
        baseline_seconds: Median time of the baseline, in seconds per call.
        note: Reason for the choice if it is not simply the fastest.
        rivals: Samples of the best candidate of each other kind (a family, back ends), by name.
        reference_seconds: Samples of the FMA kernel taken between the winner's; empty if not recorded.
    """

    schedule: FamilyName
    config: dict[KnobName, KnobValue] | None
    knobs: dict[KnobName, Annotated[tuple[KnobValue, ...], Field(min_length=1, max_length=10_000)]]
    structure: Text
    sizes: Annotated[tuple[Size, ...], Field(max_length=100)]
    ops: Count
    count: Count
    seconds: SampleSeconds
    baseline_seconds: Seconds | None
    note: Text
    rivals: dict[Name, SampleSeconds] = field(default_factory=dict)
    reference_seconds: SampleSeconds = ()  # since 2026-11


@dataclass(frozen=True)
class KernelRecord:
    """Machine code of a back end that computes a task: object file kernels/TAG.o, and its source kernels/TAG.txt.

    Attributes:
        backend: Name of the back end.
        symbol: Name of the function.
        types: Memref types of the operands that are passed by address, in order; the last is written.
        sizes: Integer arguments that follow the addresses.
        maker: Generator of the code.
    """

    backend: Name
    symbol: Annotated[str, Field(pattern=r"^autotune_kernel_[A-Za-z0-9_]{1,400}$")]
    types: Annotated[tuple[Memory, ...], Field(min_length=2, max_length=100)]
    sizes: Annotated[tuple[Annotated[int, Field(ge=-(2**63), lt=2**63)], ...], Field(max_length=100)] = ()
    maker: Text = ""


@dataclass(frozen=True)
class ScriptRecord:
    """User script, stored as open.mlir.

    Attributes:
        source: Name of the user's file.
        tasks: Tag of the tasks that it applies to, or a pattern with ``*``, if it schedules a single op.
    """

    source: Text
    tasks: Text = "*"


@dataclass(frozen=True)
class RulesRecord:
    """Rewrite rules that were applied to the payload before it was partitioned, stored as rules.mlir.

    Attributes:
        source: Name of the user's file; empty if only the default rules were tried.
        fired: Number of applications of each rule, by name.
    """

    source: Text
    fired: Annotated[dict[RuleName, Count], Field(min_length=1)]


@dataclass(frozen=True)
class ProcessTimes:
    """Samples of one process, in seconds per call; the samples with index i were taken in the same round.

    Attributes:
        best_seconds: Samples of the scheduled program.
        baseline_seconds: Samples of the baseline; empty if it could not be run.
        reference_seconds: Samples of the FMA kernel.
    """

    best_seconds: Annotated[SampleSeconds, Field(min_length=1)]
    baseline_seconds: SampleSeconds
    reference_seconds: SampleSeconds


@dataclass(frozen=True)
class OutputNumerics:
    """Error of one output.

    Attributes:
        max_error: Largest absolute difference to the oracle.
        tolerance: Largest difference that counts as correct.
        magnitude: Largest absolute value of the oracle.
        rms_error: Root mean square of the difference.
    """

    max_error: Distance
    tolerance: Distance
    magnitude: Distance
    rms_error: Distance


@dataclass(frozen=True)
class Numerics:
    """Errors of all outputs.

    Attributes:
        oracle: Kind of oracle: ``reference``, in float64, or ``plain lowering``.
        seed: Seed of the input data.
        outputs: Errors of each output, by name of the argument.
        unproved: Whether the payload was imported, and its plain lowering is the only oracle.
    """

    oracle: Annotated[str, Field(pattern="^(reference|plain lowering)$")]
    seed: int
    outputs: dict[Name, OutputNumerics]
    unproved: bool = False


@dataclass(frozen=True)
class UncoveredRecord:
    """Operation that no schedule covers, as described by `autotune.core.ops.uncovered`.

    Attributes:
        name: Kind and sizes of the operation.
        runs: Number of executions in one call.
        operations: Number of scalar operations of all executions in one call.
        why: Reason why no task or family covers it.
        share: Share of a call's time; `None` if not measured.
    """

    name: Text
    runs: Count
    operations: Amount
    why: Text
    share: Share | None


@dataclass(frozen=True)
class Buffers:
    """Number of intermediate buffers, and their total bytes in one arena and in separate allocations."""

    count: Count
    peak_bytes: Count
    naive_bytes: Count


@dataclass(frozen=True)
class BaselineRecord:
    """Baseline that the speed-up is quoted against.

    Attributes:
        name: Name of the baseline.
        pipeline: Pass pipeline of the baseline.
        part: Factor by which the trip counts of the outermost loops were reduced and times multiplied; 1 for none.
        part_error: Relative error of times scaled in this way; 0 for whole calls.
        why_not: Reason why it could not be timed; empty if it was.
    """

    name: Name
    pipeline: Text
    part: Annotated[int, Field(ge=1, le=2**20)] = 1
    part_error: Annotated[float, Field(ge=0, le=MOST_PART_ERROR, allow_inf_nan=False)] = 0.0
    why_not: Text = ""


@dataclass(frozen=True)
class Versions:
    """Versions of the software that wrote the bundle: this project, Python, provider of MLIR and LLVM, packages."""

    autotune: Text
    python: Text
    compiler: Text
    packages: dict[Text, Text]
