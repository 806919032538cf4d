"""A team: the slots of a cluster whose machines are of one kind. They search together; finalists race on one of them.

Machines of a kind differ: by their clocks, and by what else runs there. Times are divided by what the reference kernel
takes beside them, as on one machine, and multiplied by what it takes on the fastest machine of the team. A machine that
is too slow or too noisy for that is left out, with a sentence.
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

LOOK_SECONDS = 2.0  # between checks for machines
LONELY_SECONDS = 120.0  # without any machine, before a sweep ends: a worker that is started anew takes some ten
SLOW = 1.25  # times what a kernel takes on the fastest machine of the kind: more is no matter of clocks
NOISY = 0.15  # noise floor beyond which a machine is left out, where another one is calmer
NOTABLE = 1.03  # times: less is not worth a sentence


@dataclass(frozen=True)
class UnderWay:
    """A job that some slot works on.

    Attributes:
        future: Dask's future of a `Delivery`.
        job: The job.
        addresses: Workers that it may run on; none for all of the kind.
    """

    future: Untyped
    job: Job
    addresses: tuple[str, ...]


class Team:
    """Evaluates as many jobs at once as there are slots of one kind: `autotune.core.evaluator.Slots`.

    Attributes:
        cluster: Cluster that the slots are in.
        slot: A slot of the kind.
        machine: Machine that candidates are tuned for.
        seconds: Seconds that a job may take before it is stopped.
    """

    is_ordered = False

    def __init__(
        self, cluster: Cluster, slot: Slot, machine: Machine, seconds: float, note: Callable[[str], None]
    ) -> None:
        """Begin with nothing under way.

        Args:
            cluster: Cluster that the slots are in.
            slot: A slot of the kind.
            machine: Machine that candidates are tuned for.
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
        """Slots that are used, the calmest first; waits a while for one where there is none.

        Raises:
            MachineError: No machine of the kind is left.
        """
        if time.monotonic() - self._looked > LOOK_SECONDS:
            alone_since = time.monotonic()
            while not (found := of_kind(self.cluster.members(), self.slot)):
                self.say(f"no machine of kind {self.slot.fingerprint} is left; waiting {LONELY_SECONDS:.0f} s for one")
                if time.monotonic() - alone_since > LONELY_SECONDS:
                    raise MachineError(
                        f"a machine of kind {self.slot.fingerprint} must be in the cluster, none is left; join one by "
                        f"`autotune lab join {self.cluster.where}` and run the same command: finished trials are kept"
                    )
                time.sleep(LOOK_SECONDS / 2)
            kept, sentences = compare(found)
            for sentence in sentences:
                self.say(sentence)
            self._seen, self._is_whole, self._looked = kept, len(kept) == len(found), time.monotonic()
        return self._seen

    def say(self, sentence: str) -> None:
        """Say a sentence once."""
        if sentence not in self._noted:
            self._noted.add(sentence)
            self._note(sentence)

    def count(self) -> int:
        """Slots that are used.

        Raises:
            MachineError: No machine of the kind is left.
        """
        return len(self.members)

    def submit(self, job: Job) -> int:
        """Begin a job on any slot; gives its number."""
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
        """The number of a job that is done, and the outcome of its candidates.

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
        """Give jobs whose workers are all gone to others."""
        there = {member.address for member in self.members}
        for number, mine in list(self._under_way.items()):
            if mine.addresses and not there & set(mine.addresses) and mine.future.status == "pending":
                del self._under_way[number]  # its callback finds nothing
                mine.future.cancel()
                self._begin(number, mine.job)

    def evaluations(self, mine: UnderWay) -> list[Evaluation]:
        """The outcome of a job's candidates, with times as the fastest machine of the team would have them."""
        delivery = self.delivered(mine.future, SlotRequest("evaluate"))
        if delivery is None:
            message = "the Dask worker that ran it ended, again and again: it was killed, or its machine is gone"
            return [Evaluation("crashed", diagnostic=message) for _ in mine.job.candidates]
        count = len(mine.job.candidates)
        found = evaluations(value_of(delivery), count) or no_evaluation(count, "its slot")
        return [self.normalised(each, delivery.address) for each in found]

    def normalised(self, found: Evaluation, address: str) -> Evaluation:
        """An evaluation with the reference kernel's best time of the fastest machine instead of its own."""
        samples = found.samples
        if samples is None or not samples.quiet_reference:
            return found
        self._quiet[address] = samples.quiet_reference
        return replace(found, samples=replace(samples, quiet_reference=min(self._quiet.values())))

    def delivered(self, future: Untyped, request: SlotRequest) -> Delivery | None:
        """What a slot delivered on a request; `None` where Dask gave up, since worker after worker ended over it.

        Raises:
            AnswerError: The message does not answer the request.
            MachineError: The scheduler is gone, or a worker could not do it.
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
    """The value that was delivered.

    Raises:
        AutotuneError: An error was delivered.
    """
    if isinstance(delivery.answer, Raised):
        raise delivery.answer.error
    return delivery.answer.value


def of_kind(members: Sequence[ClusterMember], slot: Slot) -> list[ClusterMember]:
    """Members whose slots are of the same kind as one."""
    return [member for member in members if member.slot is not None and member.slot.kind == slot.kind]


def compare(members: Sequence[ClusterMember]) -> tuple[list[ClusterMember], list[str]]:
    """Members of one kind that are fit to be compared, the calmest first; and a sentence on each machine that is not.

    Slots of one machine are one: what differs there is noise.
    """
    hosts: dict[str, list[Slot]] = {}
    for member in members:
        if member.slot is not None:
            hosts.setdefault(member.host, []).append(member.slot)
    least = {
        host: (min(s.compute_seconds for s in slots), min(s.memory_seconds for s in slots))
        for host, slots in hosts.items()
    }
    fastest = [min(times) for times in zip(*least.values(), strict=True)]
    slower = {host: [mine / best for mine, best in zip(times, fastest, strict=True)] for host, times in least.items()}
    floors = {host: min(slot.noise_floor for slot in slots) for host, slots in hosts.items()}
    calmest = min((floors[host] for host, over in slower.items() if max(over) <= SLOW), default=inf)
    out, sentences = set[str](), list[str]()
    for host, over in slower.items():
        noise = floors[host]
        if max(over) > SLOW:
            what = "computes" if over[0] == max(over) else "reads memory"
            out.add(host)
            sentences.append(f"machine {host} is left out: it {what} {max(over):.2f} x slower than another of its kind")
        elif noise > NOISY > calmest:
            out.add(host)
            sentences.append(f"machine {host} is left out: two measurements of one program differ by {noise:.0%} there")
        elif over[0] > NOTABLE:
            sentences.append(
                f"machine {host} computes {over[0]:.2f} x slower than another of its kind: its times are divided by "
                "what the reference kernel takes there"
            )
    kept = [member for member in members if member.host not in out]
    return sorted(kept, key=lambda m: (m.slot.noise_floor if m.slot else inf, m.address)), sentences
