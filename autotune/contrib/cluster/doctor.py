"""Doctor of a cluster: which machines are in it, how fast and how noisy each is, and what is wrong with it."""

from dataclasses import asdict, dataclass
from typing import Any

from autotune.contrib.cluster.cluster import Cluster, ClusterMember
from autotune.contrib.cluster.slot import Slot, SlotRequest, read_delivery
from autotune.contrib.cluster.team import compare
from autotune.core.host.machine import Machine, Roofs
from autotune.worker.isolation.answers import Returned

ROOFS_SECONDS = 180.0  # of all machines, at the same time; a candidate that runs there ends first


@dataclass(frozen=True)
class MemberDiagnosis:
    """What is known of one Dask worker of a cluster.

    Attributes:
        address: Address that it listens at.
        host: Address of its machine.
        slot: What it announces; `None` if it announces no slot.
        machine: Machine that it is on; `None` if it did not say.
        cores: CPUs that programs run on.
        roofs: Roofs of its machine, measured now on one of its slots; `None` if they could not be measured.
        wrong: Sentences on what keeps it from being used; empty if it is.
        advice: Sentences on what would make its times steadier.
    """

    address: str
    host: str
    slot: Slot | None
    machine: Machine | None
    cores: tuple[int, ...]
    roofs: Roofs | None
    wrong: tuple[str, ...]
    advice: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """One plain object."""
        return asdict(self)


def examine_cluster(cluster: Cluster) -> list[MemberDiagnosis]:
    """Look at every machine of a cluster; takes some seconds.

    Args:
        cluster: Cluster to look at.

    Raises:
        MachineError: The scheduler is gone.
    """
    members = cluster.members()
    answers = cluster.facts([member.address for member in members]) if members else {}
    roofs = measure_roofs(cluster, members, answers)
    unfit = left_out(members)
    found = []
    for member in members:
        facts = answers.get(member.address)
        facts = facts if isinstance(facts, dict) else {"why_not": f"it cannot say what it is: {facts}"}
        wrong = [facts["why_not"]] if "why_not" in facts else [member.fault] if member.fault else []
        wrong += [*facts.get("missing", ()), *unfit.get(member.host, ())]
        machine = Machine(**facts["machine"]) if "machine" in facts and not member.fault else None
        at = roofs.get((member.host, member.slot.fingerprint)) if member.slot is not None else None
        if machine is not None and at is None:
            wrong.append("its roofs could not be measured; look at its log")
        cores, advice = tuple(facts.get("cores", ())), tuple(facts.get("advice", ()))
        found.append(
            MemberDiagnosis(member.address, member.host, member.slot, machine, cores, at, tuple(wrong), advice)
        )
    return found


def left_out(members: list[ClusterMember]) -> dict[str, list[str]]:
    """Sentences on machines that differ from others of their kind, by host."""
    kinds = {member.slot.kind for member in members if member.slot is not None and not member.fault}
    found: dict[str, list[str]] = {}
    for kind in kinds:
        kept, sentences = compare([member for member in members if member.slot and member.slot.kind == kind])
        hosts = {member.host for member in kept}
        for member in members:
            if member.slot is not None and member.slot.kind == kind and member.host not in hosts:
                found[member.host] = [each for each in sentences if f" {member.host} " in each]
    return found


def measure_roofs(
    cluster: Cluster, members: list[ClusterMember], answers: dict[str, Any]
) -> dict[tuple[str, str], Roofs]:
    """Roofs by host and fingerprint, each measured on one slot of the host, all hosts at the same time."""
    asked = {}
    for member in members:
        facts = answers.get(member.address)
        if member.slot is None or member.fault or not isinstance(facts, dict) or "machine" not in facts:
            continue
        key = member.host, member.slot.fingerprint
        if key not in asked:
            request = SlotRequest("roofs", (Machine(**facts["machine"]),))
            asked[key] = cluster.submit(request, member.slot, [member.address], "roofs")
    found = {}
    for key, future in asked.items():
        try:
            answer = read_delivery(future.result(timeout=ROOFS_SECONDS), SlotRequest("roofs")).answer
        except Exception:  # whatever it is: the others are listed
            future.cancel()
            continue
        if isinstance(answer, Returned):
            found[key] = answer.value
    return found
