"""What a library must offer to be compared with: prepare a payload once, then compute it on every call.

Like payloads and schedules, comparators are content: they are found by name through the entry-point group
``autotune.comparators``, and their modules import no library before they are asked to prepare something.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from autotune.core.payload import Array, Payload


@dataclass(frozen=True)
class Prepared:
    """A payload as a library runs it, with inputs and weights in place.

    Attributes:
        call: One call, which is what is timed; gives the outputs in whatever form the library has them.
        outputs: Turns what a call gave into arrays, in the order of the payload's outputs; never timed.
        how: Mode in which the library runs the payload, where it has a choice, such as ``torch.compile``; shown with
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
    """A library to be compared with. Instances pickle: they are sent to the process that times them, one of their own.

    Neither MLIR nor anything that imports it is loaded there. A library that has several ways to run a payload is a
    `Variants`, too.
    """

    @property
    def name(self) -> str:
        """How users and records name it."""
        ...

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules that must be installed."""
        ...

    @property
    def extra(self) -> str:
        """The extra of the distribution that installs them."""
        ...

    def version(self) -> str:
        """Give the library's version and the kind of core its kernels are chosen for."""
        ...

    def prepare(self, payload: Payload, inputs: Mapping[str, Array]) -> Prepared:
        """Build what computes the payload, a thread on each core of the process; converting and packing happen here.

        Args:
            payload: Payload to compute: its `graph` is what to translate; its text is there too.
            inputs: Every argument that is not an output, by name. They stay as they are while calls are timed.

        Raises:
            ComparatorError: The library has no way to compute this payload.
        """
        ...


@runtime_checkable
class RoundingComparator(Protocol):
    """A library in less than the payload's precision: it is compared only where an error is allowed."""

    @property
    def rounded_to(self) -> str:
        """What it rounds operands to, such as ``bfloat16``."""
        ...


@dataclass(frozen=True)
class LibraryVariant:
    """One of several ways in which a library runs a payload.

    Attributes:
        name: Name of the way, such as ``compiled``.
        comparator: The library, run in this way.
        is_slow: Whether it takes minutes to prepare, since the library tunes itself, and is run only where it is named.
    """

    name: str
    comparator: Comparator
    is_slow: bool = False


@runtime_checkable
class Variants(Protocol):
    """A library with several ways to run a payload: each is prepared in a process of its own, the fastest is timed."""

    def variants(self) -> tuple[LibraryVariant, ...]:
        """Give the ways that there are on this machine, without importing the library."""
        ...
