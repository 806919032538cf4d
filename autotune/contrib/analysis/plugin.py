"""The feature's section of `report`."""

from pathlib import Path
from typing import TYPE_CHECKING

from autotune.plugins import PageSection

if TYPE_CHECKING:
    from autotune.reports.sections.blocks import Section


def section_of(folder: Path) -> "Section":
    """The section of a bundle's folder."""
    from autotune.contrib.analysis.analysed import analyse_bundle
    from autotune.contrib.analysis.section import analysed

    return analysed(analyse_bundle(folder))


SECTION = PageSection("What can be known before it runs, as `show --stage analysis`.", section_of)
