"""Configs as numbers that a model learns from: their knobs, and what their family knows of them."""

from collections.abc import Callable, Mapping

from autotune.core.host.machine import Machine
from autotune.core.plugs.family import Family
from autotune.core.space import Config, Knob, Space
from autotune.core.task import Task

Features = Callable[[Config], Mapping[str, float]]


def knob_features(config: Config) -> dict[str, float]:
    """Knobs as numbers: whole ones as logarithms are cut alike by trees, so as they are; texts as one number each.

    Example:
        >>> knob_features({"tile_m": 64, "fuse": True, "order": "mnk"})
        {'tile_m': 64.0, 'fuse': 1.0, 'order=mnk': 1.0}
    """
    return {
        name if not isinstance(value, str) else f"{name}={value}": 1.0 if isinstance(value, str) else float(value)
        for name, value in config.items()
    }


def features_of(task: Task, family: Family, machine: Machine) -> Features:
    """Features of a task's configs: knobs, and what the family's `features` gives."""

    def describe(config: Config) -> Mapping[str, float]:
        return knob_features(config) | dict(family.features(task, config, machine))

    return describe


def feature_names(space: Space, features: Features, default: Config) -> tuple[str, ...]:
    """Names of the features of a space's configs: knobs have those of all their values, families the same for all."""
    knobs = (knob_features({knob.name: value}) for knob in space.knobs for value in knob.values)
    return tuple(sorted({name for found in (features(default), *knobs) for name in found}))


def is_ordered(knob: Knob) -> bool:
    """Return whether a knob's values lie on a line: integers, at least three."""
    return len(knob.values) > 2 and all(type(value) is int for value in knob.values)
