"""Weights stored in panels: additional arguments of a tuned program, and how they are packed from payload arguments."""

from dataclasses import dataclass, replace

import numpy as np

from autotune.core.errors import CompileError, ScheduleError
from autotune.core.payload import Argument, Array
from autotune.core.plugs.weight_form import PluggedForm, Shape
from autotune.core.precision import PRECISIONS, Precision
from autotune.registry import weight_form

WORD = "i32"  # MLIR element type of packed words; the precision defines how many values a word holds


@dataclass(frozen=True)
class PanelWeight:
    """Additional argument of a tuned program: a weight packed into panels.

    Attributes:
        source: Position of the payload argument that holds the weight.
        position: Position of the packed argument.
        shape: Logical shape of the weight, (..., k, n); k counts words if the weight is rounded.
        columns: Number of columns of a panel.
        transposed: Whether the payload stores the weight as (..., n, k).
        precision: Precision that the weight is rounded to, one of `core.precision.PRECISIONS`, or the name of a
            plugged-in storage form; empty to keep the element type of the payload.
    """

    source: int
    position: int
    shape: tuple[int, ...]
    columns: int
    transposed: bool
    precision: str = ""

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape in memory: (..., panels, k, columns)."""
        *lead, k, n = self.shape
        return (*lead, -(-n // self.columns), k, self.columns)

    def argument(self, source: Argument) -> Argument:
        """Return the packed argument with its shape and dtype in memory.

        Raises:
            CompileError: Stage ``transform``; no plug-in provides the storage form.
        """
        rounded = WORD if self.precision in PRECISIONS else ""
        dtype = rounded or (plugged_form(self.precision).element if self.precision else source.dtype)
        return replace(source, name=f"{source.name}_panels_{self.position}", shape=self.stored_shape, dtype=dtype)

    def pack(self, weight: Array) -> Array:
        """Pack the weight into panels, padding the last panel with zeros; done once, before any call.

        Raises:
            CompileError: Stage ``transform``; no plug-in provides the storage form.
        """
        *lead, k, n = self.shape
        if self.precision in PRECISIONS:
            matrix = pack_words(PRECISIONS[self.precision], weight, self.shape, transposed=self.transposed)
        elif self.precision:
            matrix = plugged_form(self.precision).pack(weight, self.shape, transposed=self.transposed)
        else:
            matrix = weight.reshape(*lead, n, k).swapaxes(-1, -2) if self.transposed else weight.reshape(self.shape)
        panels = self.stored_shape[-3]
        padded = np.zeros((*lead, k, panels * self.columns), matrix.dtype)
        padded[..., :n] = matrix
        return np.ascontiguousarray(padded.reshape(*lead, k, panels, self.columns).swapaxes(-3, -2))


def pack_words(precision: Precision, weight: Array, stored: Shape, *, transposed: bool) -> Array:
    """Round a weight and pack it into words of 32 bits.

    Args:
        precision: Precision to round to.
        weight: Elements in the order of ``(..., k, n)``, in any shape.
        stored: Shape of the packed words, ``(..., words, n)``.
        transposed: Flag: the elements are in the order of ``(..., n, k)``.
    """
    *lead, _, n = stored
    values = weight.reshape(*lead, n, -1).swapaxes(-1, -2) if transposed else weight.reshape(*lead, -1, n)
    return precision.pack(values)


def plugged_form(name: str) -> PluggedForm:
    """Return the storage form that a plug-in registers under a name.

    Raises:
        CompileError: Stage ``transform``; no plug-in has that name.
    """
    try:
        return weight_form(name)
    except ScheduleError as error:
        raise CompileError("transform", str(error)) from error
