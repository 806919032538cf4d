"""Comparators that misbehave, each in its own way. They are sent to a worker, so they live in a module."""

import os
from dataclasses import dataclass

import numpy as np
import pytest

from autotune.core.comparator import Prepared
from autotune.core.errors import ComparatorError
from autotune.registry import load_comparator
from autotune.reports import entries as contenders
from autotune.worker.testbench import Testbench


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


TINY = "matmul,m=9,n=7,k=5"
ODD = "gpt,d_model=72,heads=3,d_ff=200,vocab=101,seq=17"
SPECS = (
    "matmul,m=33,n=17,k=65",
    "matmul,m=33,n=17,k=65,constant_b=1",
    "matmul,m=8,n=17,k=24,transpose_b=1",
    "matmul,m=8,n=17,k=24,transpose_b=1,constant_b=1",
    "batch_matmul,batch=3,m=7,n=9,k=5",
    "batch_matmul,batch=3,m=7,n=9,k=5,transpose_b=1",
    "attention,heads=3,seq=17,d=8",
    "attention,heads=3,seq=17,d=8,causal=1",
    "layer_norm,rows=5,cols=33",
    "softmax,rows=5,cols=33",
    "gelu,rows=5,cols=33",
    "embedding,rows=5,cols=33,vocab=19",
    "nano,seq=1",
    ODD,
)
LIBRARIES = ("numpy", "onnxruntime", "torch", "iree")
COMPILED = (
    "matmul,m=8,n=17,k=24,transpose_b=1,constant_b=1",
    "embedding,rows=5,cols=33,vocab=19",
    "gpt,d_model=12,heads=3,d_ff=20,vocab=11,seq=5,layers=1",
)
CASES = [(name, spec) for name in LIBRARIES for spec in (SPECS if name != "iree" else COMPILED)]
FED = ("input", "state")
ROW = {
    "name",
    "outcome",
    "seconds",
    "interval",
    "roof_fraction",
    "max_error",
    "version",
    "ratio",
    "ratio_interval",
    "diagnostic",
    "samples",
}


def installed(name):
    """The comparator called `name`; skips the test if its library is missing. Importing iree.compiler would clash."""
    comparator = load_comparator(name)
    absent = [module for module in comparator.modules if not contenders.is_installed(module)]
    if absent:
        pytest.skip(f"{' and '.join(absent)} not installed")
    return comparator


def inputs_of(payload):
    bench = Testbench(payload, seed=0)
    arrays = zip(payload.arguments, bench.arrays, strict=True)
    return {a.name: array for a, array in arrays if a.role != "output"}, bench.expected[0]


CACHED = "gpt,d_model=12,heads=3,d_ff=20,vocab=11,seq=5,layers=2,positions=9"
