"""Programs of regions, loaded from the cache or compiled."""

import hashlib
from collections.abc import Sequence

import torch

from autotune.compiler.ir.module import compiler_version
from autotune.contrib.torch_backend.cached_programs import (
    FORMAT,
    CachedProgram,
    read_program,
    read_refusal,
    record_refusal,
    refusal_path,
    wrong_path,
)
from autotune.contrib.torch_backend.options import BackendOptions
from autotune.contrib.torch_backend.regions import GraphRegion, allowed_error
from autotune.core.errors import RefusedModelError
from autotune.core.host.extras import DISTRIBUTION, version_of
from autotune.core.host.machine import this_machine
from autotune.core.host.sources import hash_sources
from autotune.registry import plugins_of_others


def key_of(region: GraphRegion, constants: Sequence[torch.Tensor], threads: int) -> str:
    """Return the cache key of a region's program: a hash of everything that determines it except its schedules."""
    machine = this_machine(threads)
    digest = hashlib.sha256()
    versions = [f"{name} {version_of(name)}" for name in (DISTRIBUTION, "torch", "torch-mlir")]
    versions.append(f"format {FORMAT}")  # refusals are cached under the same key
    facts = [machine.fingerprint, machine.pages, compiler_version(), str(threads), *plugins_of_others(), *versions]
    for part in (hash_sources(), region.text(), *facts):
        digest.update(f"{len(part)}\0{part}".encode())
    for constant in constants:
        digest.update(repr((constant.dtype, tuple(constant.shape))).encode())
        digest.update(bytes(constant.detach().contiguous().reshape(-1).view(torch.uint8).numpy()))
    return digest.hexdigest()


def program_of(region: GraphRegion, tensors: Sequence[torch.Tensor | None], options: BackendOptions) -> CachedProgram:
    """Return the program of a region, loaded from the cache or compiled.

    Args:
        region: The region.
        tensors: A tensor for each placeholder, with which the import is checked; `None` for varying inputs.
        options: Options of the backend.

    Raises:
        RefusedModelError: The region cannot be imported, or gave other results than PyTorch, now or when it was tried
            before; the error names the op that is not covered.
        AutotuneError: The program does not compile, or the search fails.
    """
    pairs = zip(tensors, region.kinds, strict=True)
    constants = [tensor for tensor, kind in pairs if kind == "constant" and tensor is not None]
    key = key_of(region, constants, options.threads)
    folder = options.folder / key
    cached = read_program(folder)
    tolerance = allowed_error(options.error, region.results)
    if cached is not None and options.trials <= cached.program.searched and cached.program.error <= tolerance:
        return cached
    refusal = refusal_path(folder)
    if reason := read_refusal(refusal) or read_refusal(wrong_path(folder, options.trials, tolerance)):
        raise RefusedModelError(reason)
    from autotune.contrib.torch_backend.region_compiler import make_program  # heavy, and needed only here

    try:
        return make_program(region, tensors, options, key)
    except RefusedModelError as error:
        record_refusal(refusal, str(error))
        raise
