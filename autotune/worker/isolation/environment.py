"""Environment variables for timing libraries: a fixed number of threads, without settings inherited from the shell.

Libraries read these variables when they are loaded, so they must be set before a worker starts.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

# OPENBLAS_CORETYPE=Haswell halves NumPy's speed on some machines; the others have switches of the same kind.
PREFIXES = ("OPENBLAS_", "GOTO_", "BLIS_", "MKL_", "OMP_", "GOMP_", "KMP_", "DNNL_", "ONEDNN_", "ATEN_", "NPY_")
COUNTS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def only_threads(threads: int) -> Iterator[dict[str, str]]:
    """Set the thread count and unset library settings for processes that start inside the ``with`` block.

    Yields:
        The inherited variables that are unset or changed meanwhile, with their values.
    """
    settings = dict.fromkeys(COUNTS, str(threads))
    inherited = {name: value for name, value in os.environ.items() if name.startswith(PREFIXES)}
    for name in inherited:
        del os.environ[name]
    os.environ.update(settings)
    try:
        yield {name: value for name, value in inherited.items() if settings.get(name) != value}
    finally:
        for name in settings:
            del os.environ[name]
        os.environ.update(inherited)
