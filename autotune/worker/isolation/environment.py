"""The environment that libraries are timed in: so many threads, and nothing that the shell says about how to compute.

Libraries read these variables when they are loaded, so they must be right before a worker starts.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

# OPENBLAS_CORETYPE=Haswell halves NumPy's speed on some machines; the others have switches of the same kind.
PREFIXES = ("OPENBLAS_", "GOTO_", "BLIS_", "MKL_", "OMP_", "GOMP_", "KMP_", "DNNL_", "ONEDNN_", "ATEN_", "NPY_")
COUNTS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def only_threads(threads: int) -> Iterator[dict[str, str]]:
    """Give processes that start inside the ``with`` block a clean environment with so many threads.

    Yields:
        The variables that are unset meanwhile, with their values.
    """
    wanted = dict.fromkeys(COUNTS, str(threads))
    inherited = {name: value for name, value in os.environ.items() if name.startswith(PREFIXES)}
    for name in inherited:
        del os.environ[name]
    os.environ.update(wanted)
    try:
        yield {name: value for name, value in inherited.items() if wanted.get(name) != value}
    finally:
        for name in wanted:
            del os.environ[name]
        os.environ.update(inherited)
