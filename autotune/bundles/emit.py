"""Emission of a bundle's compiled program as a file, with a C header."""

from pathlib import Path

from autotune.bundles.c_header import c_header
from autotune.bundles.candidates import recorded_candidate, recorded_machine
from autotune.bundles.declared import named_arguments, named_weights
from autotune.compiler.codegen.object_code import disassemble
from autotune.compiler.lowering.emit import Emission, emit_program
from autotune.core.c_names import c_name
from autotune.core.candidate import Claim
from autotune.core.errors import BundleError
from autotune.core.evaluator import Evaluation
from autotune.core.host.whole_file import write_file
from autotune.store.bundle import read_bundle
from autotune.worker.isolation.limits import MODEL_SECONDS
from autotune.worker.worker import Worker

KINDS = {"object": ".o", "llvm": ".ll", "asm": ".s"}


def emit_bundle(folder: Path, kind: str, output: Path) -> list[Path]:
    """Write a bundle's program and its header.

    Args:
        folder: Folder of the bundle.
        kind: Kind of file: ``object``, ``llvm`` or ``asm``.
        output: Folder to write to.

    Returns:
        Paths of the written files.

    Raises:
        BundleError: The bundle is refused, or does not compile here.
    """
    check_kind(kind)
    bundle = read_bundle(folder)
    output.mkdir(parents=True, exist_ok=True)
    stem = c_name(bundle.payload.entry)
    path, header = output / f"{stem}{KINDS[kind]}", output / f"{stem}.h"
    threads = recorded_machine(bundle).threads
    with Worker(MODEL_SECONDS, threads=threads) as worker:
        claim = Claim(bundle.payload, recorded_candidate(bundle))
        emitted = worker.call(emit_program, Emission(claim, "llvm" if kind == "llvm" else "object"))
    if isinstance(emitted, Evaluation):
        raise BundleError(f"{folder} must compile here, it was {emitted.outcome}: {emitted.diagnostic}")
    write_file(path, disassemble(emitted.data, bundle.payload.entry).encode() if kind == "asm" else emitted.data)
    about = f"{bundle.payload.name}, compiled by mlir-schedule-autotune"
    for kernel in bundle.kernels:
        write_file(output / f"{kernel.symbol}.o", kernel.made.code)
    write_file(
        header,
        c_header(
            bundle.payload.entry,
            named_arguments(bundle.payload),
            named_weights(bundle.payload, bundle.manifest.weights),
            about,
            emitted,
        ),
    )
    return [path, *(output / f"{kernel.symbol}.o" for kernel in bundle.kernels), header]


def check_kind(kind: str) -> None:
    """Refuse an unknown kind of file.

    Raises:
        BundleError: The kind is not in `KINDS`.
    """
    if kind not in KINDS:
        raise BundleError(f"--emit must be one of {', '.join(KINDS)}; got {kind!r}")
