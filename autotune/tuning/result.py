"""`TuneResult`: the result of a tuning run, as plain data."""

from dataclasses import asdict, dataclass, field
from typing import Any

from autotune.core.host.machine import Machine, Roofs
from autotune.core.html import html_table
from autotune.core.ops.uncovered import UncoveredOp, UncoveredShare
from autotune.core.payload import REFERENCE
from autotune.core.space import Value
from autotune.core.stats import Interval


@dataclass(frozen=True)
class Spent:
    """Error budget of a run, and the measured errors.

    Attributes:
        error: Allowed relative error of the whole.
        spent: Measured error of the whole, on unseen inputs.
        tasks: Error contributed by each rounded task, by tag.
        agreement: Least share of rows whose argmax must not change; 0 where none was requested.
        agrees: Measured share of rows whose argmax did not change, on unseen inputs.
        rows: Number of those rows; 0 where none was requested.
        weighted_flops: Operations of a call, where those of rounded tasks are divided by the ratio of their unit's peak
            rate to that of f32; 0 where that is unknown.
    """

    error: float
    spent: float
    tasks: dict[str, float] = field(default_factory=dict)
    agreement: float = 0.0
    agrees: float = 1.0
    rows: int = 0
    weighted_flops: float = 0.0


@dataclass(frozen=True)
class TuneResult:
    """Result of a tuning run.

    Attributes:
        payload: Name of the payload.
        machine: The host.
        roofs: Roofs measured at the start of the run.
        baseline_name: Name of the baseline that the speed-up refers to.
        baseline_seconds: Median seconds a call of the baseline; `None` if it could not be run.
        best_seconds: Median seconds a call of the whole payload with the best schedules, drift-normalised
            (`autotune.core.winner_time`) like that of the baseline.
        roof_fraction: Rate of the whole as a share of the FMA roof, by an FMA kernel interleaved with it; `None` where
            the number of operations is not known.
        configs: Winning config of every task that has one.
        speedup: Baseline over best, interleaved, with its 95 % confidence interval, over all sessions that the bundle
            records. Times and share of the roof are of the same sessions.
        max_error: Largest absolute difference to the oracle.
        trials: Number of trials by outcome, including those looked up.
        evaluated: Number of trials that were compiled and run in this run.
        seconds: Wall-clock time of the whole run, in seconds.
        search_seconds: Wall-clock time of the search alone, in seconds.
        overhead_seconds: Overhead of the tuner in the search, in seconds.
        noise_floor: Relative difference below which times count as equal.
        notes: Notes on problems, a sentence each.
        details: Notes for authors of families, a sentence each; `tune --json` has them.
        bundle: Folder of the bundle.
        spent: Error budget and measured errors; `None` where nothing is rounded.
        oracle: Kind of oracle, `reference` or `plain lowering`.
        unproved: Whether the payload was imported, and its own plain lowering was the only oracle.
        uncovered: Ops that no schedule changes, with their share of a call, most operations first.
        clock_seconds: Median measured seconds a call, not normalised.
        unsteady: Sentence on why the times are invalid: the core was shared, or a share of the roof is impossible;
            empty if they are valid.
    """

    payload: str
    machine: Machine
    roofs: Roofs
    baseline_name: str
    baseline_seconds: float | None
    best_seconds: float
    roof_fraction: float | None
    configs: dict[str, dict[str, Value]]
    speedup: Interval | None
    max_error: float | None
    trials: dict[str, int]
    evaluated: int
    seconds: float
    search_seconds: float
    overhead_seconds: float
    noise_floor: float
    notes: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    bundle: str = ""
    spent: Spent | None = None
    oracle: str = REFERENCE
    unproved: bool = False
    uncovered: tuple[UncoveredShare, ...] = ()
    clock_seconds: float | None = None
    unsteady: str = ""

    def __repr__(self) -> str:
        return f"<TuneResult {self.payload}: {'; '.join(' '.join(row) for row in self._rows())}>"

    def _repr_html_(self) -> str:
        return html_table(self.payload, (), self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        """Return the main figures as pairs of name and value."""
        units = "its units' roofs" if self.spent is not None else "the FMA roof"
        share = [(f"of {units}", f"{self.roof_fraction:.1%}")] if self.roof_fraction else []
        speedup = [(f"speed-up over {self.baseline_name}", str(self.speedup))] if self.speedup else []
        error = [("max error", f"{self.max_error:.2g}")] if self.max_error is not None else []
        times = [("seconds a call", f"{self.best_seconds:.4g}"), *share, *speedup]
        return [
            *([("not measurable", self.unsteady)] if self.unsteady else times),
            *error,
            ("bundle", self.bundle or "none"),
        ]

    @staticmethod
    def from_json(data: dict[str, Any]) -> "TuneResult":
        """Rebuild a result from the data of `to_json`; extra keys are ignored, missing ones raise `KeyError`."""
        machine = {key: value for key, value in data["machine"].items() if key != "fingerprint"}
        interval, best, budget = data["speedup_interval"], data["best"], data.get("budget")
        shares = ((dict(each), each["share"]) for each in data["uncovered"])
        alike = ("payload", "max_error", "trials", "evaluated", "seconds", "search_seconds", "overhead_seconds")
        return TuneResult(
            **{name: data[name] for name in (*alike, "noise_floor", "bundle", "oracle", "unproved", "unsteady")},
            machine=Machine(**machine),
            roofs=Roofs(**data["roofs"]),
            baseline_name=data["baseline"]["name"],
            baseline_seconds=data["baseline"]["seconds"],
            best_seconds=best["seconds"],
            clock_seconds=best["clock_seconds"],
            roof_fraction=best["roof_fraction"],
            configs=best["configs"],
            speedup=Interval(interval[0], data["speedup"], interval[1]) if interval is not None else None,
            notes=tuple(data["notes"]),
            details=tuple(data["details"]),
            spent=Spent(**budget) if budget is not None else None,
            uncovered=tuple(
                UncoveredShare(UncoveredOp(**{k: v for k, v in op.items() if k != "share"}), share)
                for op, share in shares
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data, as printed by `tune --json`."""
        return {
            "payload": self.payload,
            "machine": asdict(self.machine) | {"fingerprint": self.machine.fingerprint},
            "roofs": self.roofs.known,
            "baseline": {"name": self.baseline_name, "seconds": self.baseline_seconds},
            "best": {
                "seconds": self.best_seconds,
                "clock_seconds": self.clock_seconds,
                "roof_fraction": self.roof_fraction,
                "configs": self.configs,
            },
            "unsteady": self.unsteady,
            "speedup": self.speedup.estimate if self.speedup else None,
            "speedup_interval": [self.speedup.low, self.speedup.high] if self.speedup else None,
            "max_error": self.max_error,
            "oracle": self.oracle,
            "unproved": self.unproved,
            "trials": self.trials,
            "evaluated": self.evaluated,
            "seconds": self.seconds,
            "search_seconds": self.search_seconds,
            "overhead_seconds": self.overhead_seconds,
            "noise_floor": self.noise_floor,
            "uncovered": [asdict(each.op) | {"share": each.share} for each in self.uncovered],
            "notes": list(self.notes),
            "details": list(self.details),
            "bundle": self.bundle,
            **({"budget": asdict(self.spent)} if self.spent is not None else {}),
        }
