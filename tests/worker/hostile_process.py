"""What code does that took its process over; in the isolated process only, which imports nothing else for it."""

import os
import stat
import time

import numpy as np

from autotune.core.errors import PayloadError
from autotune.core.evaluator import Evaluation
from autotune.core.host.stopwatch import Moment


def say(data):
    """Write bytes to the tuner, as code that found the descriptor of the line can."""
    for name in os.listdir("/proc/self/fd"):
        handle = int(name)
        try:
            if stat.S_ISSOCK(os.fstat(handle).st_mode):
                os.write(handle, data)
        except OSError:
            continue
    time.sleep(60)


def say_for_a_number(data) -> int:
    say(data)
    return 1


def say_for_evaluations(data, _) -> list[Evaluation]:
    say(data)
    return []


def raise_ours(_) -> None:
    raise PayloadError("by intent")


def give_array(size) -> np.ndarray:
    return np.arange(size, dtype=np.float64).reshape(2, -1)


def give_moment(_, __) -> Moment:
    return Moment("lower", 1)
