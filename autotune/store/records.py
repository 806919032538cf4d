"""The records of a bundle's manifest, checked when they are read: numbers are bounded, names cannot leave a folder."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field

from autotune.core.payload import MOST_DIMENSIONS, ROLES, SYMBOL, Argument, Case
from autotune.core.precision import PRECISIONS
from autotune.registry import current_name, weight_form

MOST_PART_ERROR = 1.0  # a part of a baseline that says less of the whole is none
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
# The least is that of 2^32 calls that were compiled into one: of a program that reads nothing, such as rotary angles.
Seconds = Annotated[float, Field(ge=1e-18, lt=1e6, allow_inf_nan=False)]
Distance = Annotated[float, Field(ge=0, allow_inf_nan=False)]  # between numbers of f64
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
    """Whole numbers that calls accept, if there are some.

    Raises:
        ValueError: There are none.
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
        None  # as of 2026-11; what was recorded before accepts what is drawn
    )

    def restore(self) -> Argument:
        """The argument."""
        return Argument(self.name, self.role, self.shape, self.dtype, self.low, self.high, self.accepts)


@dataclass(frozen=True)
class CaseRecord:
    """A case, as `autotune.core.payload.Case` describes it."""

    values: Annotated[tuple[tuple[Name, Annotated[int, Field(ge=-(2**63), lt=2**63)]], ...], Field(max_length=1000)]
    weight: Size

    def restore(self) -> Case:
        """The case."""
        return Case(self.values, self.weight)


@dataclass(frozen=True)
class WeightRecord:
    """A weight that is stored in panels before any call: how to prepare the array the program takes.

    Attributes:
        argument: The payload's argument it is made from, ``(..., n, k)`` if `transposed`, else ``(..., k, n)``.
        shape: Logical shape of the weight, ``(..., k, n)``.
        stored_shape: Shape in memory, ``(..., panels, k, columns)``; columns beyond n are zero.
        columns: Number of columns of a panel.
        transposed: Whether the payload stores the weight as ``(..., n, k)``.
        precision: What its columns are rounded to, k then counting words of several values; or the name of another form
            that weights are stored in. Empty where it is as it is.
    """

    argument: Name
    shape: Annotated[tuple[Size, ...], Field(min_length=2, max_length=MOST_DIMENSIONS)]
    stored_shape: Annotated[tuple[Size, ...], Field(min_length=3, max_length=MOST_DIMENSIONS + 1)]
    columns: Size
    transposed: bool
    precision: Annotated[str, Field(pattern=r"^\w{0,64}$")] = ""

    def dtype(self, source: str) -> str:
        """Dtype of the array, made from a weight of another."""
        if not self.precision:
            return source
        return "i32" if self.precision in PRECISIONS else weight_form(self.precision).element


@dataclass(frozen=True)
class BudgetRecord:
    """The error that tasks may bring by rounding operands, and its outcome.

    Attributes:
        error, spent: What outputs may be off, relative to the largest of each; what they are, on inputs of their own.
        tasks: What they are with one task rounded alone, by tag, for those that are.
        agreement, agrees, rows: Least share of rows whose largest element must stay where it is; of how many it does.
        weighted_flops: Operations of a call, those of rounded tasks counted as so many fewer as their unit's roof is
            above that of f32; 0 where that is unknown.
    """

    error: Annotated[float, Field(gt=0, le=1)]
    spent: Share
    tasks: dict[Name, Annotated[float, Field(ge=0, le=1e30)]]
    agreement: Share = 0.0
    agrees: Share = 1.0
    rows: Count = 0
    weighted_flops: Annotated[float, Field(ge=0, le=1e30)] = 0.0  # as of 2026-11


