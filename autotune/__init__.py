"""Explore and autotune MLIR transform-dialect schedules.

This package exports the pure half of the engine: importing it needs no MLIR.
"""

from autotune.errors import AutotuneError
from autotune.loops import Contraction
from autotune.machine import Machine, this_machine
from autotune.schedule import Baseline, Schedule
from autotune.space import Config, Constraint, Knob, Space
from autotune.task import Argument, Payload, Task
from autotune.trial import OUTCOMES, Samples, Trial

__all__ = [
    "OUTCOMES",
    "Argument",
    "AutotuneError",
    "Baseline",
    "Config",
    "Constraint",
    "Contraction",
    "Knob",
    "Machine",
    "Payload",
    "Samples",
    "Schedule",
    "Space",
    "Task",
    "Trial",
    "this_machine",
]
