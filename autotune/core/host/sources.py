"""Hash of the sources of this distribution."""

import hashlib
import os
from functools import cache
from importlib.util import find_spec

PACKAGES = ("autotune", "payload", "schedules")
COMPILED = "__pycache__"


@cache
def hash_sources() -> str:
    """Return the hex sha256 of all files of this distribution's packages, on which every result may depend.

    It takes about 30 ms; importing the compiler to query the versions of its rewrites takes 800 ms.
    """
    digest = hashlib.sha256()
    for package in PACKAGES:
        spec = find_spec(package)
        for root in (spec.submodule_search_locations or ()) if spec is not None else ():
            for folder, folders, files in os.walk(root):
                folders[:] = sorted(each for each in folders if each != COMPILED)
                for name in sorted(files):
                    with open(os.path.join(folder, name), "rb") as file:
                        data = file.read()
                    digest.update(f"{os.path.relpath(folder, root)}\0{name}\0{len(data)}\0".encode(errors="replace"))
                    digest.update(data)
    return digest.hexdigest()
