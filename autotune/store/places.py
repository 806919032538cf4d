"""Where things go by default, and what files are called: one rule for stores, bundles and histories."""

from pathlib import Path

from autotune.core.machine import this_machine


def home() -> Path:
    """Where results of this machine go by default."""
    machine = this_machine()
    return Path("results") / f"{machine.microarchitecture}-{machine.fingerprint[:8]}"


def slug(payload: str) -> str:
    """A payload's name as a file name."""
    return "".join(c if c.isalnum() or c in "=,._-" else "_" for c in payload)


def bundle_folder(payload: str, schedule: str = "") -> Path:
    """Where the bundle of a payload goes by default; one of a user's own schedule is kept beside that of families."""
    by = f"_by_{slug(Path(schedule).stem)}" if schedule and schedule != payload else ""
    return home() / "bundles" / (slug(payload) + by)


def recorded_folders() -> list[Path]:
    """Folders of bundles, of all machines, that searches may start from."""
    return sorted(Path("results").glob("*/bundles"))
