"""Every Python that a page starts begins with this: nothing is measured with care, and keepers start fast."""

import os
import sys
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from pathlib import Path

from less_care import CONSTANTS, EFFORT

from autotune.core import evaluator

ONCE = CONSTANTS | {
    "autotune.reports.compare": {"PAIRS": 1},
    "autotune.worker.bench.roofs": {"CHAINS": (12,), "DRAM_BYTES": 1 << 26},
}  # by module, as they are imported
plain = evaluator.Effort.__init__


def quick(self, samples=15, seconds=0.5, sample_seconds=1e-3):
    """No more care than this."""
    asked = {"samples": samples, "seconds": seconds, "sample_seconds": sample_seconds}
    plain(self, **{name: min(value, EFFORT[name]) for name, value in asked.items()})


class Quickly(MetaPathFinder):
    """Finds modules as ever, and changes constants of some."""

    def find_spec(self, name, path, target=None):
        if name not in ONCE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def execute_and_change(module):
            execute(module)
            vars(module).update(ONCE[name])

        spec.loader.exec_module = execute_and_change
        return spec


evaluator.Effort.__init__ = quick
sys.meta_path.insert(0, Quickly())

if "AUTOTUNE_TESTS_KEEPERS" in os.environ:
    sys.path.append(str(Path(__file__).parent.parent))
    from warm_pythons import PLACE, start_keeping

    from autotune.worker.isolation import keeper

    sys.path.pop()
    keeper.start_keeping = partial(start_keeping, os.environ[PLACE])
