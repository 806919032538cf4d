"""What verbs share that work with the machines of a cluster."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from autotune.cli.say import complain

if TYPE_CHECKING:
    from autotune.worker.remote.slot import Slot
    from autotune.worker.remote.team import Team


@contextmanager
def open_machines(cluster: str, kind: str, threads: int, timeout: float) -> "Iterator[Team | None]":
    """The machines of a cluster that candidates are for.

    Args:
        cluster: Address of the cluster; empty for this machine.
        kind: Beginning of the machines' fingerprint; empty where all are of one kind; ``all`` for a sweep of each.
        threads: Threads that programs may use.
        timeout: Seconds that one candidate may take.

    Yields:
        The team of that kind; `None` for this machine.

    Raises:
        typer.Exit: Sweeps of all kinds are done, by processes of their own.
    """
    if not cluster:
        yield None
        return
    from autotune.worker.remote.cluster import Cluster
    from autotune.worker.remote.kinds import ALL, kinds_of, open_team

    with Cluster.open(cluster, threads) as opened:
        if kind == ALL:
            found = kinds_of(opened, threads, complain)
            if len(found) > 1:
                raise typer.Exit(sweep_each(found, sys.argv))
        team = open_team(opened, "" if kind == ALL else kind, threads, timeout, complain)
        complain(f"{team.count()} slot(s) of kind {team.slot.fingerprint}, {team.machine.cpu}")
        yield team


def sweep_each(slots: "Sequence[Slot]", command: Sequence[str]) -> int:
    """Run a command once for each kind of machine, all at once; the worst of their exit codes.

    Args:
        slots: A slot of each kind.
        command: The command, of which ``--for all`` becomes the fingerprint.
    """
    sweeps = []
    for slot in slots:
        pairs = zip(["", *command[:-1]], command, strict=True)
        words = [slot.fingerprint if before == "--for" else word for before, word in pairs]
        words = [f"--for={slot.fingerprint}" if word.startswith("--for=") else word for word in words]
        complain(f"a sweep for {slot.fingerprint} begins")
        sweeps.append(subprocess.Popen([sys.executable, *words]))
    return max(sweep.wait() for sweep in sweeps)
