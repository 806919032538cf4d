"""`Comparator`: interface of a library to compare with, which prepares a payload once, and computes it in every call.

Comparators are plug-ins of the entry-point group ``autotune.comparators``, by name. Their modules import the library
only in `prepare`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from autotune.core.payload import Array, Payload


@dataclass(frozen=True)
class Prepared:
    """A payload prepared by a library, with its inputs and weights.

    Attributes:
        call: Function that is timed; returns the outputs in the library's own form.
        outputs: Function that converts the result of a call to arrays, in the order of the payload's outputs; not
            timed.
        how: Mode in which the library runs the payload, where it has several, such as ``torch.compile``; shown with
            the version.
    """

    call: Callable[[], Any]
    outputs: Callable[[Any], tuple[Array, ...]]
    how: str = ""

    def run(self, calls: int) -> None:
        """Call `calls` times."""
        call = self.call
        for _ in range(calls):
            call()


class Comparator(Protocol):
    """A library to compare with. Instances can be pickled: each is sent to a process of its own, which times it.

    Neither MLIR nor anything that imports it is loaded there. A library with several ways to run a payload also
    implements `Variants`.
    """

    @property
    def name(self) -> str:
        """Name of the library for users and records."""
        ...

    @property
    def modules(self) -> tuple[str, ...]:
        """Python modules that must be installed."""
        ...

    @property
    def extra(self) -> str:
        """Extra of this distribution that installs them."""
        ...

    def version(self) -> str:
        """Return the library's version and the kind of core that its kernels are chosen for."""
        ...

    def prepare(self, payload: Payload, inputs: Mapping[str, Array]) -> Prepared:
        """Build a program for the payload, with a thread on each core of the process; includes conversion and packing.

        Args:
            payload: Payload to compute: its `graph` is to be translated; its text is available, too.
            inputs: Every argument that is not an output, by name. They do not change while calls are timed.

        Raises:
            ComparatorError: The library cannot compute this payload.
        """
        ...


@runtime_checkable
class RoundingComparator(Protocol):
    """A library that computes in lower precision than the payload: compared only where an error is allowed."""

    @property
    def rounded_to(self) -> str:
        """Type that it rounds operands to, such as ``bfloat16``."""
        ...


@dataclass(frozen=True)
class LibraryVariant:
    """One of several ways in which a library runs a payload.

    Attributes:
        name: Name of the variant, such as ``compiled``.
        comparator: Comparator of this variant.
        is_slow: Whether it takes minutes to prepare, since the library tunes itself, and runs only on explicit request.
    """

    name: str
    comparator: Comparator
    is_slow: bool = False


@runtime_checkable
class Variants(Protocol):
    """A library with several ways to run a payload: each is prepared in a process of its own, the fastest is timed."""

    def variants(self) -> tuple[LibraryVariant, ...]:
        """Return the variants available on this machine, without importing the library."""
        ...
