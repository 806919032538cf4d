"""`Run`: the context of all stages of a tuning run."""

from dataclasses import dataclass, field

from autotune.core.bench import Bench
from autotune.core.care import Care, chosen_care
from autotune.core.host.machine import Machine
from autotune.core.listener import SILENT, Listener
from autotune.core.partition import Partition
from autotune.core.payload import Payload
from autotune.tuning.options import TuneOptions
from autotune.worker.isolation.limits import whole_seconds


@dataclass(frozen=True)
class Run:
    """Context of a tuning run: the payload, the machine, and the options.

    Attributes:
        payload: Payload that is tuned.
        parts: Partition of the payload into tasks.
        machine: Machine that it is tuned for.
        worker: Bench on that machine, for sequential measurements.
        options: Options of the run.
        floor: Noise floor, a relative difference of times.
        listener: Listener of stages and notes.
        care: Limits and repetitions of measurements.
    """

    payload: Payload
    parts: Partition
    machine: Machine
    worker: Bench
    options: TuneOptions = field(default_factory=TuneOptions)
    floor: float = 0.0
    listener: Listener = SILENT
    care: Care = field(default_factory=chosen_care)

    @property
    def seed(self) -> int:
        """Seed of the samplers and of the input data."""
        return self.options.seed

    @property
    def whole_seconds(self) -> float:
        """Time limit of a job with the whole, in seconds, from its tasks and `--timeout`."""
        return whole_seconds(self.parts.tasks, self.options.timeout)

    @property
    def fired_rules(self) -> dict[str, str] | None:
        """Rewrite rules that fired on the payload, in the form of a sweep's record; `None` where none did."""
        rewriting = self.parts.rewriting
        return {"source": self.payload.rules.source, "text": rewriting.applied} if rewriting.firings else None
