"""Section of `report` with the static analyses of a bundle."""

from pathlib import Path
from typing import TYPE_CHECKING

from autotune.plugins import PageSection

if TYPE_CHECKING:
    from autotune.reports.sections.blocks import Section


def section_of(folder: Path) -> "Section":
    """Analyse the bundle in a folder and return its section."""
    from autotune.contrib.analysis.analysed import analyse_bundle
    from autotune.contrib.analysis.section import analysed

    return analysed(analyse_bundle(folder))


SECTION = PageSection("What can be known before it runs, as `show --stage analysis`.", section_of)
