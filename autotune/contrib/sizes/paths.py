"""Paths of the files of a model of any size; imports little, since verbs look for such folders as they start."""

from pathlib import Path

from autotune.contrib.sizes.bounds import Sizes, name_of
from autotune.core.host.files import holds
from autotune.core.host.machine import Machine
from autotune.core.plugs.any_size import AnySizePrograms, AnySizeReader

SIZES, BUNDLES, DESCRIPTION = "sizes", "bundles", "sizes.json"


def is_sized(folder: str | Path) -> bool:
    """Return whether a folder holds a model of any size."""
    return holds(folder, DESCRIPTION)


def size_folder(folder: Path, sizes: Sizes) -> Path:
    """Return the folder of the imported model of one size."""
    return folder / SIZES / name_of(sizes)


def bundle_folder(folder: Path, sizes: Sizes) -> Path:
    """Return the folder of the bundle of one size."""
    return folder / BUNDLES / name_of(sizes)


def read_programs(folder: Path, machine: Machine | None = None) -> AnySizePrograms:
    """Return the programs of a folder's model; see `autotune.contrib.sizes.programs.programs_of`."""
    from autotune.contrib.sizes.programs import programs_of

    return programs_of(folder, machine)


FOLDERS = AnySizeReader(is_sized, read_programs)
