"""Dask preload module that opens a slot in a worker.

    dask worker ADDRESS --nthreads 1 --preload autotune.contrib.cluster.preload

Dask calls `dask_setup` before the worker joins its scheduler and `dask_teardown` when it leaves. A worker whose slot
cannot be opened joins nevertheless, so that `autotune doctor --cluster` can report the reason. The number of threads of
a slot is the Dask setting ``autotune.threads``: ``DASK_AUTOTUNE__THREADS=2`` in the environment.
"""

import asyncio
import logging

from autotune.contrib.cluster.open_slot import open_slot
from autotune.contrib.cluster.slot import HERE, THREADS_SETTING, Untyped
from autotune.core.errors import AutotuneError

LOG = logging.getLogger("distributed.worker")  # users look for messages of a worker in this log


async def dask_setup(worker: Untyped) -> None:
    """Open this process's slot and add its description to the resources of a Dask worker.

    Args:
        worker: Dask's worker, not yet joined.
    """
    import dask.config

    HERE.address = worker.address
    try:
        HERE.open = await asyncio.to_thread(open_slot, dask.config.get(THREADS_SETTING, 1))
    except AutotuneError as error:
        HERE.why_not = str(error)
        LOG.error("autotune: no slot: %s", error)
        return
    for resources in (worker.state.total_resources, worker.state.available_resources):
        resources.update(HERE.open.slot.resources)
    LOG.info("autotune: slot of %s on cores %s", HERE.open.slot.kind, HERE.open.cores)


async def dask_teardown(worker: Untyped) -> None:
    """Close this process's slot.

    Args:
        worker: Dask's worker, about to leave.
    """
    slot, HERE.open, HERE.why_not = HERE.open, None, f"{worker.address} is leaving"
    if slot is not None:
        await asyncio.to_thread(slot.close)
