"""Explore and autotune MLIR transform-dialect schedules.

This package exports the pure half of the engine: importing it needs no MLIR.
"""

from autotune.core.errors import AutotuneError
from autotune.core.family import Baseline, Family
from autotune.core.loop_nest import Contraction
from autotune.core.machine import Machine, this_machine
from autotune.core.payload import Argument, Payload
from autotune.core.space import Config, Constraint, Knob, Space
from autotune.core.task import Task
from autotune.core.trial import OUTCOMES, Samples, Trial

__all__ = [
    "OUTCOMES",
    "Argument",
    "AutotuneError",
    "Baseline",
    "Config",
    "Constraint",
    "Contraction",
    "Family",
    "Knob",
    "Machine",
    "Payload",
    "Samples",
    "Space",
    "Task",
    "Trial",
    "this_machine",
]
