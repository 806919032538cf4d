"""Parts of a compilation, for tests of what lies in between."""

from autotune.compiler.ir.module import parse
from autotune.compiler.lowering.rewrites import Unit, empty_handles
from autotune.compiler.lowering.steps import apply_schedule
from autotune.compiler.passes.fastmath import flags_of_extrema
from autotune.compiler.script.apply import run_script


def unit_of(module, script):
    """A module and its script, ready for `apply_schedule`."""
    return Unit(module, text=script, script=parse(script, "schedule"), flags=flags_of_extrema(module))


def apply_script(module, script):
    """Apply a script alone, as the interpreter does, with checks for empty handles."""
    unit = unit_of(module, script)
    empty_handles(unit)
    run_script(module, unit.script, script)


def schedule(module, script):
    """Apply a script, and our rewrites before and after it."""
    apply_schedule(unit_of(module, script))
