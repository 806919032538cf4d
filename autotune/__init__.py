"""Explore and autotune MLIR transform-dialect schedules.

The public interface. Types and functions are loaded when they are first used, so that importing this package is
fast and works without MLIR::

    import autotune as at

    payload = at.payload("matmul,m=512,n=512,k=512")  # or "mine.mlir"
    result = at.tune(payload, trials=60, store="mine.journal", bundle="mine.bundle")
    frame = at.trials("mine.journal")  # a pandas frame, one row a trial
    bundle = at.Bundle.read("mine.bundle")
    bundle.replay()
    c = bundle(a, b)  # NumPy in, NumPy out
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autotune.bundles.bundle import Bundle
    from autotune.bundles.call import compile_payload as compile
    from autotune.bundles.session import Session
    from autotune.core.errors import (
        AutotuneError,
        BundleError,
        ComparatorError,
        CompileError,
        GenerationError,
        MachineError,
        OptionError,
        PayloadError,
        PluginError,
        ProofError,
        RuleError,
        ScheduleError,
        SpaceError,
        StoreError,
    )
    from autotune.core.host.machine import Machine, this_machine
    from autotune.core.listener import SILENT, Listener
    from autotune.core.ops.op import Contraction
    from autotune.core.payload import Argument, Payload
    from autotune.core.plugs.family import Baseline, Family
    from autotune.core.plugs.rewrites import Rewrites
    from autotune.core.space import Config, Constraint, Knob, Space
    from autotune.core.stats import is_different, ratio_interval
    from autotune.core.task import Task
    from autotune.core.trial import OUTCOMES, Samples, Trial
    from autotune.reports.front import compare, doctor, draw, importance, show, trials
    from autotune.tuning.by_hand import measure
    from autotune.tuning.front import tune
    from autotune.tuning.tunable import TunableTask, payload, script, tasks
    from autotune.worker.bench.verify import verify

# Module of each public name, as ``module`` or, if the name differs there, ``module:name``.
LAZY = {
    "OUTCOMES": "core.trial",
    "SILENT": "core.listener",
    "Argument": "core.payload",
    "AutotuneError": "core.errors",
    "Baseline": "core.plugs.family",
    "Bundle": "bundles.bundle",
    "BundleError": "core.errors",
    "ComparatorError": "core.errors",
    "CompileError": "core.errors",
    "Config": "core.space",
    "Constraint": "core.space",
    "Contraction": "core.ops.op",
    "Family": "core.plugs.family",
    "GenerationError": "core.errors",
    "Knob": "core.space",
    "Listener": "core.listener",
    "Machine": "core.host.machine",
    "MachineError": "core.errors",
    "OptionError": "core.errors",
    "PluginError": "core.errors",
    "Payload": "core.payload",
    "PayloadError": "core.errors",
    "ProofError": "core.errors",
    "Rewrites": "core.plugs.rewrites",
    "RuleError": "core.errors",
    "Samples": "core.trial",
    "ScheduleError": "core.errors",
    "Session": "bundles.session",
    "Space": "core.space",
    "SpaceError": "core.errors",
    "StoreError": "core.errors",
    "Task": "core.task",
    "Trial": "core.trial",
    "TunableTask": "tuning.tunable",
    "compare": "reports.front",
    "compile": "bundles.call:compile_payload",
    "doctor": "reports.front",
    "draw": "reports.front",
    "importance": "reports.front",
    "is_different": "core.stats",
    "measure": "tuning.by_hand",
    "payload": "tuning.tunable",
    "ratio_interval": "core.stats",
    "script": "tuning.tunable",
    "show": "reports.front",
    "tasks": "tuning.tunable",
    "this_machine": "core.host.machine",
    "trials": "reports.front",
    "tune": "tuning.front",
    "verify": "worker.bench.verify",
}

__all__ = [
    "OUTCOMES",
    "SILENT",
    "Argument",
    "AutotuneError",
    "Baseline",
    "Bundle",
    "BundleError",
    "ComparatorError",
    "CompileError",
    "Config",
    "Constraint",
    "Contraction",
    "Family",
    "GenerationError",
    "Knob",
    "Listener",
    "Machine",
    "MachineError",
    "OptionError",
    "Payload",
    "PayloadError",
    "PluginError",
    "ProofError",
    "Rewrites",
    "RuleError",
    "Samples",
    "ScheduleError",
    "Session",
    "Space",
    "SpaceError",
    "StoreError",
    "Task",
    "Trial",
    "TunableTask",
    "compare",
    "compile",
    "doctor",
    "draw",
    "importance",
    "is_different",
    "measure",
    "payload",
    "ratio_interval",
    "script",
    "show",
    "tasks",
    "this_machine",
    "trials",
    "tune",
    "verify",
]


def __getattr__(name: str) -> object:
    """Import a public name lazily from the module that defines it (PEP 562); ``__version__`` is that of the package."""
    if name == "__version__":
        return import_module("importlib.metadata").version("mlir-schedule-autotune")
    if name not in LAZY:
        return feature(name)
    module, _, attribute = LAZY[name].partition(":")
    value = getattr(import_module(f"autotune.{module}"), attribute or name)
    globals()[name] = value
    return value


def feature(name: str) -> object:
    """Load a module or function that a plug-in adds to this package by an entry point of ``autotune.modules``.

    Raises:
        AttributeError: There is no entry point of this name.
    """
    if name.startswith("_"):  # tools probe many such names, and a search for entry points reads files
        raise AttributeError(f"module 'autotune' has no attribute {name!r}")
    points = import_module("importlib.metadata").entry_points(group="autotune.modules", name=name)
    if not points:
        raise AttributeError(f"module 'autotune' has no attribute {name!r}")
    module: object = next(iter(points)).load()
    globals()[name] = module
    return module


def __dir__() -> list[str]:
    """Return the public names, including those that are not loaded yet."""
    return sorted(__all__)
