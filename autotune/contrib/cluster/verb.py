"""`autotune lab join`: let this machine measure for a cluster."""

from typing import Annotated

import typer

from autotune.cli.options import Threads, whole
from autotune.core.errors import MachineError
from autotune.core.host.cores import MOST_THREADS
from autotune.core.options import check_whole
from autotune.plugins import LAB, Verb


def join(
    cluster: Annotated[str, typer.Argument(metavar="ADDRESS", help="tcp://HOST:8786, or a scheduler file.")],
    slots: Annotated[int, typer.Option(parser=whole, help="Slots of this machine, with cores of their own.")] = 1,
    threads: Threads = 1,
) -> None:
    """Let this machine measure for a cluster, until Ctrl-C.

    It is Dask's own `dask worker ADDRESS --nworkers SLOTS --nthreads 1 --preload autotune.contrib.cluster.preload`:
    give that any other option of Dask, and DASK_AUTOTUNE__THREADS in the environment for slots of several threads.

    Example: autotune lab join tcp://192.168.0.2:8786
    """
    from importlib.util import find_spec

    from autotune.contrib.cluster.cluster import Cluster, check_scheduler
    from autotune.contrib.cluster.joining import run_slots
    from autotune.contrib.cluster.slot import PRELOAD, environment
    from autotune.core.host.extras import install_command

    check_whole("slots", slots, 1, MOST_THREADS)
    check_scheduler("ADDRESS", cluster)
    if find_spec("distributed") is None:
        raise MachineError(f"join needs the package distributed, which is missing; {install_command('cluster')}")
    Cluster.open(cluster).close()  # where there is no answer Dask's worker says so in thirty lines
    scheduler = [cluster] if "://" in cluster else ["--scheduler-file", cluster]
    options = ["--nworkers", str(slots), "--nthreads", "1", "--memory-limit", "0", "--no-dashboard"]
    if code := run_slots([*scheduler, *options, "--preload", PRELOAD], environment(threads)):
        raise typer.Exit(code if code > 0 else 1)


VERB = Verb(join, "Machines", "Let this machine measure for a cluster.", after="doctor", group=LAB)
