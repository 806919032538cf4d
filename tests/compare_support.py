"""Payloads and libraries that are compared in tests."""

import pytest

from autotune.registry import load_comparator
from autotune.reports import entries as contenders
from autotune.worker.bench.testbench import Testbench

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
    "conv,channels=3,filters=5,size=7,stride=2",
    "conv,channels=4,filters=6,size=7,groups=2,dilation=2,layout=nhwc",
    "resnet_block,channels=4,filters=6,size=5,stride=2",
    "nano,seq=1",
    ODD,
)
LIBRARIES = ("numpy", "onnxruntime", "torch", "iree")
COMPILED = (
    "matmul,m=8,n=17,k=24,transpose_b=1,constant_b=1",
    "embedding,rows=5,cols=33,vocab=19",
    "conv,channels=4,filters=6,size=7,groups=2",
    "gpt,d_model=12,heads=3,d_ff=20,vocab=11,seq=5,layers=1",
)
CASES = [(name, spec) for name in LIBRARIES for spec in (SPECS if name != "iree" else COMPILED)]
FED = ("input", "state")
ROW = {
    "name",
    "outcome",
    "seconds",
    "clock_seconds",
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


def outputs_of(bench):
    """What a library's outputs should hold: states are its own affair."""
    written = bench.payload.written
    return [[array for a, array in zip(written, each, strict=True) if a.role == "output"] for each in bench.expected]


CACHED = "gpt,d_model=12,heads=3,d_ff=20,vocab=11,seq=5,layers=2,positions=9"
