"""Programs of a folder's model for `emit`: as tuned, or with default schedules for another machine."""

from dataclasses import replace
from pathlib import Path

from autotune.contrib.sizes.calls import prepare
from autotune.contrib.sizes.folder import SizedModel, read_sized
from autotune.contrib.sizes.making import grains_of
from autotune.contrib.sizes.plan import CALL_SECONDS
from autotune.contrib.sizes.upper_bounds import SETTER
from autotune.core.host.machine import Machine
from autotune.core.plugs.any_size import AnySizePrograms


def programs_of(folder: Path, machine: Machine | None = None) -> AnySizePrograms:
    """Return all programs of a folder's model.

    Args:
        folder: The folder.
        machine: Machine of default schedules; `None` for the recorded candidates.

    Raises:
        PayloadError: A file is missing or damaged.
        BundleError: The bundle of a size is rejected.
    """
    model = read_sized(folder)
    if machine is not None:
        model = regrained(folder, model, machine)
    programs = tuple(prepare(folder, model, number, machine) for number in range(len(model.sizes)))
    sizes = tuple(each.sizes for each in model.sizes)
    return AnySizePrograms(model.source, model.dims, model.axes, sizes, programs, model.served, CALL_SECONDS, SETTER)


def regrained(folder: Path, model: SizedModel, machine: Machine) -> SizedModel:
    """Return a model with the grains of default schedules for a machine; its seconds are unchanged."""
    grains = grains_of(folder, model.dims, model.axes, [each.sizes for each in model.sizes], machine)
    sizes = tuple(replace(each, grain=grain) for each, grain in zip(model.sizes, grains, strict=True))
    return replace(model, sizes=sizes)
