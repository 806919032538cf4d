"""What serves a folder's model, for `emit`: its programs as they were tuned, or for a machine of another level."""

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
    """All that serves the model of a folder.

    Args:
        folder: The folder.
        machine: Machine of default schedules; `None` for what is recorded.

    Raises:
        PayloadError: A file is missing or damaged.
        BundleError: The bundle of a size is refused.
    """
    model = read_sized(folder)
    if machine is not None:
        model = regrained(folder, model, machine)
    programs = tuple(prepare(folder, model, number, machine) for number in range(len(model.sizes)))
    sizes = tuple(each.sizes for each in model.sizes)
    return AnySizePrograms(model.source, model.dims, model.axes, sizes, programs, model.served, CALL_SECONDS, SETTER)


def regrained(folder: Path, model: SizedModel, machine: Machine) -> SizedModel:
    """A model whose loops end where those of default schedules for a machine may; its seconds are as they were."""
    grains = grains_of(folder, model.dims, model.axes, [each.sizes for each in model.sizes], machine)
    sizes = tuple(replace(each, grain=grain) for each, grain in zip(model.sizes, grains, strict=True))
    return replace(model, sizes=sizes)
