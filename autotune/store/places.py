"""Where things go by default, and what files are called: one rule for stores, bundles and histories.

All lies below `OUTPUT` in the current folder, which is the user's own. The bundles and spaces that this project
recorded lie below ``results/`` of its repository: no verb reads or writes there unless it is named, so that a
clone and an installed package behave alike.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autotune.core.host.machine import Machine, this_machine

OUTPUT = Path("tuned")


def home(machine: Machine | None = None) -> Path:
    """Where results of a machine go by default; of this one if none is given.

    Those of several threads lie where those of one do.
    """
    machine = replace(machine, threads=1) if machine is not None else this_machine()
    return OUTPUT / f"{machine.microarchitecture}-{machine.fingerprint[:8]}"


def slug(payload: str) -> str:
    """A payload's name as a file name."""
    return "".join(c if c.isalnum() or c in "=,._-" else "_" for c in payload)


def bundle_folder(
    payload: str,
    schedule: str = "",
    threads: int = 1,
    rules: Sequence[str] = (),
    machine: Machine | None = None,
) -> Path:
    """Where the bundle of a payload goes by default, for this machine or another one.

    One of a user's own schedule is kept beside that of families, one of several threads beside that of one, and one
    with other rewrite rules, which are given as the command line has them, beside that of ours.
    """
    by = f"_by_{slug(Path(schedule).stem)}" if schedule and schedule != payload else ""
    on = f"_on_{threads}_threads" if threads > 1 else ""
    ruled = "".join(f"_with_{slug(Path(word).stem)}" for word in rules if not word.startswith("--"))
    ruled += "_exact" if "--exact" in rules else ""
    return home(machine) / "bundles" / (slug(payload) + by + ruled + on)


def recorded_spaces() -> list[Path]:
    """Folders of recorded spaces, of all machines, that samplers may learn from."""
    return sorted(OUTPUT.glob("*/spaces"))


def recorded_folders() -> list[Path]:
    """Folders of bundles, of all machines, that searches may start from."""
    return sorted(OUTPUT.glob("*/bundles"))
