"""Fingerprints to detect duplicates: candidates with the same IR, or the same machine code, as an earlier one."""

import hashlib
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from mlir import ir
from mlir.execution_engine import ExecutionEngine

from autotune.compiler.codegen.object_code import object_code
from autotune.core.errors import DuplicateError
from autotune.core.plugs.external_kernel import ExternalKernel


@dataclass
class Fingerprints:
    """Recorder of the fingerprints of one candidate during its compilation.

    Attributes:
        known: Fingerprints of earlier candidates.
        scheduled: Fingerprint of the IR after the schedule; empty before it is taken.
        compiled: Fingerprint of the machine code; empty before it is taken.
    """

    known: AbstractSet[str] = field(default_factory=frozenset)
    scheduled: str = ""
    compiled: str = ""

    def take_schedule(self, module: ir.Module, kernels: Sequence[ExternalKernel] = ()) -> None:
        """Record the fingerprint of a scheduled module and of the external kernels that it calls.

        Raises:
            DuplicateError: An earlier candidate has the same fingerprint.
        """
        self.scheduled = fingerprint(str(module).encode() + code_of(kernels))
        if self.scheduled in self.known:
            raise DuplicateError("becomes the same IR as an earlier trial")

    def take_code(self, engine: ExecutionEngine, kernels: Sequence[ExternalKernel] = ()) -> None:
        """Record the fingerprint of the machine code, external kernels included.

        Raises:
            DuplicateError: An earlier candidate has the same fingerprint.
        """
        self.compiled = fingerprint(object_code(engine) + code_of(kernels))
        if self.compiled in self.known:
            raise DuplicateError("becomes the same machine code as an earlier trial")


def code_of(kernels: Sequence[ExternalKernel]) -> bytes:
    """Return the concatenated code of all kernels."""
    return b"".join(kernel.made.code for kernel in kernels)


def fingerprint(data: bytes) -> str:
    """Return the first 64 bits of the SHA-256 of `data`, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()[:16]
