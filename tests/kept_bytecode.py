"""What Python compiles of modules is kept for all processes of a session, in a folder that goes with it.

Where no bytecode may lie beside sources (``PYTHONDONTWRITEBYTECODE``), each of hundreds of processes that tests start
would compile whatever it imports anew, for seconds. Loaded before anything else is.
"""

import atexit
import os
import shutil
import sys
import tempfile


def remove(folder, owner):
    """Remove the folder, unless this is a process that was forked from the one that made it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


if sys.dont_write_bytecode:
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="bytecode-")
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # in workers of xdist, too, which inherit both
    atexit.register(remove, sys.pycache_prefix, os.getpid())
