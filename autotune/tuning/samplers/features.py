"""Feature vectors of configs for cost models: the values of knobs, and features of the family."""

from collections.abc import Callable, Mapping

from autotune.core.host.machine import Machine
from autotune.core.plugs.family import Family
from autotune.core.space import Config, Knob, Space
from autotune.core.task import Task

Features = Callable[[Config], Mapping[str, float]]


def knob_features(config: Config) -> dict[str, float]:
    """Return the values of knobs as features: numbers as they are, strings one-hot encoded.

    Example:
        >>> knob_features({"tile_m": 64, "fuse": True, "order": "mnk"})
        {'tile_m': 64.0, 'fuse': 1.0, 'order=mnk': 1.0}
    """
    return {
        name if not isinstance(value, str) else f"{name}={value}": 1.0 if isinstance(value, str) else float(value)
        for name, value in config.items()
    }


def features_of(task: Task, family: Family, machine: Machine) -> Features:
    """Return the feature function of a task's configs: knobs, and the family's `features`."""

    def describe(config: Config) -> Mapping[str, float]:
        return knob_features(config) | dict(family.features(task, config, machine))

    return describe


def feature_names(space: Space, features: Features, default: Config) -> tuple[str, ...]:
    """Return the names of all features of a space's configs; those of the family are the same for every config."""
    knobs = (knob_features({knob.name: value}) for knob in space.knobs for value in knob.values)
    return tuple(sorted({name for described in (features(default), *knobs) for name in described}))


def is_ordered(knob: Knob) -> bool:
    """Return whether a knob is ordered: its values are integers, at least three."""
    return len(knob.values) > 2 and all(type(value) is int for value in knob.values)
