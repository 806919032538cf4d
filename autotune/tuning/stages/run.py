"""`Run`: what every stage of a tuning run is given."""

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
    """A payload that is tuned, where, and how.

    Attributes:
        payload: The payload.
        parts: Partition of the payload into tasks.
        machine: Machine that it is tuned for.
        worker: Bench on that machine, for what is measured one after the other.
        options: Options of the run.
        floor: Relative differences of times below this are noise.
        listener: Notified of stages and notes.
        care: How carefully it measures.
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
        """Seconds that a job with the whole may take, each of whose ops was verified alone within `--timeout`."""
        return whole_seconds(self.parts.tasks, self.options.timeout)

    @property
    def fired_rules(self) -> dict[str, str] | None:
        """The rewrite rules that fired on the payload, as a sweep records them; `None` where none did."""
        rewriting = self.parts.rewriting
        return {"source": self.payload.rules.source, "text": rewriting.applied} if rewriting.firings else None
