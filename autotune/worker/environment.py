"""The environment that libraries are timed in: one thread, and nothing that the shell says about how to compute.

Libraries read these variables when they are loaded, so they must be right before a worker starts.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

# OPENBLAS_CORETYPE=Haswell halves NumPy's speed on some machines; the others have switches of the same kind.
PREFIXES = ("OPENBLAS_", "GOTO_", "BLIS_", "MKL_", "OMP_", "GOMP_", "KMP_", "DNNL_", "ONEDNN_", "ATEN_", "NPY_")
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@contextmanager
def one_thread() -> Iterator[dict[str, str]]:
    """Give processes that start inside the ``with`` block a clean environment with one thread.

    Yields:
        The variables that are unset meanwhile, with their values.
    """
    inherited = {name: value for name, value in os.environ.items() if name.startswith(PREFIXES)}
    for name in inherited:
        del os.environ[name]
    os.environ.update(ONE_THREAD)
    try:
        yield {name: value for name, value in inherited.items() if ONE_THREAD.get(name) != value}
    finally:
        for name in ONE_THREAD:
            del os.environ[name]
        os.environ.update(inherited)
