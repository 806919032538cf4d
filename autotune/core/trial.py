"""`Trial`: the record of one candidate, with its outcome."""

import hashlib
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import Any, Literal, get_args

from autotune.core.space import Config, Value
from autotune.core.stats import as_times, quiet_time

Outcome = Literal[
    "ok",  # compiled, verified, measured
    "duplicate",  # the same script, IR after the schedule, or machine code as an earlier trial; never timed again
    "constraint",  # breaks a joint constraint; never compiled
    "transform-failed",  # the transform interpreter refused the script
    "verify-failed",  # the scheduled module breaks a constraint of its ops
    "lowering-failed",  # the pass pipeline to LLVM failed
    "jit-failed",  # code generation or symbol resolution failed
    "crashed",  # the worker process died, or started another
    "timed-out",  # its compilation, its first call, or all of it took longer than allowed
    "out-of-memory",  # it hit the worker's memory limit
    "wrong-result",  # an element is further off than the tolerance, or something else was written
    "non-finite",  # an element is NaN or infinite where the oracle is finite
    "noisy",  # right, but its samples disagree, also when taken again: its time is a guess
]
OUTCOMES: tuple[str, ...] = get_args(Outcome)
RIGHT = ("ok", "noisy")  # outcomes of programs whose results were verified
INCONCLUSIVE = (
    "out-of-memory",
    "timed-out",
)  # outcomes of programs whose results are unknown, for lack of memory or time


@dataclass(frozen=True)
class Samples:
    """Raw times of one program, in seconds per call, and of the reference kernel run between them.

    Attributes:
        seconds: One entry a sample, in the order taken; each is the mean of `calls` calls inside compiled code.
        reference_seconds: The reference kernel's time beside each sample; empty if none was interleaved.
        calls: Calls behind one sample.
        quiet_reference: The reference kernel's best time in this session; 0 if none was interleaved.
        reference_level: The reference kernel's usual time over the latest programs, this one included; 0 if unknown.
        joules: Energy of a call, of the whole processor; `None` if it was not measured.
    """

    seconds: tuple[float, ...]
    reference_seconds: tuple[float, ...] = ()
    calls: int = 1
    quiet_reference: float = 0.0
    reference_level: float = 0.0
    joules: float | None = None

    @property
    def median(self) -> float:
        """Median seconds a call, as the clock gave it."""
        return median(self.seconds)

    @property
    def normalised(self) -> float:
        """Seconds a call, normalised by the machine's drift.

        The lower quartile is divided by the slowdown of the reference kernel against its best time. The kernel's level
        is taken over many programs: a program that heats its core also slows the kernel beside it, and would seem
        faster for it. Quartiles are compared, not single samples: a disturbance of one of two neighbouring samples
        would distort their ratio.
        """
        if not self.reference_seconds:
            return self.median
        quiet = self.quiet_reference or min(self.reference_seconds)
        return quiet_time(self.seconds) * quiet / (self.reference_level or quiet_time(self.reference_seconds))


@dataclass(frozen=True)
class Reason:
    """Why a config was tried.

    Attributes:
        by: Origin of the proposal: ``the default config``, ``the cost model``, or a sampler with its name.
        expected: Seconds a call that a model predicted; 0 if none did.
        low: Predicted seconds minus one standard deviation.
        high: Predicted seconds plus one standard deviation.
        drafted: Number of candidate configs that it was chosen from; 0 if there was no choice.
        refused: Proposals rejected before it, by reason: ``constraint``, ``duplicate``.
    """

    by: str
    expected: float = 0.0
    low: float = 0.0
    high: float = 0.0
    drafted: int = 0
    refused: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """One candidate of one task, with its config, outcome and measurements.

    Attributes:
        task: Tag of the task.
        number: Position in the task's search, from 0.
        config: Value of every knob.
        outcome: One of `OUTCOMES`.
        key: Identity, from `trial_key`; equal keys mean the same compilation.
        family: Name of the family that wrote its script; the key ``schedule`` in stores.
        samples: Raw times; `None` unless the outcome is ``ok`` or ``noisy``.
        max_error: Largest absolute difference to the oracle.
        diagnostic: First lines of the message of the compiler or the check.
        phases: Seconds spent, by phase: ``transform``, ``lower``, ``jit``, ``verify``, ``measure``.
        scheduled: Fingerprint of the IR after the schedule; empty if it failed earlier.
        compiled: Fingerprint of the machine code; empty if it failed earlier.
        twin: Key of the earlier trial that this one duplicates; empty if it is no duplicate.
        reason: Why it was tried; `None` where that is not recorded.
    """

    task: str
    number: int
    config: dict[str, Value]
    outcome: Outcome
    key: str
    family: str
    samples: Samples | None = None
    max_error: float | None = None
    diagnostic: str = ""
    phases: dict[str, float] = field(default_factory=dict)
    scheduled: str = ""
    compiled: str = ""
    twin: str = ""
    reason: Reason | None = None

    @property
    def seconds(self) -> float | None:
        """Drift-normalised seconds a call; `None` unless measured."""
        return self.samples.normalised if self.samples is not None else None

    @property
    def joules(self) -> float | None:
        """Energy of a call; `None` unless measured."""
        return self.samples.joules if self.samples is not None else None

    @property
    def seconds_median(self) -> float:
        """Median measured seconds a call, not normalised; infinite unless measured."""
        return self.samples.median if self.samples is not None else inf

    def to_json(self) -> dict[str, Any]:
        """Return plain data that `from_json` turns back into an equal trial."""
        samples = dict(vars(self.samples)) if self.samples is not None else None
        if samples is not None and samples["joules"] is None:
            del samples["joules"]  # absent from stores of earlier releases
        plain = {**vars(self), "samples": samples}  # not asdict: it copies every number, a third of the time of a write
        plain["schedule"] = plain.pop("family")
        reason = plain.pop("reason")
        return plain if reason is None else {**plain, "reason": vars(reason)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> "Trial":
        """Rebuild a trial from `to_json`'s data.

        Raises:
            ValueError: A time is not a positive finite number.
        """
        samples = data["samples"]
        if samples is not None:
            samples = Samples(
                tuple(samples["seconds"]),
                tuple(samples["reference_seconds"]),
                samples["calls"],
                samples["quiet_reference"],
                samples.get("reference_level", 0.0),
                samples.get("joules"),
            )
            as_times(samples.seconds)
            if samples.reference_seconds:
                as_times(samples.reference_seconds)
        plain = {**data, "samples": samples}
        plain["family"] = plain.pop("schedule")
        if plain.get("reason") is not None:
            plain["reason"] = Reason(**plain["reason"])
        return Trial(**plain)


def trial_key(payload: str, script: str, config: Config, pipeline: str, compiler: str) -> str:
    """Return the identity of a trial: a sha256 over everything that determines what is compiled.

    Args:
        payload: The task's MLIR text.
        script: The transform-dialect text.
        config: Knob values (two configs that yield one script are different trials, the second a duplicate).
        pipeline: The pass pipeline after the script.
        compiler: Version of MLIR.
    """
    digest = hashlib.sha256()
    for part in (payload, script, repr(sorted(config.items())), pipeline, compiler):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()
