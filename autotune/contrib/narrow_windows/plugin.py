"""Rewrite that lowers convolutions of packed words, enabled by the form in which kernels are stored."""

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
