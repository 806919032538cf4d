"""`WeightForm`: how a weight is stored before any call, where it is another array than the payload's."""

from typing import Any, Protocol

from autotune.core.payload import Argument, Array

Shape = tuple[int, ...]


class WeightForm(Protocol):
    """What a weight becomes once, so that calls compute less: words of rounded values, or filters transformed.

    The columns of what it gives are those of the weight: they are laid in panels afterwards.
    """

    @property
    def name(self) -> str:
        """How scripts and records name it."""
        ...

    @property
    def element(self) -> str:
        """MLIR element type of what is stored."""
        ...

    @property
    def lacking(self) -> str:
        """What this CPU lacks to read it, a sentence; empty if nothing."""
        return ""

    def takes(self, op: Any) -> bool:  # noqa: ANN401 - MLIR's operation
        """Whether the weight of an op, its second operand, is stored so: a task may have others, stored as they are."""
        ...

    def shape(self, weight: Shape) -> Shape:
        """The logical shape ``(..., k, n)`` of what is stored, for that of a weight."""
        ...

    def pack(self, weight: Array, stored: Shape, *, transposed: bool) -> Array:
        """What is stored of a weight.

        Args:
            weight: Elements in the order of ``(..., k, n)``, in any shape: a payload may have some dimensions as one.
            stored: Logical shape of what is stored.
            transposed: The order is that of ``(..., n, k)``.
        """
        ...

    def replace(self, op: Any, kernel: Any) -> None:  # noqa: ANN401 - MLIR's operation and value
        """Replace an op that reads what is stored as its second operand, instead of `kernel`, by one that code knows.

        Tags go with it (`compiler/passes/narrow.py` has what does that).
        """
        ...


class PluggedForm(WeightForm, Protocol):
    """A form that a plug-in brings.

    It registers an instance under the entry-point group ``autotune.weight_forms``, by the name of its family, which is
    what that gives as `Rewrites.precision`.
    """

    def c_packer(self, name: str, about: str, weight: Argument, shape: Shape, columns: int) -> str:
        """C of a function ``static inline void name(const S *weight, T *panels)`` that stores a weight.

        Args:
            name: Name of the function.
            about: A comment's words on the weight, without an end of the comment.
            weight: The argument, whose elements lie in the order of ``(..., k, n)``; S is their type in C, ``float`` of
                f32 and ``uint16_t`` of f16 and bf16.
            shape: Logical shape ``(..., k, n)`` of what is stored, of elements of type T.
            columns: Columns of a panel, of ``(..., panels, k, columns)``; those beyond n are zero.
        """
        ...
