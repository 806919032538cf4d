"""Remote bench: the interface of a local worker, executed by one slot of a team on another machine."""

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
MACHINES = 3  # attempts: machines that may be lost during one request


class RemoteBench:
    """`Bench` on one slot of a team. If its machine is lost, another machine of the same kind replaces it.

    Attributes:
        team: Team of the slot.
        address: Address of its Dask worker.
        seconds: Seconds that a job may take before it is stopped.
    """

    def __init__(self, team: Team, address: str, seconds: float | None = None) -> None:
        """Select a slot.

        Args:
            team: Team of the slot.
            address: Address of its Dask worker.
            seconds: Seconds that a job may take before it is stopped; by default the team's.
        """
        self.team, self.address, self.seconds = team, address, seconds or team.seconds

    def __enter__(self) -> "RemoteBench":
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: the slot stays in the team."""

    def another(self, seconds: float) -> "RemoteBench":
        """Return a bench of the same slot, with a new process and another time limit per job."""
        self.renew()
        return RemoteBench(self.team, self.address, seconds)

    def evaluate(self, job: Job, seconds: float | None = None) -> list[Evaluation]:
        """Compile, verify and time the candidates of a job on the slot; return one `Evaluation` each, in order.

        Raises:
            AutotuneError: The payload itself is at fault, or no machine of the kind is left.
        """
        count = len(job.candidates)
        return evaluations(self.ask("evaluate", job, seconds or self.seconds), count) or no_evaluation(
            count, "its slot"
        )

    def call(self, function: Callable[[A], T], argument: A, seconds: float | None = None) -> T | Evaluation:
        """Call a module-level function in the slot's process; return an `Evaluation` if the process failed.

        Raises:
            AutotuneError: The function raised it, or no machine of the kind is left.
        """
        answer: T | Evaluation = self.ask("call", function, argument, seconds or self.seconds)
        return answer

    def renew(self) -> None:
        """Run the next call in a new process."""
        self.ask("renew")

    def roofs(self, machine: Machine) -> Roofs:
        """Measure the peak rates (rooflines) of the slot's machine.

        Raises:
            MachineError: The process failed, or no machine of the kind is left.
        """
        return check_roofs(self.ask("roofs", machine))

    def ask(self, method: str, *arguments: Untyped) -> Untyped:
        """Call a method of the slot's worker and return its value.

        Raises:
            AutotuneError: The method raised it.
            MachineError: `MACHINES` machines in a row were lost during the call.
        """
        request = SlotRequest(method, arguments)
        for _ in range(MACHINES):
            done: SimpleQueue[object] = SimpleQueue()
            label = "race" if method == "evaluate" else method
            future = self.team.cluster.submit(request, self.team.slot, [self.address], label)
            future.add_done_callback(done.put)
            while not self.is_answered(done):
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

    def is_answered(self, done: "SimpleQueue[object]") -> bool:
        """Wait up to `LOOK_SECONDS` for a future to finish; return whether it did."""
        try:
            done.get(timeout=LOOK_SECONDS)
        except Empty:
            return False
        return True
