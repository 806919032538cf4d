"""`WeightForm`: a transformed layout of a weight, computed once before any call."""

from typing import Any, Protocol

from autotune.core.payload import Argument, Array

Shape = tuple[int, ...]


class WeightForm(Protocol):
    """Stored form of a weight that saves work in calls: packed words of rounded values, or transformed filters.

    It has the columns of the weight, which are packed into panels afterwards.
    """

    @property
    def name(self) -> str:
        """Name of the form for scripts and records."""
        ...

    @property
    def element(self) -> str:
        """MLIR element type of the stored form."""
        ...

    @property
    def lacking(self) -> str:
        """Sentence on what this CPU lacks to read it; empty if nothing."""
        return ""

    def takes(self, op: Any) -> bool:  # noqa: ANN401 - MLIR's operation
        """Return whether the weight of an op, its second operand, is stored in this form; others are unchanged."""
        ...

    def shape(self, weight: Shape) -> Shape:
        """Return the logical shape ``(..., k, n)`` of the stored form, for that of a weight."""
        ...

    def pack(self, weight: Array, stored: Shape, *, transposed: bool) -> Array:
        """Convert a weight to the stored form.

        Args:
            weight: Elements in the order of ``(..., k, n)``, in any shape: a payload may have collapsed dimensions.
            stored: Logical shape of the stored form.
            transposed: Whether the order is that of ``(..., n, k)``.
        """
        ...

    def replace(self, op: Any, kernel: Any) -> None:  # noqa: ANN401 - MLIR's operation and value
        """Replace an op by one that reads the stored form as its second operand, instead of `kernel`.

        The new op keeps the tags (`compiler/passes/narrow.py` has functions for that).
        """
        ...


class PluggedForm(WeightForm, Protocol):
    """Weight form of a plug-in.

    The plug-in registers an instance in the entry-point group ``autotune.weight_forms``, under the name that its family
    uses as `Rewrites.precision`.
    """

    def c_packer(self, name: str, about: str, weight: Argument, shape: Shape, columns: int) -> str:
        """Generate the C function ``static inline void name(const S *weight, T *panels)`` that packs a weight.

        Args:
            name: Name of the function.
            about: Text of a comment on the weight, which does not end the comment.
            weight: Weight argument, with elements in the order of ``(..., k, n)``; S is their type in C, ``float`` for
                f32 and ``uint16_t`` for f16 and bf16.
            shape: Logical shape ``(..., k, n)`` of the stored form, with elements of type T.
            columns: Columns of a panel; panels have the shape ``(..., panels, k, columns)``, zero-padded beyond n.
        """
        ...
