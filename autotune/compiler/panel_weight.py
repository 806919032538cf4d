"""Weights in panels: arrays that a tuned program takes besides those of its payload, and what they are made of."""

from dataclasses import dataclass, replace

import numpy as np

from autotune.core.errors import CompileError, ScheduleError
from autotune.core.payload import Argument, Array
from autotune.core.plugs.weight_form import PluggedForm, Shape
from autotune.core.precision import PRECISIONS, Precision
from autotune.registry import weight_form

WORD = "i32"  # MLIR element type of words, each of as many values as a precision says


@dataclass(frozen=True)
class PanelWeight:
    """An argument that a tuned program has besides those of its payload: a weight stored in panels.

    Attributes:
        source: Position of the payload's argument that holds the weight.
        position: Position of the new one.
        shape: Logical shape of the weight, (..., k, n); k counts words where it is rounded.
        columns: Columns of a panel.
        transposed: Whether the payload stores the weight as (..., n, k).
        precision: What it is rounded to, one of `core.precision.PRECISIONS`, or the name of another form that weights
            are stored in; empty for what it is.
    """

    source: int
    position: int
    shape: tuple[int, ...]
    columns: int
    transposed: bool
    precision: str = ""

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape in memory: (..., panels, k, columns)."""
        *lead, k, n = self.shape
        return (*lead, -(-n // self.columns), k, self.columns)

    def argument(self, source: Argument) -> Argument:
        """The new argument, as it is in memory.

        Raises:
            CompileError: Stage ``transform``; no form has the name of this one.
        """
        rounded = WORD if self.precision in PRECISIONS else ""
        dtype = rounded or (plugged_form(self.precision).element if self.precision else source.dtype)
        return replace(source, name=f"{source.name}_panels_{self.position}", shape=self.stored_shape, dtype=dtype)

    def pack(self, weight: Array) -> Array:
        """The weight in panels: the preparation step, done once.

        Raises:
            CompileError: Stage ``transform``; no form has the name of this one.
        """
        *lead, k, n = self.shape
        if self.precision in PRECISIONS:
            plain = pack_words(PRECISIONS[self.precision], weight, self.shape, transposed=self.transposed)
        elif self.precision:
            plain = plugged_form(self.precision).pack(weight, self.shape, transposed=self.transposed)
        else:
            plain = weight.reshape(*lead, n, k).swapaxes(-1, -2) if self.transposed else weight.reshape(self.shape)
        panels = self.stored_shape[-3]
        wide = np.zeros((*lead, k, panels * self.columns), plain.dtype)
        wide[..., :n] = plain
        return np.ascontiguousarray(wide.reshape(*lead, k, panels, self.columns).swapaxes(-3, -2))


def pack_words(precision: Precision, weight: Array, stored: Shape, *, transposed: bool) -> Array:
    """The words of a weight that is rounded.

    Args:
        precision: What it is rounded to.
        weight: Elements in the order of ``(..., k, n)``, in any shape.
        stored: Shape of the words, ``(..., words, n)``.
        transposed: The order is that of ``(..., n, k)``.
    """
    *lead, _, n = stored
    plain = weight.reshape(*lead, n, -1).swapaxes(-1, -2) if transposed else weight.reshape(*lead, -1, n)
    return precision.pack(plain)


def plugged_form(name: str) -> PluggedForm:
    """How a weight is stored, as a plug-in does.

    Raises:
        CompileError: Stage ``transform``; none has that name.
    """
    try:
        return weight_form(name)
    except ScheduleError as error:
        raise CompileError("transform", str(error)) from error
