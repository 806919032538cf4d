"""Diagnosis of a cluster: its machines, their speed and noise, and why some cannot be used."""

from dataclasses import asdict, dataclass
from typing import Any

from autotune.contrib.cluster.cluster import Cluster, ClusterMember
from autotune.contrib.cluster.slot import Slot, SlotRequest, read_delivery
from autotune.contrib.cluster.team import compare
from autotune.core.host.machine import Machine, Roofs
from autotune.worker.isolation.answers import Returned

ROOFS_SECONDS = 180.0  # timeout for all machines, in parallel; includes waiting for a candidate that runs there


@dataclass(frozen=True)
class MemberDiagnosis:
    """Diagnosis of one Dask worker of a cluster.

    Attributes:
        address: Address on which it listens.
        host: Address of its machine.
        slot: What it announces; `None` if it announces no slot.
        machine: Description of its machine; `None` if it sent none.
        cores: CPUs that programs run on.
        roofs: Peak rates of its machine, measured now on one of its slots; `None` if the measurement failed.
        wrong: Sentences on why it is not used; empty if it is.
        advice: Sentences on how to reduce the noise of its times.
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
        """Return the diagnosis as a JSON-compatible dict."""
        return asdict(self)


def examine_cluster(cluster: Cluster) -> list[MemberDiagnosis]:
    """Examine every machine of a cluster; takes some seconds.

    Args:
        cluster: Cluster to examine.

    Raises:
        MachineError: The scheduler is gone.
    """
    members = cluster.members()
    answers = cluster.facts([member.address for member in members]) if members else {}
    roofs = measure_roofs(cluster, members, answers)
    unfit = left_out(members)
    diagnoses = []
    for member in members:
        facts = answers.get(member.address)
        facts = facts if isinstance(facts, dict) else {"why_not": f"it cannot say what it is: {facts}"}
        wrong = [facts["why_not"]] if "why_not" in facts else [member.fault] if member.fault else []
        wrong += [*facts.get("missing", ()), *unfit.get(member.host, ())]
        machine = Machine(**facts["machine"]) if "machine" in facts and not member.fault else None
        peak_rates = roofs.get((member.host, member.slot.fingerprint)) if member.slot is not None else None
        if machine is not None and peak_rates is None:
            wrong.append("its roofs could not be measured; look at its log")
        cores, advice = tuple(facts.get("cores", ())), tuple(facts.get("advice", ()))
        diagnoses.append(
            MemberDiagnosis(member.address, member.host, member.slot, machine, cores, peak_rates, tuple(wrong), advice)
        )
    return diagnoses


def left_out(members: list[ClusterMember]) -> dict[str, list[str]]:
    """Return sentences on the machines that are left out of their team, by host; see `compare`."""
    kinds = {member.slot.kind for member in members if member.slot is not None and not member.fault}
    notes: dict[str, list[str]] = {}
    for kind in kinds:
        fit, sentences = compare([member for member in members if member.slot and member.slot.kind == kind])
        hosts = {member.host for member in fit}
        for member in members:
            if member.slot is not None and member.slot.kind == kind and member.host not in hosts:
                notes[member.host] = [each for each in sentences if f" {member.host} " in each]
    return notes


def measure_roofs(
    cluster: Cluster, members: list[ClusterMember], answers: dict[str, Any]
) -> dict[tuple[str, str], Roofs]:
    """Measure peak rates by host and fingerprint, on one slot of each host, all hosts in parallel."""
    futures = {}
    for member in members:
        facts = answers.get(member.address)
        if member.slot is None or member.fault or not isinstance(facts, dict) or "machine" not in facts:
            continue
        key = member.host, member.slot.fingerprint
        if key not in futures:
            request = SlotRequest("roofs", (Machine(**facts["machine"]),))
            futures[key] = cluster.submit(request, member.slot, [member.address], "roofs")
    roofs = {}
    for key, future in futures.items():
        try:
            answer = read_delivery(future.result(timeout=ROOFS_SECONDS), SlotRequest("roofs")).answer
        except Exception:  # one machine must not keep the others from being listed
            future.cancel()
            continue
        if isinstance(answer, Returned):
            roofs[key] = answer.value
    return roofs
