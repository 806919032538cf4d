"""Registry of external machine code generated under this user account, to tell it from untrusted code in bundles."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from autotune.core.errors import BundleError
from autotune.core.plugs.external_kernel import ExternalKernel
from autotune.worker.loading.paths import cache


def remember_kernels(kernels: Sequence[ExternalKernel]) -> None:
    """Register code as generated here; if the registry is not writable, the code counts as untrusted."""
    with suppress(OSError):
        for kernel in kernels:
            path = made_here(kernel)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


def untrusted(kernels: Sequence[ExternalKernel]) -> tuple[ExternalKernel, ...]:
    """Return the kernels that were not generated under this account."""
    return tuple(kernel for kernel in kernels if not made_here(kernel).exists())


def check_own_code(kernels: Sequence[ExternalKernel]) -> None:
    """Refuse to run untrusted machine code in the caller's process.

    Raises:
        BundleError: A kernel was not generated under this account.
    """
    for kernel in untrusted(kernels):
        raise BundleError(
            f"code of {kernel.tag} by back end {kernel.backend} must be made here to run in your own process, it was "
            "not; `autotune replay` runs it in the sandbox; tune it again to use it here"
        )


def made_here(kernel: ExternalKernel) -> Path:
    """Return the path of the marker file that exists if the kernel was generated under this account."""
    return cache() / "kernels" / kernel.sha256
