"""Candidates outside of a search: as recorded in a bundle, from a payload's newest bundle, or with default configs."""

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
from autotune.worker.isolation.sandbox import available_mechanisms
from autotune.worker.loading.own_code import untrusted
from autotune.worker.loading.reading import partition
from autotune.worker.loading.resolve import is_same


def recorded_machine(bundle: BundleFiles) -> Machine:
    """Return this host with the threads and page size that a bundle was recorded with, as far as available."""
    was, machine = bundle.manifest.machine, this_machine()
    pages = was.pages if machine.pages == "huge" else machine.pages
    return replace(machine, pages=pages, threads=usable_threads(was.threads))


def recorded_candidate(bundle: BundleFiles) -> Candidate:
    """Return the candidate of a bundle, with fewer threads if this host has fewer.

    Raises:
        BundleError: This host must not run its external code, or lacks instructions that its schedules need.
    """
    manifest = bundle.manifest
    pipeline, threads = manifest.pipeline, threads_of(manifest.pipeline)
    if threads > 1 and pipeline == tail(threads):
        pipeline = tail(usable_threads(threads))
    check_code(bundle)
    check_units(bundle)
    panels = tuple(manifest.panels.items())
    return Candidate(bundle.script, pipeline, bundle.tagged, panels, kernels=bundle.kernels)


def check_units(bundle: BundleFiles) -> None:
    """Refuse a bundle with rounded operands if this processor lacks the dot-product instructions.

    Raises:
        BundleError: Instructions are missing, or the precision of a stored weight is not in the schedule.
    """
    manifest = bundle.manifest
    precisions = precisions_in(bundle.script or "")
    for weight in manifest.weights:
        if weight.precision and weight.precision not in precisions:
            raise BundleError(
                f"{bundle.folder} must be as it was recorded: weight {weight.argument} is in {weight.precision}, "
                f"the schedule says {', '.join(precisions) or 'no precision'}; restore it"
            )
    names = (*(weight.precision for weight in manifest.weights), *precisions)
    schedules = {task.schedule for task in manifest.tasks.values()}
    needed = [PRECISIONS[name].lacking for name in dict.fromkeys(names) if name in PRECISIONS]
    needed += [family.lacking for family in rounding_families() if family.name in schedules]
    for lacking in filter(None, needed):
        raise BundleError(f"{bundle.folder} cannot run here: {lacking}")


def check_code(bundle: BundleFiles) -> None:
    """Refuse untrusted machine code unless all mechanisms of the sandbox are available to confine it.

    Raises:
        BundleError: The bundle has code that was not generated here, and part of the sandbox is missing.
    """
    foreign, missing = untrusted(bundle.kernels), {"landlock", "seccomp"} - set(available_mechanisms())
    if foreign and missing:
        raise BundleError(
            f"{bundle.folder}/{kernel_files(foreign[0].tag)[0]} must run in a sandbox of Landlock and seccomp, "
            f"as it was not made here; {' and '.join(sorted(missing))} is missing: see `autotune doctor`, or "
            "tune it again"
        )


def differences_now(
    bundle: BundleFiles, machine: Machine, ir_sha256: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Describe the differences between a bundle's recording and the current environment, one sentence each.

    Args:
        bundle: The bundle.
        machine: This host.
        ir_sha256: Hashes of the IR built on this host; `None` if unknown.
    """
    threads = bundle.manifest.machine.threads
    steps, machine = rewrites_now(threads, bundle.manifest.rewrites), replace(machine, threads=usable_threads(threads))
    known = (why_unknown_here(bundle),) if lacks_reference(bundle) else ()
    return (*known, *differences(bundle.manifest, machine, compiler_version(), steps, ir_sha256))


def lacks_reference(bundle: BundleFiles) -> bool:
    """Return whether a bundle was verified against a reference that is not known here."""
    return bundle.manifest.numerics.oracle == REFERENCE and bundle.payload.reference is None


def why_unknown_here(bundle: BundleFiles) -> str:
    """Return a sentence on the effect of a bundle's reference being unknown here, and the remedy."""
    if is_registered(bundle.manifest.payload):
        return "its payload is built otherwise now; tune it again"
    return (
        "what it was read from is not known here: inputs are random, its plain lowering is the oracle; "
        "`autotune replay BUNDLE --payload PAYLOAD` names it, once"
    )


def default_alone(task: Task, family: Family, machine: Machine) -> Candidate:
    """Return the candidate of a single task with a family's default config."""
    step = write_step(task, family, family.default(task, machine), machine, alone=True)
    return candidate_alone(step, machine.threads)


def choose_candidate(payload: Payload, bundles: Path, machine: Machine, listener: Listener = SILENT) -> Candidate:
    """Return the best known candidate of a payload: its newest bundle's, else default schedules; note the choice."""
    bundle = newest_bundle(payload, bundles, listener, machine.threads)
    if bundle is None:
        listener.note(f"{payload.name}: default schedules, no bundle of it is in {bundles}")
        return default_candidate(partition(payload), machine)
    listener.note(f"{payload.name}: schedules of {bundle.folder}")
    return recorded_candidate(bundle)


def newest_bundle(payload: Payload, bundles: Path, listener: Listener = SILENT, threads: int = 1) -> BundleFiles | None:
    """Return the most recent bundle of a payload and number of threads in the folder `bundles`; `None` if none."""
    for manifest in sorted(bundles.glob(f"*/{MANIFEST_FILE}"), key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            bundle = read_bundle(manifest.parent)
        except BundleError as error:
            listener.note(f"a bundle is passed over: {error}")
            continue
        if is_same(bundle.payload, payload) and bundle.manifest.machine.threads == threads:
            return bundle
    return None
