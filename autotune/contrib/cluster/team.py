"""Team: the slots of a cluster whose machines are of one kind. All of them search; one of them races the finalists.

Machines of a kind differ in clock frequency and load. As on a single machine, a time is divided by that of the
reference kernel measured beside it; it is then multiplied by the reference time of the fastest machine of the team. A
machine that is too slow or too noisy for this normalization is left out, and a note says so.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from queue import Empty, SimpleQueue

from autotune.contrib.cluster.cluster import Cluster, ClusterMember, one_reason
from autotune.contrib.cluster.slot import Delivery, Slot, SlotRequest, Untyped, read_delivery
from autotune.core.errors import MachineError
from autotune.core.evaluator import Evaluation, Job
from autotune.core.host.machine import Machine
from autotune.worker.isolation.answers import Raised, evaluations, no_evaluation

LOOK_SECONDS = 2.0  # interval at which the list of machines is refreshed
LONELY_SECONDS = 120.0  # without any machine before a sweep fails; restarting a worker takes about ten
SLOW = 1.25  # ratio to the fastest machine of the kind; a larger one is not explained by clock frequency
NOISY = 0.15  # noise floor above which a machine is left out if another one is below it
NOTABLE = 1.03  # ratio to the fastest machine from which on a note is given


@dataclass(frozen=True)
class UnderWay:
    """Job that was submitted and has not finished.

    Attributes:
        future: Dask's future of a `Delivery`.
        job: The job.
        addresses: Workers on which it may run; empty for all of the kind.
    """

    future: Untyped
    job: Job
    addresses: tuple[str, ...]


class Team:
    """Evaluator of as many jobs at once as there are slots of one kind; implements `autotune.core.evaluator.Slots`.

    Attributes:
        cluster: Cluster of the slots.
        slot: A slot of the kind.
        machine: Machine for which candidates are tuned.
        seconds: Seconds that a job may take before it is stopped.
    """

    is_ordered = False

    def __init__(
        self, cluster: Cluster, slot: Slot, machine: Machine, seconds: float, note: Callable[[str], None]
    ) -> None:
        """Create a team without jobs.

        Args:
            cluster: Cluster of the slots.
            slot: A slot of the kind.
            machine: Machine for which candidates are tuned.
            seconds: Seconds that a job may take before it is stopped.
            note: Called with notes, a sentence each.
        """
        self.cluster, self.slot, self.machine, self.seconds = cluster, slot, machine, seconds
        self._note = note
        self._noted: set[str] = set()
        self._seen: list[ClusterMember] = []
        self._is_whole = True  # no machine of the kind is left out
        self._looked = -inf
        self._under_way: dict[int, UnderWay] = {}
        self._done: SimpleQueue[int] = SimpleQueue()
        self._submitted = 0
        self._quiet: dict[str, float] = {}  # the reference kernel's best time, by address

    @property
    def members(self) -> list[ClusterMember]:
        """Workers in use, by ascending noise floor; wait up to `LONELY_SECONDS` if there is none.

        Raises:
            MachineError: No machine of the kind is left.
        """
        if time.monotonic() - self._looked > LOOK_SECONDS:
            alone_since = time.monotonic()
            while not (candidates := of_kind(self.cluster.members(), self.slot)):
                self.say(f"no machine of kind {self.slot.fingerprint} is left; waiting {LONELY_SECONDS:.0f} s for one")
                if time.monotonic() - alone_since > LONELY_SECONDS:
                    raise MachineError(
                        f"a machine of kind {self.slot.fingerprint} must be in the cluster, none is left; join one by "
                        f"`autotune lab join {self.cluster.where}` and run the same command: finished trials are kept"
                    )
                time.sleep(LOOK_SECONDS / 2)
            fit, sentences = compare(candidates)
            for sentence in sentences:
                self.say(sentence)
            self._seen, self._is_whole, self._looked = fit, len(fit) == len(candidates), time.monotonic()
        return self._seen

    def say(self, sentence: str) -> None:
        """Pass a note on, unless the same note was given before."""
        if sentence not in self._noted:
            self._noted.add(sentence)
            self._note(sentence)

    def count(self) -> int:
        """Return the number of slots in use.

        Raises:
            MachineError: No machine of the kind is left.
        """
        return len(self.members)

    def submit(self, job: Job) -> int:
        """Submit a job to any slot; return its number."""
        self._submitted += 1
        self._begin(self._submitted, job)
        return self._submitted

    def _begin(self, number: int, job: Job) -> None:
        used = tuple(member.address for member in self.members)
        addresses = () if self._is_whole else used
        future = self.cluster.submit(SlotRequest("evaluate", (job, self.seconds)), self.slot, addresses)
        self._under_way[number] = UnderWay(future, job, addresses)
        future.add_done_callback(lambda _: self._done.put(number))

    def wait(self) -> tuple[int, list[Evaluation]]:
        """Wait for a job to finish; return its number and the evaluations of its candidates.

        Raises:
            AutotuneError: The payload itself is at fault, not a candidate.
            MachineError: No machine of the kind is left, or the scheduler is gone.
        """
        while True:
            try:
                number = self._done.get(timeout=LOOK_SECONDS)
            except Empty:
                self._rescue()
                continue
            if (mine := self._under_way.pop(number, None)) is not None:
                return number, self.evaluations(mine)

    def _rescue(self) -> None:
        """Resubmit the jobs whose permitted workers have all gone."""
        there = {member.address for member in self.members}
        for number, mine in list(self._under_way.items()):
            if mine.addresses and not there & set(mine.addresses) and mine.future.status == "pending":
                del self._under_way[number]  # so that `wait` ignores the cancelled future
                mine.future.cancel()
                self._begin(number, mine.job)

    def evaluations(self, mine: UnderWay) -> list[Evaluation]:
        """Return the evaluations of a job's candidates, with times normalized to the fastest machine of the team."""
        delivery = self.delivered(mine.future, SlotRequest("evaluate"))
        if delivery is None:
            message = "the Dask worker that ran it ended, again and again: it was killed, or its machine is gone"
            return [Evaluation("crashed", diagnostic=message) for _ in mine.job.candidates]
        count = len(mine.job.candidates)
        results = evaluations(value_of(delivery), count) or no_evaluation(count, "its slot")
        return [self.normalised(each, delivery.address) for each in results]

    def normalised(self, evaluation: Evaluation, address: str) -> Evaluation:
        """Return an evaluation whose quiet reference time is the minimum over all machines of the team so far."""
        samples = evaluation.samples
        if samples is None or not samples.quiet_reference:
            return evaluation
        self._quiet[address] = samples.quiet_reference
        return replace(evaluation, samples=replace(samples, quiet_reference=min(self._quiet.values())))

    def delivered(self, future: Untyped, request: SlotRequest) -> Delivery | None:
        """Return the answer of a slot; `None` if Dask gave up because several workers died while they ran the request.

        Raises:
            AnswerError: The message does not answer the request.
            MachineError: The scheduler is gone, or a worker could not perform the request.
        """
        status = future.status
        if status == "error":
            error = self.cluster.do(lambda _: future.exception(timeout=LOOK_SECONDS))
            if type(error).__name__ == "KilledWorker":
                return None
            raise MachineError(f"a machine of the cluster must be able to measure; one answered: {one_reason(error)}")
        if status != "finished":
            raise self.cluster.lost()
        return read_delivery(self.cluster.do(lambda _: future.result(timeout=self.seconds)), request)


