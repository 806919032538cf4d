"""Indexing by constants, such as ``x[1, :, None, ..., ::-2]``, and by integer tensors."""

import builtins
import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from autotune.core.errors import TensorIndexError, TensorTypeError
from autotune.tensor.creation import known
from autotune.tensor.dtypes import bool, is_integer
from autotune.tensor.gathering import at_indices, flip, take
from autotune.tensor.graph import Node, operation
from autotune.tensor.manipulation import reshape
from autotune.tensor.tensor import Tensor, as_tensor

WAY_OUT = "use whole numbers, slices, None and ..."


@operation
def take_part(x: Tensor, key: object) -> Tensor:
    """Return ``x[key]``."""
    if isinstance(key, (np.ndarray, list, Tensor)):
        at = as_tensor("an index", np.asarray(key) if isinstance(key, list) else key)
        if at.dtype == bool:
            raise TensorTypeError("an index must not be a mask: the shape would depend on elements; use where")
        if not x.ndim:
            raise TensorIndexError("a tensor of 0 dimensions must not be indexed by tensors")
        return take(x, at, axis=0)
    if isinstance(key, tuple) and any(isinstance(each, (np.ndarray, list, Tensor)) for each in key):
        return at_indices(x, indices_by_axis(key, x))
    keys = spread(key if isinstance(key, tuple) else (key,), x)
    starts, steps, counts, shape, backwards = [], [], [], [], []
    axis = 0
    for each in keys:
        if each is None:
            shape.append(1)
            continue
        size = x.shape[axis]
        indices = indices_of(each, size, axis, x)
        starts.append(min(indices[0], indices[-1]) if indices else 0)
        steps.append(abs(indices.step))
        counts.append(len(indices))
        if indices.step < 0:
            backwards.append(axis)
        if isinstance(each, slice):
            shape.append(len(indices))
        axis += 1
    part = x
    if tuple(counts) != x.shape:
        part = Tensor(Node("slice", tuple(counts), x.dtype, (x.node,), attributes=(tuple(starts), tuple(steps))))
    return reshape(flip(part, axis=tuple(backwards)), tuple(shape))


def indices_by_axis(keys: tuple[Any, ...], x: Tensor) -> list[Tensor]:
    """Return index tensors for the first axes, from one integer or integer tensor an axis.

    Raises:
        TensorIndexError: There are more keys than axes, or an index is out of range.
        TensorTypeError: A key is neither an integer nor an integer tensor.
    """
    if len(keys) > x.ndim:
        raise TensorIndexError(f"an index of shape {x.shape} must name {x.ndim} axes or fewer, it names {len(keys)}")
    indices = []
    for axis, each in enumerate(keys):
        if isinstance(each, (np.ndarray, list, Tensor)):
            at = as_tensor("an index", np.asarray(each) if isinstance(each, list) else each)
            if not is_integer(at.dtype):
                raise TensorTypeError(
                    f"indices beside others must be whole numbers, they are {at.dtype.name}; use astype"
                )
            indices.append(at)
        elif each is None or each is Ellipsis or isinstance(each, (slice, builtins.bool)):
            raise TensorTypeError(f"an index beside indices must be whole numbers or indices, got {each!r}; use take")
        else:
            indices.append(known(np.asarray(indices_of(each, x.shape[axis], axis, x).start)))
    return indices


def spread(keys: Sequence[object], x: Tensor) -> list[Any]:
    """Expand ``...`` in the keys, so that each axis has one.

    Raises:
        TensorIndexError: There are more keys than axes, or ``...`` comes twice.
        TensorTypeError: A key is of no kind that is known before anything is computed.
    """
    for each in keys:
        if each is None or each is Ellipsis or isinstance(each, slice):
            continue
        if isinstance(each, builtins.bool):
            raise TensorTypeError(f"an index must not be a mask, got {each}; {WAY_OUT}")
    named = sum(each is not None and each is not Ellipsis for each in keys)
    dots = sum(each is Ellipsis for each in keys)
    if named > x.ndim or dots > 1:
        raise TensorIndexError(f"an index of shape {x.shape} must name {x.ndim} axes or fewer, it names {named}")
    rest = [slice(None)] * (x.ndim - named)
    if not dots:
        return [*keys, *rest]
    at = next(index for index, each in enumerate(keys) if each is Ellipsis)
    return [*keys[:at], *rest, *keys[at + 1 :]]


def indices_of(key: SupportsIndex | slice, size: int, axis: int, x: Tensor) -> range:
    """Return the indices along an axis that an integer or a slice selects.

    Raises:
        TensorIndexError: The index is out of range, or the step of the slice is 0.
        TensorTypeError: The key is neither an integer nor a slice of integers.
    """
    try:
        if isinstance(key, slice):
            return range(*key.indices(size))
        index = operator.index(key)
    except TypeError as error:
        raise TensorTypeError(f"an index must be whole numbers, got {key!r}; {WAY_OUT}") from error
    except ValueError as error:
        raise TensorIndexError(f"the step of a slice must not be 0, got {key!r}") from error
    if not -size <= index < size:
        expected = f"from {-size} to {size - 1}" if size else "left out, there are no elements"
        raise TensorIndexError(f"an index of axis {axis} of shape {x.shape} must be {expected}, got {index}")
    return range(index % size, index % size + 1)
