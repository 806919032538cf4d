"""Machine code in bundles: what was made on this account is distinguished from untrusted code."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from autotune.core.errors import BundleError
from autotune.core.plugs.external_kernel import ExternalKernel
from autotune.worker.loading.paths import cache


def remember_kernels(kernels: Sequence[ExternalKernel]) -> None:
    """Record that code was made here; where nothing can be written, it counts as untrusted."""
    with suppress(OSError):
        for kernel in kernels:
            path = made_here(kernel)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


def untrusted(kernels: Sequence[ExternalKernel]) -> tuple[ExternalKernel, ...]:
    """Code that was not made on this account."""
    return tuple(kernel for kernel in kernels if not made_here(kernel).exists())


def check_own_code(kernels: Sequence[ExternalKernel]) -> None:
    """Refuse untrusted machine code in one's own process.

    Raises:
        BundleError: Code was not made on this account.
    """
    for kernel in untrusted(kernels):
        raise BundleError(
            f"code of {kernel.tag} by back end {kernel.backend} must be made here to run in your own process, it was "
            "not; `autotune replay` runs it in the sandbox; tune it again to use it here"
        )


def made_here(kernel: ExternalKernel) -> Path:
    """A file that is there if the code was made on this account."""
    return cache() / "kernels" / kernel.sha256
