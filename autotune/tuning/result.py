"""`TuneResult`: what one tuning run found, as plain data."""

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
    """How an error budget was spent.

    Attributes:
        error: Relative error that the whole may have.
        spent: What it has, on inputs that were not seen before.
        tasks: What it has with one task rounded alone, by tag, for those that are.
        agreement: Least share of rows whose largest element must stay where it is; 0 where none was requested.
        agrees: Share of the rows where it does, on inputs that were not seen before.
        rows: Number of those rows; 0 where none was requested.
        weighted_flops: Operations of a call, those of rounded tasks counted as so many fewer as their unit's roof is
            above that of f32; 0 where that is unknown.
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
    """One tuning run.

    Attributes:
        payload: Name of the payload.
        machine: The host.
        roofs: Roofs measured at the start of the run.
        baseline_name: The pipeline the speed-up is quoted against.
        baseline_seconds: Median seconds a call of the baseline; `None` if it could not be run.
        best_seconds: Seconds a call of the whole payload with the best schedules: the median, the machine's drift
            divided out (`autotune.core.winner_time`), as that of the baseline.
        roof_fraction: Share of the FMA roof that is, by an FMA kernel interleaved with it; `None` where the
            operations are not known.
        configs: The winning config of every task that has one.
        speedup: Baseline over best, interleaved, with its 95 % interval, over all sessions that the bundle records.
            Times and share of the roof beside it are of the same sessions.
        max_error: Largest absolute difference to the oracle.
        trials: Number of trials by outcome, looked-up ones included.
        evaluated: Trials that were compiled and run in this run.
        seconds: Wall-clock time of the whole run, in seconds.
        search_seconds: Wall-clock time of the search alone, in seconds.
        overhead_seconds: Seconds of the search that the tuner itself took.
        noise_floor: Relative differences below it were ties.
        notes: Notes on what did not go as hoped, a sentence each.
        details: Notes for authors of families, a sentence each; `tune --json` has them.
        bundle: Folder of the bundle.
        spent: How the error budget was spent; `None` where nothing is rounded.
        oracle: What results were compared with, `reference` or `plain lowering`.
        unproved: Whether the payload was imported, and its own naive lowering was the only oracle.
        uncovered: What no schedule changes, with its part of a call, that of most operations first.
        clock_seconds: Median seconds a call as the clock gave them.
        unsteady: Why times say nothing, a sentence: the core was shared, or a share of the roof cannot be; else empty.
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
        """What was reached, a name and a value each."""
        units = "its units' roofs" if self.spent is not None else "the FMA roof"
        share = [(f"of {units}", f"{self.roof_fraction:.1%}")] if self.roof_fraction else []
        over = [(f"speed-up over {self.baseline_name}", str(self.speedup))] if self.speedup else []
        error = [("max error", f"{self.max_error:.2g}")] if self.max_error is not None else []
        times = [("seconds a call", f"{self.best_seconds:.4g}"), *share, *over]
        return [
            *([("not measurable", self.unsteady)] if self.unsteady else times),
            *error,
            ("bundle", self.bundle or "none"),
        ]

    @staticmethod
    def from_json(data: dict[str, Any]) -> "TuneResult":
        """The result that `to_json` gave as plain data, which may have more keys; raises `KeyError` if it has fewer."""
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
        """One plain object, as `tune --json` prints it."""
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
