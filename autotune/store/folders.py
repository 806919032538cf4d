"""Default paths of stores, bundles and histories.

All are below `OUTPUT` in the current folder. The bundles and spaces that this project recorded are below ``results/``
of its repository; no command reads or writes there unless told to, so that a clone and an installed package behave
alike.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autotune.core.host.machine import Machine, this_machine

OUTPUT = Path("tuned")


def home(machine: Machine | None = None) -> Path:
    """Return the default folder for results of a machine, by default of this one.

    It does not depend on the number of threads.
    """
    machine = replace(machine, threads=1) if machine is not None else this_machine()
    return OUTPUT / f"{machine.microarchitecture}-{machine.fingerprint[:8]}"


def slug(payload: str) -> str:
    """Convert a payload's name to a file name."""
    return "".join(c if c.isalnum() or c in "=,._-" else "_" for c in payload)


def bundle_folder(
    payload: str,
    schedule: str = "",
    threads: int = 1,
    rules: Sequence[str] = (),
    machine: Machine | None = None,
) -> Path:
    """Return the default folder for the bundle of a payload.

    Bundles of a user script, of several threads or of other rewrite rules (given as on the command line) have a suffix
    in their name, so that all of them can coexist.
    """
    by = f"_by_{slug(Path(schedule).stem)}" if schedule and schedule != payload else ""
    on = f"_on_{threads}_threads" if threads > 1 else ""
    ruled = "".join(f"_with_{slug(Path(word).stem)}" for word in rules if not word.startswith("--"))
    ruled += "_exact" if "--exact" in rules else ""
    return home(machine) / "bundles" / (slug(payload) + by + ruled + on)


def recorded_spaces() -> list[Path]:
    """Return the folders of recorded spaces of all machines, which samplers may use as transfer data."""
    return sorted(OUTPUT.glob("*/spaces"))


def recorded_folders() -> list[Path]:
    """Return the folders of bundles of all machines, which searches may start from."""
    return sorted(OUTPUT.glob("*/bundles"))
