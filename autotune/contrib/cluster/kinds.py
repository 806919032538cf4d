"""Kinds of machines in a cluster, and the team of the kind for which a sweep searches."""

import time
from collections.abc import Callable, Sequence

from autotune.contrib.cluster.cluster import Cluster, ClusterMember
from autotune.contrib.cluster.slot import Slot
from autotune.contrib.cluster.team import Team
from autotune.core.errors import MachineError, OptionError
from autotune.core.host.machine import Machine

WAIT_SECONDS = 60.0  # wait for the first machine; joining one takes about ten seconds
LOOK_SECONDS = 1.0
ALL = "all"


def open_team(cluster: Cluster, wanted: str, threads: int, seconds: float, note: Callable[[str], None]) -> Team:
    """Return the team of one kind of machine; wait up to `WAIT_SECONDS` for the first machine to join.

    Args:
        cluster: Cluster of the machines.
        wanted: Prefix of the fingerprint of the machines; may be empty if all machines are of one kind.
        threads: Threads that programs may use.
        seconds: Seconds that one candidate may take.
        note: Called with notes, a sentence each.

    Raises:
        OptionError: No kind matches `wanted`, or several do.
        MachineError: No usable machine joined.
    """
    slots = kinds_of(cluster, threads, note)
    named = [slot for slot in slots if slot.fingerprint.startswith(wanted)]
    known = ", ".join(slot.fingerprint for slot in slots)
    if not named:
        raise OptionError(f"--for must begin the fingerprint of a machine in the cluster: {known}; got {wanted!r:.100}")
    if len(named) > 1:
        raise OptionError(f"one sweep is for one kind of machine, {len(named)} are there; pass --for: {known}; or all")
    (slot,) = named
    return Team(cluster, slot, machine_of(cluster, slot), seconds, note)


def kinds_of(cluster: Cluster, threads: int, note: Callable[[str], None]) -> list[Slot]:
    """Return one slot of each kind of usable machine, sorted by fingerprint; wait up to `WAIT_SECONDS` for the first.

    Raises:
        MachineError: No usable machine joined.
    """
    since, is_waiting = time.monotonic(), False
    while True:
        members = cluster.members()
        fit = {m.slot.fingerprint: m.slot for m in members if m.slot and not m.fault and m.slot.threads == threads}
        if fit:
            for member in members:
                if member.fault:
                    note(f"worker {member.address} is not used: {member.fault}")
            return [fit[fingerprint] for fingerprint in sorted(fit)]
        if not cluster.grows or time.monotonic() - since > WAIT_SECONDS:
            raise MachineError(nobody(cluster, members, threads))
        if not is_waiting:
            note(f"no machine of {cluster.where} can be used yet; waiting {WAIT_SECONDS:.0f} s for one to join")
            is_waiting = True
        time.sleep(LOOK_SECONDS)


def nobody(cluster: Cluster, members: Sequence[ClusterMember], threads: int) -> str:
    """Return the message if no machine can be used: one line, with the first reason."""
    option = f" --threads {threads}" if threads > 1 else ""
    remedy = f"join one by `autotune lab join {cluster.where}{option}`"
    if not members:
        return f"a machine must be in the cluster, none joined; {remedy}"
    for member in members:
        if member.fault:
            facts = cluster.facts([member.address]).get(member.address) if member.slot is None else None
            why = facts["why_not"] if isinstance(facts, dict) and "why_not" in facts else member.fault
            return (
                f"a machine of the cluster must be fit to be used, none of {len(members)} is; {member.address}: {why}"
            )
    return f"a slot must have {threads} thread(s), none of {len(members)} has; {remedy}"


def machine_of(cluster: Cluster, slot: Slot) -> Machine:
    """Return the machine of a kind of slot, as one of its workers describes it.

    Raises:
        MachineError: No worker describes it.
    """
    addresses = [member.address for member in cluster.members() if member.slot and member.slot.kind == slot.kind]
    for facts in cluster.facts(addresses).values():
        if isinstance(facts, dict) and "machine" in facts:
            return Machine(**facts["machine"])
    raise MachineError(f"machines of kind {slot.fingerprint} must say what they are; none does, ask its logs")
