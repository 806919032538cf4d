"""The feature as the compiler knows it: a rewrite that scripts ask for by the form that they store kernels in."""

from autotune.compiler.lowering.rewrites import Rewrite
from autotune.contrib.narrow_windows.code import write_windows
from autotune.contrib.narrow_windows.form import FORMS
from autotune.contrib.narrow_windows.marks import NARROW_WINDOWS

NAMES = tuple(form.name for form in FORMS)
REWRITE = Rewrite(
    NARROW_WINDOWS.name,
    NARROW_WINDOWS.version,
    lambda unit: write_windows(unit.module, unit=unit.matrix_unit, threads=unit.threads),
    before="panel-loads",
    needed=lambda unit: any(name in NAMES for name in unit.forms.values()),
)
