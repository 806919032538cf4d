"""Entries of a comparison: our own programs, and the installed libraries."""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from autotune.bundles.candidates import (
    choose_candidate,
    differences_now,
    newest_bundle,
    recorded_candidate,
)
from autotune.compiler.ir.module import compiler_version
from autotune.compiler.passes.pipelines import tail
from autotune.core.candidate import Candidate
from autotune.core.errors import BundleError
from autotune.core.host.extras import install_command
from autotune.core.host.machine import Machine
from autotune.core.listener import Listener
from autotune.core.partition import Partition
from autotune.core.payload import Case, Payload
from autotune.core.plugs.comparator import Comparator
from autotune.store.bundle import read_bundle
from autotune.tuning.candidates import default_candidate
from autotune.tuning.stages.slow_baseline import TimedBaseline
from autotune.worker.bench.entry import Entry
from autotune.worker.bench.kernels import copy_payload, on_threads, read_payload
from autotune.worker.loading.resolve import is_same

ON_ONE = " on one"  # suffix of the name of a single-threaded row in a multi-threaded comparison


@dataclass(frozen=True)
class Contender:
    """Specification of one row.

    Attributes:
        name: Name of the row.
        entry: Program or library to run; `None` if it cannot be run.
        version: Version of the program; a library reports its own when it is loaded.
        diagnostic: Reason why it is not run.
        error: Relative error of its times if only a part of the program is timed.
    """

    name: str
    entry: Entry | None
    version: str = ""
    diagnostic: str = ""
    error: float = 0.0


def baseline_contender(timed: TimedBaseline, payload: Payload, seed: int) -> Contender:
    """Return the row of the baseline's pass pipeline, timed whole or in part."""
    entry = Entry("baseline", payload, timed.candidate, seed) if timed.candidate is not None else None
    part = f", one in {timed.part} iterations" if timed.part > 1 else ""
    version = f"{timed.baseline.name}, {compiler_version()}{part}"
    return Contender("baseline", entry, version, timed.why_not, timed.error)


def default_contender(payload: Payload, parts: Partition, machine: Machine, seed: int) -> Contender:
    """Return the row of a payload with the default config of every task's family."""
    return Contender("default", Entry("default", payload, default_candidate(parts, machine), seed), compiler_version())


def beside_contender(payload: Payload, bundles: Path, machine: Machine, *, seed: int, listener: Listener) -> Contender:
    """Return the row of another payload, under its name."""
    candidate = choose_candidate(payload, bundles, machine, listener)
    return Contender(payload.name, Entry(payload.name, payload, candidate, seed), compiler_version())


def copy_contender(payload: Payload, machine: Machine, seed: int) -> Contender:
    """Return the row of a copy of as many bytes as the payload writes: the bandwidth bound of data movement."""
    count = sum(argument.bytes for argument in payload.outputs) // 4
    kernel = on_threads(copy_payload(count // machine.threads, machine.lanes), machine.threads)
    entry = Entry("copy", kernel, Candidate(None, tail(machine.threads)), seed)
    return Contender("copy", entry, f"{4 * count} bytes read and written once, {compiler_version()}")


def read_contender(payload: Payload, machine: Machine, seed: int) -> Contender:
    """Return the row of a read of as many bytes as the weights take: the bandwidth bound of reading them each call."""
    size = weight_bytes(payload)
    kernel = on_threads(read_payload(machine.lanes, size // machine.threads), machine.threads)
    kernel = replace(kernel, cases=tuple(Case(weight=c.weight) for c in payload.cases))
    entry = Entry("read", kernel, Candidate(None, tail(machine.threads)), seed)
    return Contender("read", entry, f"{size} bytes read once, {compiler_version()}")


def on_one_thread(contender: Contender) -> Contender:
    """Rename a row as single-threaded."""
    name = contender.name + ON_ONE
    entry = replace(contender.entry, name=name) if contender.entry is not None else None
    return replace(contender, name=name, entry=entry)


def weight_bytes(payload: Payload) -> int:
    """Return the bytes of all weights."""
    return sum(argument.bytes for argument in payload.arguments if argument.role == "weight")


def best_contender(
    payload: Payload, folder: Path | None, bundles: Path, machine: Machine, *, seed: int, listener: Listener
) -> Contender | None:
    """Return the row with the schedules of the given bundle, else of the payload's newest; `None` if there is none.

    Raises:
        BundleError: The given bundle is incomplete, edited, or of another payload.
    """
    bundle = read_bundle(folder) if folder is not None else newest_bundle(payload, bundles, listener, machine.threads)
    if bundle is None:
        listener.note(
            f"no bundle of {payload.name} is in {bundles}: there is no row 'best'; autotune tune {payload.name}"
        )
        return None
    if not is_same(bundle.payload, payload):
        raise BundleError(
            f"the bundle must be of {payload.name} as it is built now, {folder} is of {bundle.payload.name}; tune again"
        )
    listener.note(f"best: the bundle {bundle.folder}")
    for difference in differences_now(bundle, machine):
        listener.note(f"best is not as it was recorded: {difference}")
    entry = Entry("best", payload, recorded_candidate(bundle), seed)
    return Contender("best", entry, f"{compiler_version()}, {bundle.folder.name}")


def library_contender(
    comparator: Comparator, payload: Payload, seed: int, listener: Listener, threads: int = 1
) -> Contender:
    """Return the row of a library; if it is not installed, note that and return a row without an entry."""
    absent = [module for module in comparator.modules if not is_installed(module)]
    if not absent:
        return Contender(comparator.name, Entry(comparator.name, payload, comparator, seed, threads))
    why = f"{' and '.join(absent)} must be installed; {install_command(comparator.extra)}"
    listener.note(f"{comparator.name} is missing: {why}")
    return Contender(comparator.name, None, diagnostic=why)


def is_installed(module: str) -> bool:
    """Return whether a module can be found; its parent packages are imported, the module is not."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
