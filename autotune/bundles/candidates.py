"""How a payload is compiled outside any search: as a bundle records it, by its newest bundle, or by default configs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autotune.compiler.lower import TAIL
from autotune.compiler.module import compiler_version
from autotune.compiler.rewrites import REWRITES
from autotune.compiler.tasks.partition import Partition
from autotune.core.candidate import Candidate
from autotune.core.errors import BundleError
from autotune.core.listener import SILENT, Listener
from autotune.core.machine import Machine
from autotune.core.payload import Payload
from autotune.core.script import assemble, panels_of, write_step
from autotune.registry import family_for
from autotune.store.bundle import BundleFiles, read_bundle
from autotune.store.differences import differences
from autotune.store.manifest import MANIFEST_FILE
from autotune.worker.reading import partition


def recorded_pages(bundle: BundleFiles, machine: Machine) -> Machine:
    """This host with large arrays on pages as when a bundle was recorded, if it has such."""
    return replace(machine, pages=bundle.manifest.machine.pages) if machine.pages == "huge" else machine


def recorded_candidate(bundle: BundleFiles) -> Candidate:
    """What a bundle compiles."""
    manifest = bundle.manifest
    return Candidate(bundle.script, manifest.pipeline, bundle.tagged, tuple(manifest.panels.items()))


def differences_now(
    bundle: BundleFiles, machine: Machine, ir_sha256: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """What is not as it was when a bundle was recorded, a sentence each.

    Args:
        bundle: What was recorded.
        machine: This host.
        ir_sha256: Hashes of the IR as it is built here, where that is known.
    """
    steps = tuple(map(str, REWRITES))
    return tuple(differences(bundle.manifest, machine, compiler_version(), steps, ir_sha256))


def default_candidate(parts: Partition, machine: Machine) -> Candidate:
    """How a payload is compiled without any search."""
    steps = []
    for task in parts.tasks:
        family = family_for(task)
        if family is not None:
            steps.append(write_step(task, family, family.default(task, machine), machine))
    return Candidate(assemble(steps), TAIL, parts.payload.text, panels_of(steps))


def choose_candidate(payload: Payload, bundles: Path, machine: Machine, listener: Listener = SILENT) -> Candidate:
    """How a payload is compiled best: by its newest bundle, or else by default schedules; `listener` is told which."""
    bundle = newest_bundle(payload, bundles, listener)
    if bundle is None:
        listener.note(f"{payload.name}: default schedules, no bundle of it is in {bundles}")
        return default_candidate(partition(payload), machine)
    listener.note(f"{payload.name}: schedules of {bundle.folder}")
    return recorded_candidate(bundle)


def newest_bundle(payload: Payload, bundles: Path, listener: Listener = SILENT) -> BundleFiles | None:
    """The bundle of a payload that was written last, among the folders of `bundles`."""
    for manifest in sorted(bundles.glob(f"*/{MANIFEST_FILE}"), key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            bundle = read_bundle(manifest.parent)
        except BundleError as error:
            listener.note(f"a bundle is passed over: {error}")
            continue
        if is_of(bundle, payload):
            return bundle
    return None


def is_of(bundle: BundleFiles, payload: Payload) -> bool:
    """Whether a bundle's schedules are for this payload: the same text, the same roles of its arguments."""
    return bundle.payload.text == payload.text and bundle.payload.arguments == payload.arguments