def value_of(delivery: Delivery) -> Untyped:
    """Return the value of a delivery, or raise its error.

    Raises:
        AutotuneError: The delivery is an error.
    """
    if isinstance(delivery.answer, Raised):
        raise delivery.answer.error
    return delivery.answer.value


def of_kind(members: Sequence[ClusterMember], slot: Slot) -> list[ClusterMember]:
    """Return the members whose slots are of the same kind as the given one."""
    return [member for member in members if member.slot is not None and member.slot.kind == slot.kind]


def compare(members: Sequence[ClusterMember]) -> tuple[list[ClusterMember], list[str]]:
    """Select the members of one kind whose times are comparable, by ascending noise floor.

    The slots of one machine are judged together by their minima, since their differences are noise.

    Returns:
        Members to use, and a sentence on each machine that is left out or notably slower.
    """
    hosts: dict[str, list[Slot]] = {}
    for member in members:
        if member.slot is not None:
            hosts.setdefault(member.host, []).append(member.slot)
    minima = {
        host: (min(s.compute_seconds for s in slots), min(s.memory_seconds for s in slots))
        for host, slots in hosts.items()
    }
    fastest = [min(times) for times in zip(*minima.values(), strict=True)]
    slower = {host: [mine / best for mine, best in zip(times, fastest, strict=True)] for host, times in minima.items()}
    floors = {host: min(slot.noise_floor for slot in slots) for host, slots in hosts.items()}
    calmest = min((floors[host] for host, over in slower.items() if max(over) <= SLOW), default=inf)
    out, sentences = set[str](), list[str]()
    for host, over in slower.items():
        noise = floors[host]
        if max(over) > SLOW:
            fault = "computes" if over[0] == max(over) else "reads memory"
            out.add(host)
            sentences.append(
                f"machine {host} is left out: it {fault} {max(over):.2f} x slower than another of its kind"
            )
        elif noise > NOISY > calmest:
            out.add(host)
            sentences.append(f"machine {host} is left out: two measurements of one program differ by {noise:.0%} there")
        elif over[0] > NOTABLE:
            sentences.append(
                f"machine {host} computes {over[0]:.2f} x slower than another of its kind: its times are divided by "
                "what the reference kernel takes there"
            )
    members_used = [member for member in members if member.host not in out]
    return sorted(members_used, key=lambda m: (m.slot.noise_floor if m.slot else inf, m.address)), sentences
