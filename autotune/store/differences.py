"""Differences between the environment in which a bundle was recorded and the current one, with their effects."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autotune.core.host.machine import Machine
from autotune.core.host.matrix_unit import why_no_tiles
from autotune.store.manifest import Manifest

TILED = {"amx": "AMX's", "emulated": "emulated"}
RETUNE = "`autotune replay BUNDLE --retune` searches again from its configs"


def differences(
    manifest: Manifest,
    machine: Machine,
    compiler: str,
    rewrites: Sequence[str],
    ir_sha256: Mapping[str, str] | None = None,
) -> list[str]:
    """Describe the differences between the recording and the current environment, one sentence each.

    Args:
        manifest: Manifest of the recording.
        machine: This host.
        compiler: Provider and version of MLIR on this host.
        rewrites: Rewrites of this project as currently installed, as ``name@version``.
        ir_sha256: Hashes of the IR built on this host, after the script and after the pipeline; `None` if unknown.
    """
    return [
        *of_compiler(manifest, compiler, ir_sha256),
        *of_rewrites(manifest.rewrites, rewrites),
        *of_machine(manifest.machine, machine),
    ]


def of_compiler(manifest: Manifest, compiler: str, ir_sha256: Mapping[str, str] | None) -> list[str]:
    """Describe differences of the compiler, and of the IR that it generates from the script."""
    lines = []
    recorded = manifest.versions.compiler
    if recorded != compiler:
        lines.append(f"compiler was {recorded}, is {compiler}: passes and code generation may differ")
    if ir_sha256 is None:
        return lines
    culprit = "the other compiler's passes" if recorded != compiler else "passes of this package have changed"
    if ir_sha256["transformed"] != manifest.ir_sha256["transformed"]:
        lines.append(f"the script gives other IR than it did ({culprit}): another program is timed; {RETUNE}")
    elif ir_sha256["lowered"] != manifest.ir_sha256["lowered"]:
        lines.append(f"the script gives the same IR, the pipeline after it another ({culprit}): loops are as recorded")
    elif lines:
        lines.append("the IR that LLVM gets is the same: only its code generation can differ")
    return lines


def of_rewrites(were: Sequence[str], are: Sequence[str]) -> list[str]:
    """Describe differences of this project's rewrites; none if the bundle is too old to record them."""
    then, now = ([step for step in steps if step not in others] for steps, others in ((were, are), (are, were)))
    if not were or not (then or now):
        return []
    gone, new = (", ".join(steps) or "none" for steps in (then, now))
    return [f"this project's rewrites had {gone}, have {new}: another program may be timed; {RETUNE}"]


def of_machine(was: Machine, now: Machine) -> list[str]:
    """Describe differences of the machine: pages, threads, model, ISA, tiles, vectors, registers and caches."""
    lines = []
    if was.pages != now.pages:
        lines.append(f"large arrays lay on {was.pages} pages, lie on {now.pages} ones: weights may load otherwise")
    if was.threads != now.threads:
        lines.append(f"threads were {was.threads}, are {now.threads}: cores or an OpenMP runtime are missing here")
    if replace(was, threads=1).fingerprint == replace(now, threads=1).fingerprint:
        return lines
    if replace(was, threads=1, tiles=now.tiles).fingerprint != replace(now, threads=1).fingerprint:
        change = f"machine was {was.cpu}, is {now.cpu}" if was.cpu != now.cpu else f"machine was another {was.cpu}"
        lines += [f"{change}: times are not comparable, speed-ups only roughly"]
    if was.isa != now.isa:
        lines.append(f"ISA was {was.isa}, is {now.isa}: LLVM compiles the same vectors to other instructions")
    if was.tiles != now.tiles and was.tiles:
        here = {"": "are missing", "emulated": "are emulated"}.get(now.tiles, "are the unit's")
        lines.append(f"tiles were {TILED[was.tiles]}, {here} here: {why_no_tiles() or 'only the times differ'}")
    if was.vector_bits != now.vector_bits:
        effect = "are split into several" if was.vector_bits > now.vector_bits else "fill only a part of a register"
        lines.append(f"vectors had {was.vector_bits} bits, have {now.vector_bits}: the script's {effect}; {RETUNE}")
    if was.vector_registers > now.vector_registers:
        counts = f"were {was.vector_registers}, are {now.vector_registers}"
        lines.append(f"vector registers {counts}: accumulators may spill; {RETUNE}")
    for level in ("l1", "l2", "l3"):
        before, here = getattr(was, f"{level}_bytes"), getattr(now, f"{level}_bytes")
        if before != here:
            fits = "blocks may no longer fit" if here < before else "larger blocks may be better"
            lines.append(f"{level.upper()} was {before >> 10} KiB, is {here >> 10} KiB: {fits}")
    return lines
