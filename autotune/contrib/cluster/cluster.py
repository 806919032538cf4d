"""Connection of a tuner to a Dask cluster of machines that measure candidates.

Dask transports jobs and results, runs at most one job per slot, reassigns the jobs of a worker that died, and shows
all of it on its dashboard. This module lists the workers and checks whether they can be used.
"""

import json
import logging
import os
import pickle
import re
import signal
from asyncio import CancelledError as AsyncCancelledError
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any
from uuid import uuid4

from autotune.contrib.cluster.open_slot import software
from autotune.contrib.cluster.slot import PRELOAD, QUIET_CONFIG, Slot, SlotRequest, Untyped, environment, facts, perform
from autotune.core.errors import MachineError, OptionError
from autotune.core.host.closing import Closing
from autotune.core.host.cores import physical_cores
from autotune.core.host.extras import install_command
from autotune.core.host.files import read_file

LOCAL = re.compile(r"local:([1-9][0-9]{0,3})")
CONNECT_SECONDS = 20.0
MOST_BYTES = 1 << 20  # largest scheduler file that is read
START_SECONDS = 120.0  # timeout for local slots: each loads MLIR and measures two kernels
WARNINGS = "PYTHONWARNINGS"
GONE = (OSError, RuntimeError, ValueError, AttributeError, CancelledError, AsyncCancelledError)  # scheduler lost
ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[^\s:/@?#\[\]]+):([0-9]{1,5})", re.ASCII)
FORMS = "tcp://HOST:8786, tls://HOST:8786 or a scheduler file"
CLUSTER_FORMS = "tcp://HOST:8786, tls://HOST:8786, a scheduler file, or local:N"


@dataclass(frozen=True)
class ClusterMember:
    """A Dask worker of a cluster.

    Attributes:
        address: Address on which it listens.
        name: Name with which it was started.
        host: Address of its machine.
        slot: What it announces; `None` if it announces no slot.
    """

    address: str
    name: str
    host: str
    slot: Slot | None

    @property
    def fault(self) -> str:
        """Reason why this tuner sends it no candidates; empty if it can be used."""
        if self.slot is None:
            return f"it announces no slot; start it by `autotune lab join`, or with --preload {PRELOAD}"
        if self.slot.software != (mine := software(self.slot.threads)):
            return f"it must have the software of the tuner, {mine}; it has {self.slot.software}; install the same"
        return ""


class Cluster(Closing):
    """Connection of this process to a cluster; a context manager.

    Attributes:
        where: Address of the scheduler, as the user wrote it.
        grows: Whether machines may still join.
    """

    def __init__(self, where: str, client: Untyped, local: Untyped = None) -> None:
        """Wrap an open Dask client; see `open`.

        Args:
            where: Address of the scheduler, as the user wrote it.
            client: Dask client that is connected to the scheduler.
            local: Dask's `LocalCluster`; `None` if another process started the scheduler.
        """
        self.where = where
        self.grows = local is None
        self._client = client
        self._local = local

    @classmethod
    def open(cls, where: str, threads: int = 1) -> "Cluster":
        """Connect to a scheduler, or start one with N slots on this machine (``local:N``).

        Args:
            where: ``tcp://HOST:PORT``, ``tls://HOST:PORT``, the path of a scheduler file, or ``local:N``.
            threads: Threads of each slot that is started here.

        Raises:
            OptionError: The text is not an address, or this machine has too few cores.
            MachineError: Dask is not installed, or the scheduler does not answer.
        """
        local = LOCAL.fullmatch(where)
        if local is None:
            check_scheduler("--cluster", where, CLUSTER_FORMS)
        try:
            distributed = import_module("distributed")
        except ImportError as error:
            raise MachineError(
                f"--cluster needs the package distributed, which is missing; {install_command('cluster')}"
            ) from error
        silence_logs()
        import_module("dask").config.set(QUIET_CONFIG)  # also applies to a scheduler that is started here
        if local is not None:
            return cls.start(where, distributed, int(local[1]), threads)
        scheduler = {"scheduler_file": where} if "://" not in where else {"address": where}
        try:
            return cls(where, distributed.Client(**scheduler, timeout=CONNECT_SECONDS, set_as_default=False))
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise MachineError(
                f"a scheduler must answer at {where}, none does ({one_reason(error)}); start one: dask scheduler"
            ) from error

    @classmethod
    def start(cls, where: str, distributed: Untyped, slots: int, threads: int) -> "Cluster":
        """Start a scheduler and slots on this machine; they end with this process."""
        if slots * threads > (most := len(physical_cores())):
            raise OptionError(
                f"local:{slots} of {threads} thread(s) needs as many cores, this process may use {most}; "
                f"try local:{max(1, most // threads)}"
            )
        start_resource_tracker()
        with interrupts_for_this_thread():
            local = distributed.LocalCluster(
                n_workers=slots,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
                memory_limit=0,
                silence_logs=logging.CRITICAL,
                preload=[PRELOAD],
                env=environment(threads),
                security=True,  # for this process alone: others on this machine have no key
            )
        cluster = cls(where, distributed.Client(local, set_as_default=False), local)
        try:
            cluster.do(lambda client: client.wait_for_workers(slots, timeout=START_SECONDS))
        except BaseException:
            cluster.close()
            raise
        return cluster

    def close(self) -> None:
        """Close the client, and stop the scheduler and slots that this process started."""
        with suppress(Exception):  # the scheduler may be gone
            self._client.close(timeout=5)
        if self._local is not None:
            with suppress(Exception):
                self._local.close(timeout=20)

    def do(self, action: Callable[[Untyped], Untyped]) -> Untyped:
        """Call a function with the Dask client.

        Raises:
            MachineError: The scheduler is gone.
        """
        try:
            return action(self._client)
        except GONE as error:
            raise self.lost(one_reason(error)) from error

    def lost(self, reason: str = "") -> MachineError:
        """Return the error to raise when the scheduler is gone."""
        note = f" ({reason})" if reason else ""
        return MachineError(
            f"the scheduler of {self.where} must stay, it is gone{note}; start it and its workers again, then run the "
            "same command: every finished trial is kept"
        )

    def members(self) -> list[ClusterMember]:
        """Return all workers that have joined, sorted by address.

        Raises:
            MachineError: The scheduler is gone.
        """
        workers = self.do(lambda client: client.scheduler_info(n_workers=-1)).get("workers")
        if workers is None:  # a client that has lost its scheduler has no information
            raise self.lost()
        return [
            ClusterMember(address, str(about["name"]), str(about["host"]), Slot.of(about["resources"]))
            for address, about in sorted(workers.items())
        ]

    def facts(self, addresses: Sequence[str]) -> dict[str, Any]:
        """Return the descriptions of slots by worker address; an exception for a worker that could not answer.

        Raises:
            MachineError: The scheduler is gone.
        """
        answers = self.do(lambda client: client.run(facts, workers=list(addresses), on_error="return"))
        return dict(answers)

    def submit(
        self, request: SlotRequest, slot: Slot, addresses: Sequence[str] = (), label: str = "measure"
    ) -> Untyped:
        """Submit a request to a slot of a kind; return Dask's future of an encoded `Delivery`.

        Args:
            request: Request to perform.
            slot: Any slot of the wanted kind.
            addresses: Workers that may perform it; empty for all of the kind.
            label: Label of the task on Dask's dashboard.

        Raises:
            MachineError: The scheduler is gone.
        """
        data = pickle.dumps(request)
        return self.do(
            lambda client: client.submit(
                perform,
                data,
                key=f"{label}-{uuid4().hex}",
                resources={slot.kind: 1},
                workers=list(addresses) or None,
                allow_other_workers=False,
                pure=False,
            )
        )


def silence_logs() -> None:
    """Silence the logs of Dask in this process: this package reports a lost connection itself, in one line.

    Each existing logger is set, since Dask gives some loggers below ``distributed`` levels of their own. Those of
    asyncio are included because Dask leaves tasks that are not awaited.
    """
    for name in ("distributed", "tornado", "asyncio", *logging.root.manager.loggerDict):
        if name.partition(".")[0] in {"distributed", "tornado", "asyncio"}:
            logging.getLogger(name).setLevel(logging.CRITICAL)


def start_resource_tracker() -> None:
    """Start Python's resource tracker, which frees leaked semaphores, with its warnings turned off.

    After a tuner was killed, the tracker would print a warning on stderr long after the tuner has ended.
    """
    before = os.environ.get(WARNINGS)
    os.environ[WARNINGS] = "ignore:resource_tracker"
    try:
        resource_tracker.ensure_running()
    finally:
        if before is None:
            del os.environ[WARNINGS]
        else:
            os.environ[WARNINGS] = before


@contextmanager
def interrupts_for_this_thread() -> Iterator[None]:
    """Block SIGINT while processes are started, so that they inherit the mask and Ctrl-C does not reach them.

    Otherwise every Dask worker would print a traceback. A signal that arrives meanwhile is handled afterwards, by this
    thread.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def check_scheduler(name: str, where: str, forms: str = FORMS) -> None:
    """Check that a text is the address of a Dask scheduler or the path of a scheduler file.

    Args:
        name: Option whose value is checked.
        where: Value of the option.
        forms: Accepted forms, for the message.

    Raises:
        OptionError: The text is neither.
    """
    if "://" not in where and os.path.isfile(where):
        if not is_address(address := address_in(where)):
            raise OptionError(
                f"{name} must be {forms}; {where} must hold an address, got {address!r:.100}; wait for it"
            )
    elif not is_address(where):
        raise OptionError(f"{name} must be {forms}; got {where!r:.200}")


def is_address(text: str) -> bool:
    """Return whether a text is a Dask address, ``tcp://HOST:PORT`` or ``tls://HOST:PORT``."""
    match = ADDRESS.fullmatch(text)
    return match is not None and 0 < int(match[3]) < 1 << 16


def address_in(path: str) -> str:
    """Return the address in a scheduler file; empty if the file is something else or not written yet."""
    try:
        content = json.loads(read_file(Path(path), MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return ""
    address = content.get("address") if isinstance(content, dict) else None
    return address if isinstance(address, str) else ""


def one_reason(error: BaseException) -> str:
    """Return the message of a Dask error as one line of at most 200 characters."""
    return " ".join(str(error).split())[:200] or type(error).__name__
