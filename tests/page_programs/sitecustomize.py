"""Programs that a page starts begin with this: keepers and converters of theirs start fast."""

import os
import sys
from functools import partial
from pathlib import Path

if "AUTOTUNE_TESTS_KEEPERS" in os.environ:
    sys.path.append(str(Path(__file__).parent.parent))
    from warm_pythons import CONVERTERS, PLACE, run_module_from, start_keeping

    from autotune.worker.isolation import keeper

    sys.path.pop()
    keeper.start_keeping = partial(start_keeping, os.environ[PLACE])
    if CONVERTERS in os.environ:
        from payload.importers import converter

        converter.run_module = partial(run_module_from, os.environ[CONVERTERS])
