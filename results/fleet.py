"""A cluster as it works, simulated: one tuner that asks and records, one scheduler that carries, slots that measure.

The tuner does one thing at a time, as `stages/running.py` does: it asks until every slot has a trial, then waits,
records what is done, and asks again. A trial goes out through the scheduler and its answer comes back through it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Parts:
    """Seconds that the parts of a trial take beside the trial itself.

    Attributes:
        own: What the tuner takes of a trial with one slot: asking, writing the script, learning.
        beside: More that asking takes, by the number of trials under way in the same search.
        record: What the record of a trial takes, claim included.
        submit: What the tuner takes to send a trial off.
        carry: What the scheduler takes of a trial, there and back, when it has nothing else to wait for.
        way: What passes on the way there and back, beside that.
    """

    own: float
    beside: dict[int, float]
    record: float
    submit: float
    carry: float
    way: float

    def asking(self, under_way: float) -> float:
        """What the tuner takes to ask beside so many trials; what was not measured goes on as it did at the end."""
        counts, seconds = np.array(sorted(self.beside)), [self.beside[count] for count in sorted(self.beside)]
        if under_way > counts[-1]:
            slope = (seconds[-1] - seconds[-2]) / (counts[-1] - counts[-2])
            return float(seconds[-1] + max(0.0, slope) * (under_way - counts[-1]))
        return float(np.interp(under_way, counts, seconds))


@dataclass(frozen=True)
class Run:
    """A simulated sweep.

    Attributes:
        slots: Number of slots.
        seconds: Seconds that it took.
        trials: Number of trials.
        shares: Share of the time that each part was busy: ``slots``, and of the others ``search``, ``database``,
            ``scheduler``.
    """

    slots: int
    seconds: float
    trials: int
    shares: dict[str, float]

    @property
    def busiest(self) -> str:
        """The part that there is least of."""
        return max(self.shares, key=lambda name: self.shares[name])


class Fleet:
    """A sweep that is being simulated."""

    def __init__(self, slots: int, costs: Sequence[float], parts: Parts, searches: int) -> None:
        """Begin with nothing under way.

        Args:
            slots: Number of slots.
            costs: Seconds that each trial takes on a slot, in order.
            parts: What everything else takes.
            searches: Searches that trials under way are spread over.
        """
        import simpy  # comes with an extra

        self.world = simpy.Environment()
        self.scheduler = simpy.Resource(self.world, 1)
        self.slots = simpy.Resource(self.world, slots)
        self.done = simpy.Store(self.world)
        self.count, self.costs, self.parts, self.searches = slots, costs, parts, searches
        self.busy = dict.fromkeys(("slots", "search", "database", "scheduler"), 0.0)

    def run(self) -> Run:
        """Simulate it to its end."""
        self.world.run(self.world.process(self.tuner()))
        seconds = self.world.now
        shares = {name: busy / seconds for name, busy in self.busy.items()} | {
            "slots": self.busy["slots"] / (seconds * self.count)
        }
        return Run(self.count, seconds, len(self.costs), shares)

    def tuner(self) -> Iterator[Any]:
        """Ask while there are free slots, then record one that is done."""
        begun, under_way = 0, 0
        while begun < len(self.costs) or under_way:
            while begun < len(self.costs) and under_way < self.count:
                beside = self.parts.asking(under_way / self.searches)
                yield self.take("search", self.parts.own + beside + self.parts.submit)
                self.world.process(self.trial(self.costs[begun]))
                begun, under_way = begun + 1, under_way + 1
            yield self.done.get()
            under_way -= 1
            yield self.take("database", self.parts.record)

    def trial(self, cost: float) -> Iterator[Any]:
        """A trial on its way to a slot, on it, and back."""
        yield from self.carry()
        with self.slots.request() as slot:
            yield slot
            yield self.take("slots", cost)
        yield from self.carry()
        yield self.done.put(None)

    def carry(self) -> Iterator[Any]:
        """Half of the way of a message, and of what the scheduler does for a trial."""
        yield self.world.timeout(self.parts.way / 2)
        with self.scheduler.request() as turn:
            yield turn
            yield self.take("scheduler", self.parts.carry / 2)

    def take(self, name: str, seconds: float) -> Any:  # noqa: ANN401 - of simpy
        """Be busy for a while."""
        self.busy[name] += seconds
        return self.world.timeout(seconds)
