"""Indexing by constants: ``x[1, :, None, ..., ::-2]``; and rows at the places that a tensor of whole numbers holds."""

import builtins
import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from autotune.core.errors import TensorIndexError, TensorTypeError
from autotune.tensor.dtypes import bool
from autotune.tensor.graph import Node, operation
from autotune.tensor.places import flip, reshape, take
from autotune.tensor.tensor import Tensor, as_tensor

WAY_OUT = "use whole numbers, slices, None and ..."


@operation
def take_part(x: Tensor, key: object) -> Tensor:
    """What ``x[key]`` is."""
    if isinstance(key, (np.ndarray, list, Tensor)):
        at = as_tensor("an index", np.asarray(key) if isinstance(key, list) else key)
        if at.dtype == bool:
            raise TensorTypeError("an index must not be a mask: the shape would depend on elements; use where")
        if not x.ndim:
            raise TensorIndexError("a tensor of 0 dimensions must not be indexed by places")
        return take(x, at, axis=0)
    keys = spread(key if isinstance(key, tuple) else (key,), x)
    starts, steps, counts, shape, backwards = [], [], [], [], []
    axis = 0
    for each in keys:
        if each is None:
            shape.append(1)
            continue
        size = x.shape[axis]
        places = places_of(each, size, axis, x)
        starts.append(min(places[0], places[-1]) if places else 0)
        steps.append(abs(places.step))
        counts.append(len(places))
        if places.step < 0:
            backwards.append(axis)
        if isinstance(each, slice):
            shape.append(len(places))
        axis += 1
    part = x
    if tuple(counts) != x.shape:
        part = Tensor(Node("slice", tuple(counts), x.dtype, (x.node,), attributes=(tuple(starts), tuple(steps))))
    return reshape(flip(part, axis=tuple(backwards)), tuple(shape))


def spread(keys: Sequence[object], x: Tensor) -> list[Any]:
    """One key an axis, ``...`` written out.

    Raises:
        TensorIndexError: There are more keys than axes, or ``...`` comes twice.
        TensorTypeError: A key is of no kind that is known before anything is computed.
    """
    for each in keys:
        if each is None or each is Ellipsis or isinstance(each, slice):
            continue
        if isinstance(each, (Tensor, np.ndarray, list, builtins.bool)):
            raise TensorTypeError(f"an index beside others must be a constant, got {type(each).__name__}; {WAY_OUT}")
    named = sum(each is not None and each is not Ellipsis for each in keys)
    dots = sum(each is Ellipsis for each in keys)
    if named > x.ndim or dots > 1:
        raise TensorIndexError(f"an index of shape {x.shape} must name {x.ndim} axes or fewer, it names {named}")
    rest = [slice(None)] * (x.ndim - named)
    if not dots:
        return [*keys, *rest]
    at = next(place for place, each in enumerate(keys) if each is Ellipsis)
    return [*keys[:at], *rest, *keys[at + 1 :]]


def places_of(key: SupportsIndex | slice, size: int, axis: int, x: Tensor) -> range:
    """The places along an axis that a key names.

    Raises:
        TensorIndexError: A place is not there.
        TensorTypeError: The key holds something else than whole numbers.
    """
    try:
        if isinstance(key, slice):
            return range(*key.indices(size))
        place = operator.index(key)
    except TypeError as error:
        raise TensorTypeError(f"an index must be whole numbers, got {key!r}; {WAY_OUT}") from error
    except ValueError as error:
        raise TensorIndexError(f"the step of a slice must not be 0, got {key!r}") from error
    if not -size <= place < size:
        said = f"from {-size} to {size - 1}" if size else "left out, there are no elements"
        raise TensorIndexError(f"an index of axis {axis} of shape {x.shape} must be {said}, got {place}")
    return range(place % size, place % size + 1)
