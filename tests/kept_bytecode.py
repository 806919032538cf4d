"""What Python compiles of modules is kept for all processes that tests start, and for the next run of the tests.

Where no bytecode may lie beside sources (``PYTHONDONTWRITEBYTECODE``), each of hundreds of processes that tests start
would compile whatever it imports anew, for seconds. Loaded before anything else is.
"""

import os
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / ".pytest_cache" / "bytecode"

if sys.dont_write_bytecode:
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(FOLDER)
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # in workers of xdist, too, which inherit both
