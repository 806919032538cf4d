"""The feature as the compiler knows it: a rewrite that scripts ask for by the form that they store kernels in."""

from autotune.compiler.lowering.rewrites import Rewrite
from autotune.contrib.narrow_windows.code import write_windows
from autotune.contrib.narrow_windows.form import FORM_BF16, FORM_INT16
from autotune.contrib.narrow_windows.marks import NARROW_WINDOWS

NAMES = (FORM_INT16.name, FORM_BF16.name)
REWRITE = Rewrite(
    NARROW_WINDOWS.name,
    NARROW_WINDOWS.version,
    lambda unit: write_windows(unit.module, unit.threads),
    before="panel-loads",
    needed=lambda unit: any(name in NAMES for name in unit.forms.values()),
)
