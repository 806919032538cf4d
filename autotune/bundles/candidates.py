"""How a payload is compiled outside any search: as a bundle records it, by its newest bundle, or by default configs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autotune.compiler.codegen.openmp import usable_threads
from autotune.compiler.ir.module import compiler_version
from autotune.compiler.lowering.steps import rewrites_now
from autotune.compiler.passes.pipelines import tail, threads_of
from autotune.core.candidate import Candidate
from autotune.core.errors import BundleError
from autotune.core.host.machine import Machine, this_machine
from autotune.core.listener import SILENT, Listener
from autotune.core.payload import REFERENCE, Payload
from autotune.core.plugs.external_kernel import kernel_files
from autotune.core.plugs.family import Family
from autotune.core.precision import PRECISIONS
from autotune.core.scripts.assembly import precisions_in, write_step
from autotune.core.task import Task
from autotune.registry import is_registered, rounding_families
from autotune.store.bundle import BundleFiles, read_bundle
from autotune.store.differences import differences
from autotune.store.manifest import MANIFEST_FILE
from autotune.tuning.candidates import candidate_alone, default_candidate
from autotune.worker.isolation.sandbox import available_walls
from autotune.worker.loading.own_code import untrusted
from autotune.worker.loading.reading import partition
from autotune.worker.loading.resolve import is_same


def recorded_machine(bundle: BundleFiles) -> Machine:
    """This host with threads and pages of large arrays as when a bundle was recorded, as far as it has such."""
    was, machine = bundle.manifest.machine, this_machine()
    pages = was.pages if machine.pages == "huge" else machine.pages
    return replace(machine, pages=pages, threads=usable_threads(was.threads))


def recorded_candidate(bundle: BundleFiles) -> Candidate:
    """What a bundle compiles; on fewer threads where this host has no more.

    Raises:
        BundleError: This host may not run its code, or lacks the instructions of its products.
    """
    manifest = bundle.manifest
    pipeline, wanted = manifest.pipeline, threads_of(manifest.pipeline)
    if wanted > 1 and pipeline == tail(wanted):
        pipeline = tail(usable_threads(wanted))
    check_code(bundle)
    check_units(bundle)
    panels = tuple(manifest.panels.items())
    return Candidate(bundle.script, pipeline, bundle.tagged, panels, kernels=bundle.kernels)


def check_units(bundle: BundleFiles) -> None:
    """Refuse a bundle whose rounded products this processor lacks the instructions for.

    Raises:
        BundleError: Instructions are lacking, or weights are stored otherwise than the schedule says.
    """
    manifest = bundle.manifest
    said = precisions_in(bundle.script or "")
    for weight in manifest.weights:
        if weight.precision and weight.precision not in said:
            raise BundleError(
                f"{bundle.folder} must be as it was recorded: weight {weight.argument} is in {weight.precision}, "
                f"the schedule says {', '.join(said) or 'no precision'}; restore it"
            )
    names = (*(weight.precision for weight in manifest.weights), *said)
    schedules = {task.schedule for task in manifest.tasks.values()}
    needed = [PRECISIONS[name].lacking for name in dict.fromkeys(names) if name in PRECISIONS]
    needed += [family.lacking for family in rounding_families() if family.name in schedules]
    for lacking in filter(None, needed):
        raise BundleError(f"{bundle.folder} cannot run here: {lacking}")


def check_code(bundle: BundleFiles) -> None:
    """Refuse untrusted machine code where not all walls of the sandbox stand around the process that runs it.

    Raises:
        BundleError: A bundle holds code that was not made here, and a wall is missing.
    """
    theirs, missing = untrusted(bundle.kernels), {"landlock", "seccomp"} - set(available_walls())
    if theirs and missing:
        raise BundleError(
            f"{bundle.folder}/{kernel_files(theirs[0].tag)[0]} must run between the walls of the sandbox, as it was "
            f"not made here; {' and '.join(sorted(missing))} is missing: see `autotune doctor`, or tune it again"
        )


def differences_now(
    bundle: BundleFiles, machine: Machine, ir_sha256: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """What is not as it was when a bundle was recorded, a sentence each.

    Args:
        bundle: What was recorded.
        machine: This host.
        ir_sha256: Hashes of the IR as it is built here, where that is known.
    """
    threads = bundle.manifest.machine.threads
    steps, machine = rewrites_now(threads, bundle.manifest.rewrites), replace(machine, threads=usable_threads(threads))
    known = (why_unknown_here(bundle),) if lacks_reference(bundle) else ()
    return (*known, *differences(bundle.manifest, machine, compiler_version(), steps, ir_sha256))


def lacks_reference(bundle: BundleFiles) -> bool:
    """Return whether a bundle was verified against a reference that is not known here."""
    return bundle.manifest.numerics.oracle == REFERENCE and bundle.payload.reference is None


def why_unknown_here(bundle: BundleFiles) -> str:
    """What it means that the reference of a bundle is not known here, and the way out, a sentence."""
    if is_registered(bundle.manifest.payload):
        return "its payload is built otherwise now; tune it again"
    return (
        "what it was read from is not known here: inputs are random, its plain lowering is the oracle; "
        "`autotune replay BUNDLE --payload PAYLOAD` names it, once"
    )


def default_alone(task: Task, family: Family, machine: Machine) -> Candidate:
    """How a task alone is compiled without any search, by a family."""
    step = write_step(task, family, family.default(task, machine), machine, alone=True)
    return candidate_alone(step, machine.threads)


def choose_candidate(payload: Payload, bundles: Path, machine: Machine, listener: Listener = SILENT) -> Candidate:
    """The best known way to compile a payload: its newest bundle, else default schedules; `listener` gets which."""
    bundle = newest_bundle(payload, bundles, listener, machine.threads)
    if bundle is None:
        listener.note(f"{payload.name}: default schedules, no bundle of it is in {bundles}")
        return default_candidate(partition(payload), machine)
    listener.note(f"{payload.name}: schedules of {bundle.folder}")
    return recorded_candidate(bundle)


def newest_bundle(payload: Payload, bundles: Path, listener: Listener = SILENT, threads: int = 1) -> BundleFiles | None:
    """The bundle of a payload, of so many threads, that was written last, among the folders of `bundles`."""
    for manifest in sorted(bundles.glob(f"*/{MANIFEST_FILE}"), key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            bundle = read_bundle(manifest.parent)
        except BundleError as error:
            listener.note(f"a bundle is passed over: {error}")
            continue
        if is_same(bundle.payload, payload) and bundle.manifest.machine.threads == threads:
            return bundle
    return None
