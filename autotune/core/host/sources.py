"""The sources of this distribution, by their hash."""

import hashlib
import os
from functools import cache
from importlib.util import find_spec

PACKAGES = ("autotune", "payload", "schedules")
COMPILED = "__pycache__"


@cache
def hash_sources() -> str:
    """Hex sha256 of all files of this distribution's packages: whatever it makes may be another thing where they are.

    It takes some 30 ms, where to import the compiler, and ask for the versions of its rewrites, takes 800.
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
