"""Compiles the reference kernel, for processes that are forked from whoever loads this: each would do so itself."""

from autotune.core.host.machine import this_machine
from autotune.worker.bench.roofs import reference_run

reference_run(this_machine())
