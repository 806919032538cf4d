"""Rewrite that lowers Winograd convolutions, enabled by the form in which filters are stored."""

from autotune.compiler.lowering.rewrites import Rewrite
from autotune.contrib.winograd.code import write_winograd
from autotune.contrib.winograd.form import FORM_F2, FORM_F4
from autotune.contrib.winograd.marks import WINOGRAD

NAMES = (FORM_F2.name, FORM_F4.name)
REWRITE = Rewrite(
    WINOGRAD.name,
    WINOGRAD.version,
    lambda unit: write_winograd(unit.module),
    before="panel-loads",
    needed=lambda unit: any(name in NAMES for name in unit.forms.values()),
)
