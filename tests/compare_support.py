"""Comparators that misbehave, each in its own way. They are sent to a worker, so they live in a module."""

import os
from dataclasses import dataclass

import numpy as np

from autotune.core.comparator import Prepared
from autotune.core.errors import ComparatorError


def right(payload, inputs):
    return tuple(np.asarray(output, np.float32) for output in payload.reference(**inputs))


def off_by_a_little(payload, inputs):
    return tuple(output + np.float32(0.01) for output in right(payload, inputs))


def not_finite(payload, inputs):
    return tuple(output * np.float32(np.inf) for output in right(payload, inputs))


def of_another_shape(payload, inputs):
    return tuple(output[..., :-1] for output in right(payload, inputs))


def one_too_many(payload, inputs):
    return (*right(payload, inputs), np.zeros(1))


def raises(payload, inputs):
    raise RuntimeError("no luck\ntoday")


def refuses(payload, inputs):
    raise ComparatorError("it computes something else")


def dies(payload, inputs):
    os._exit(7)


BEHAVIOURS = {
    f.__name__: f for f in (right, off_by_a_little, not_finite, of_another_shape, one_too_many, raises, refuses, dies)
}


@dataclass(frozen=True)
class Strange:
    """A comparator that behaves as its name says."""

    name: str
    modules: tuple[str, ...] = ()
    extra: str = "compare"

    def version(self):
        return f"{self.name} 1.0"

    def prepare(self, payload, inputs):
        behave = BEHAVIOURS[self.name]
        return Prepared(lambda: behave(payload, inputs), lambda outputs: outputs, "by hand")
