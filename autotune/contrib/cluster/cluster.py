"""A cluster: machines that wait for work behind a Dask scheduler, as a tuner sees them.

Dask does what engines do: it carries jobs and answers, keeps at most one job on a slot, gives the jobs of a worker that
died to another one, and shows it all on its dashboard. Here is only the list of machines, and what is wrong with them.
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
MOST_BYTES = 1 << 20  # of a scheduler file
START_SECONDS = 120.0  # for slots of this machine: each loads MLIR and measures two kernels
WARNINGS = "PYTHONWARNINGS"
GONE = (OSError, RuntimeError, ValueError, AttributeError, CancelledError, AsyncCancelledError)  # what Dask raises then
ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[^\s:/@?#\[\]]+):([0-9]{1,5})", re.ASCII)
FORMS = "tcp://HOST:8786, tls://HOST:8786 or a scheduler file"
CLUSTER_FORMS = "tcp://HOST:8786, tls://HOST:8786, a scheduler file, or local:N"


@dataclass(frozen=True)
class ClusterMember:
    """A Dask worker of a cluster.

    Attributes:
        address: Address that it listens at.
        name: Name that it was started with.
        host: Address of its machine.
        slot: What it announces; `None` if it announces no slot.
    """

    address: str
    name: str
    host: str
    slot: Slot | None

    @property
    def fault(self) -> str:
        """Reason why it gets no candidate of this tuner; empty if it does."""
        if self.slot is None:
            return f"it announces no slot; start it by `autotune lab join`, or with --preload {PRELOAD}"
        if self.slot.software != (mine := software(self.slot.threads)):
            return f"it must have the software of the tuner, {mine}; it has {self.slot.software}; install the same"
        return ""


class Cluster(Closing):
    """A cluster that this process is connected to; use as a context manager.

    Attributes:
        where: Address of the scheduler, as it was given.
        grows: Whether machines may still join.
    """

    def __init__(self, where: str, client: Untyped, local: Untyped = None) -> None:
        """Hold what is open; see `open`.

        Args:
            where: Address of the scheduler, as it was given.
            client: Dask's client.
            local: Dask's cluster on this machine; `None` where another process started it.
        """
        self.where = where
        self.grows = local is None
        self._client = client
        self._local = local

    @classmethod
    def open(cls, where: str, threads: int = 1) -> "Cluster":
        """Connect to a scheduler, or start one with so many slots on this machine.

        Args:
            where: ``tcp://HOST:PORT``, ``tls://HOST:PORT``, the path of a scheduler file, or ``local:N``.
            threads: Threads of a slot, where slots are started here.

        Raises:
            OptionError: The text is no address.
            MachineError: Dask is not installed, there is no answer, or this machine has not as many cores.
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
        import_module("dask").config.set(QUIET_CONFIG)  # a scheduler that is started here
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
        """Let go of what is under way, and end what was started here."""
        with suppress(Exception):  # the scheduler may be gone
            self._client.close(timeout=5)
        if self._local is not None:
            with suppress(Exception):
                self._local.close(timeout=20)

    def do(self, action: Callable[[Untyped], Untyped]) -> Untyped:
        """Ask something of Dask's client.

        Raises:
            MachineError: The scheduler is gone.
        """
        try:
            return action(self._client)
        except GONE as error:
            raise self.lost(one_reason(error)) from error

    def lost(self, reason: str = "") -> MachineError:
        """What to raise when the scheduler is gone."""
        note = f" ({reason})" if reason else ""
        return MachineError(
            f"the scheduler of {self.where} must stay, it is gone{note}; start it and its workers again, then run the "
            "same command: every finished trial is kept"
        )

    def members(self) -> list[ClusterMember]:
        """Every worker that has joined, by address.

        Raises:
            MachineError: The scheduler is gone.
        """
        found = self.do(lambda client: client.scheduler_info(n_workers=-1)).get("workers")
        if found is None:  # a client that has given up knows nothing
            raise self.lost()
        return [
            ClusterMember(address, str(about["name"]), str(about["host"]), Slot.of(about["resources"]))
            for address, about in sorted(found.items())
        ]

    def facts(self, addresses: Sequence[str]) -> dict[str, Any]:
        """What slots are, by address: plain data, or what it raised where a worker could not say.

        Raises:
            MachineError: The scheduler is gone.
        """
        found = self.do(lambda client: client.run(facts, workers=list(addresses), on_error="return"))
        return dict(found)

    def submit(self, request: SlotRequest, slot: Slot, addresses: Sequence[str] = (), what: str = "measure") -> Untyped:
        """Ask a slot of a kind to do something; gives Dask's future of a pickled `Delivery`.

        Args:
            request: What to do.
            slot: A slot of the kind.
            addresses: Workers that may do it; none for all of the kind.
            what: Word that Dask's dashboard shows.

        Raises:
            MachineError: The scheduler is gone.
        """
        data = pickle.dumps(request)
        return self.do(
            lambda client: client.submit(
                perform,
                data,
                key=f"{what}-{uuid4().hex}",
                resources={slot.kind: 1},
                workers=list(addresses) or None,
                allow_other_workers=False,
                pure=False,
            )
        )


def silence_logs() -> None:
    """Print nothing of what Dask logs here: what is lost is one line, and ours.

    Dask gives levels to some loggers of its own below ``distributed``, and leaves asyncio tasks that are not awaited.
    """
    for name in ("distributed", "tornado", "asyncio", *logging.root.manager.loggerDict):
        if name.partition(".")[0] in {"distributed", "tornado", "asyncio"}:
            logging.getLogger(name).setLevel(logging.CRITICAL)


def start_resource_tracker() -> None:
    """Start the process that gives back semaphores of Python's once all that use them are gone.

    Where the tuner was killed it does so with a warning, which is on stderr long after the tuner, and no news.
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
    """Let nothing that is started here see a Ctrl-C: Dask's workers are new Pythons, each with a traceback.

    An interrupt that comes meanwhile is handled afterwards, by this thread.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def check_scheduler(name: str, where: str, forms: str = FORMS) -> None:
    """Raise unless a text says where a scheduler is: an address of Dask's, or the path of a scheduler file.

    Args:
        name: Option that says it.
        where: The text.
        forms: What it may be, in words.

    Raises:
        OptionError: The text is neither.
    """
    if "://" not in where and os.path.isfile(where):
        if not is_address(held := address_in(where)):
            raise OptionError(f"{name} must be {forms}; {where} must hold an address, got {held!r:.100}; wait for it")
    elif not is_address(where):
        raise OptionError(f"{name} must be {forms}; got {where!r:.200}")


def is_address(text: str) -> bool:
    """Whether a text is an address of Dask's."""
    found = ADDRESS.fullmatch(text)
    return found is not None and 0 < int(found[3]) < 1 << 16


def address_in(path: str) -> str:
    """What a scheduler file has as the address; empty where it is no such file, or not written yet."""
    try:
        held = json.loads(read_file(Path(path), MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return ""
    address = held.get("address") if isinstance(held, dict) else None
    return address if isinstance(address, str) else ""


def one_reason(error: BaseException) -> str:
    """What an error of Dask says, in a line."""
    return " ".join(str(error).split())[:200] or type(error).__name__