@dataclass(frozen=True)
class TaskRecord:
    """A task and what was chosen for it.

    Attributes:
        schedule: The family.
        config: Value of every knob; `None` for the plain lowering.
        knobs: The values each knob could take.
        structure: Description of what the task computes, without sizes; equal for tasks whose configs can be compared.
        sizes: Trip counts of all of its loops.
        ops: Number of ops of the module that the task stands for.
        count: Number of times a call of the payload runs an op of the task.
        seconds: Times of the winner in the final comparison of the task alone.
        baseline_seconds: Median seconds a call of the baseline.
        note: Reason for the choice, where it is not simply the fastest.
        rivals: Times of others that were chosen for the task by their own kind, a family and back ends, by name.
        reference_seconds: Times of the FMA kernel between those of the winner; empty where that was not recorded.
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
    reference_seconds: SampleSeconds = ()  # as of 2026-11


@dataclass(frozen=True)
class KernelRecord:
    """Code of a back end that computes a task, kept as kernels/TAG.o, with what it was made of as kernels/TAG.txt.

    Attributes:
        backend: Name of the back end.
        symbol: Name of the function.
        types: Types of the operands that it takes the addresses of, in order; the last is written.
        sizes: Numbers that it takes after those.
        maker: Generator of the code.
    """

    backend: Name
    symbol: Annotated[str, Field(pattern=r"^autotune_kernel_[A-Za-z0-9_]{1,400}$")]
    types: Annotated[tuple[Memory, ...], Field(min_length=2, max_length=100)]
    sizes: Annotated[tuple[Annotated[int, Field(ge=-(2**63), lt=2**63)], ...], Field(max_length=100)] = ()
    maker: Text = ""


@dataclass(frozen=True)
class ScriptRecord:
    """A user's own script, kept as open.mlir.

    Attributes:
        source: Name of the user's file.
        tasks: Which tasks it is for, where it takes one op: a tag, or a pattern with ``*``.
    """

    source: Text
    tasks: Text = "*"


@dataclass(frozen=True)
class RulesRecord:
    """Rewrite rules that the payload was changed by before its tasks were found, kept as rules.mlir.

    Attributes:
        source: Name of the user's file; empty where only rules that come with the tool were tried.
        fired: Number of times that each rule fired, by name.
    """

    source: Text
    fired: Annotated[dict[RuleName, Count], Field(min_length=1)]


@dataclass(frozen=True)
class ProcessTimes:
    """Times of one process, seconds a call; entry i of each was taken in one round.

    Attributes:
        best_seconds: Seconds a call with the schedule.
        baseline_seconds: Seconds a call of the baseline; empty if it could not be run.
        reference_seconds: Seconds a call of the FMA kernel.
    """

    best_seconds: Annotated[SampleSeconds, Field(min_length=1)]
    baseline_seconds: SampleSeconds
    reference_seconds: SampleSeconds


@dataclass(frozen=True)
class OutputNumerics:
    """How exact one output is.

    Attributes:
        max_error: Largest absolute difference to the oracle.
        tolerance: Largest that rounding explains.
        magnitude: Largest absolute value of the oracle.
        rms_error: Root of the mean squared difference.
    """

    max_error: Distance
    tolerance: Distance
    magnitude: Distance
    rms_error: Distance


@dataclass(frozen=True)
class Numerics:
    """How exact the outputs are, by name.

    Attributes:
        oracle: ``reference``, in float64, or ``plain lowering``.
        seed: Seed of the input data.
        outputs: Errors of each output, by name of the argument.
        unproved: Whether the payload was imported, and nothing but its own plain lowering said what is right.
    """

    oracle: Annotated[str, Field(pattern="^(reference|plain lowering)$")]
    seed: int
    outputs: dict[Name, OutputNumerics]
    unproved: bool = False


@dataclass(frozen=True)
class UncoveredRecord:
    """What no schedule changes, as `autotune.core.ops.uncovered` describes it.

    Attributes:
        name: Kind and sizes.
        runs: Executions in one call.
        operations: Scalar operations of all of them in a call.
        why: Why no task or family has it.
        share: Part of a call's time; `None` where that was not measured.
    """

    name: Text
    runs: Count
    operations: Amount
    why: Text
    share: Share | None


@dataclass(frozen=True)
class Buffers:
    """What intermediates take: how many, in one arena, and apart; bytes."""

    count: Count
    peak_bytes: Count
    naive_bytes: Count


@dataclass(frozen=True)
class BaselineRecord:
    """What the speed-up is quoted against.

    Attributes:
        name: Name of the baseline.
        pipeline: Pass pipeline of the baseline.
        part: One in so many iterations of its outermost loops was run, and times multiplied by as many; 1 for all.
        part_error: Relative error of such times; 0 of whole calls.
        why_not: Reason why it could not be timed, where it could not.
    """

    name: Name
    pipeline: Text
    part: Annotated[int, Field(ge=1, le=2**20)] = 1
    part_error: Annotated[float, Field(ge=0, le=MOST_PART_ERROR, allow_inf_nan=False)] = 0.0
    why_not: Text = ""


@dataclass(frozen=True)
class Versions:
    """What wrote the bundle: this project, Python, the provider of MLIR and LLVM, and all packages in use."""

    autotune: Text
    python: Text
    compiler: Text
    packages: dict[Text, Text]
