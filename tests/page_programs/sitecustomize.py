"""Programs that a page starts begin with this: keepers of theirs start fast."""

import os
import sys
from functools import partial
from pathlib import Path

if "AUTOTUNE_TESTS_KEEPERS" in os.environ:
    sys.path.append(str(Path(__file__).parent.parent))
    from warm_pythons import PLACE, start_keeping

    from autotune.worker.isolation import keeper

    sys.path.pop()
    keeper.start_keeping = partial(start_keeping, os.environ[PLACE])
