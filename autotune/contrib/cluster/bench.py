"""A bench on another machine: one slot of a team, asked for everything that a worker of this machine is asked for."""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

from autotune.contrib.cluster.slot import SlotRequest, Untyped
from autotune.contrib.cluster.team import LOOK_SECONDS, Team, value_of
from autotune.core.errors import MachineError
from autotune.core.evaluator import Evaluation, Job
from autotune.core.host.machine import Machine, Roofs
from autotune.worker.isolation.answers import check_roofs, evaluations, no_evaluation

A = TypeVar("A")
T = TypeVar("T")
MACHINES = 3  # that may be lost over one request


class RemoteBench:
    """One slot of a team, a `Bench`. Where its machine is lost, another of the kind takes over.

    Attributes:
        team: Team that the slot is of.
        address: Address of its Dask worker.
        seconds: Seconds that a job may take before it is stopped.
    """

    def __init__(self, team: Team, address: str, seconds: float | None = None) -> None:
        """Name a slot.

        Args:
            team: Team that the slot is of.
            address: Address of its Dask worker.
            seconds: Seconds that a job may take before it is stopped; by default the team's.
        """
        self.team, self.address, self.seconds = team, address, seconds or team.seconds

    def __enter__(self) -> "RemoteBench":
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the slot to others."""

    def another(self, seconds: float) -> "RemoteBench":
        """The same slot with a process that has run nothing yet."""
        self.renew()
        return RemoteBench(self.team, self.address, seconds)

    def evaluate(self, job: Job, seconds: float | None = None) -> list[Evaluation]:
        """Compile, verify and time a job's candidates there; one `Evaluation` each, in their order.

        Raises:
            AutotuneError: The payload itself is at fault, or no machine of the kind is left.
        """
        count = len(job.candidates)
        return evaluations(self.ask("evaluate", job, seconds or self.seconds), count) or no_evaluation(
            count, "its slot"
        )

    def call(self, function: Callable[[A], T], argument: A, seconds: float | None = None) -> T | Evaluation:
        """Run a function of a module in the slot's process; where that fails over it, an `Evaluation` that says how.

        Raises:
            AutotuneError: The function raised it, or no machine of the kind is left.
        """
        found: T | Evaluation = self.ask("call", function, argument, seconds or self.seconds)
        return found

    def renew(self) -> None:
        """Run the next call in a new process."""
        self.ask("renew")

    def roofs(self, machine: Machine) -> Roofs:
        """Measure the slot's roofs.

        Raises:
            MachineError: The process failed over it, or no machine of the kind is left.
        """
        return check_roofs(self.ask("roofs", machine))

    def ask(self, method: str, *arguments: Untyped) -> Untyped:
        """The value of a method of the slot's worker.

        Raises:
            AutotuneError: The method raised it.
            MachineError: Machine after machine was lost over it.
        """
        request = SlotRequest(method, arguments)
        for _ in range(MACHINES):
            done: SimpleQueue[object] = SimpleQueue()
            what = "race" if method == "evaluate" else method
            future = self.team.cluster.submit(request, self.team.slot, [self.address], what)
            future.add_done_callback(done.put)
            while not self.is_heard(done):
                if all(member.address != self.address for member in self.team.members):
                    break
            if future.status != "pending" and (delivery := self.team.delivered(future, request)) is not None:
                return value_of(delivery)
            future.cancel()
            lost, self.address = self.address, self.team.members[0].address
            self.team.say(f"worker {lost} is gone; {self.address} does its work again")
        raise MachineError(
            f"machines must stay while they race, {MACHINES} were lost over one {method}; run the same command again: "
            "every finished trial is kept"
        )

    def is_heard(self, done: "SimpleQueue[object]") -> bool:
        """Whether something is done within a while."""
        try:
            done.get(timeout=LOOK_SECONDS)
        except Empty:
            return False
        return True
