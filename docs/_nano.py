"""What MkDocs does more when it builds the documentation: nano's schedule, step by step, becomes a page of it."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import autotune as at
from autotune.contrib.debug.page import write_page

BUNDLES = Path(__file__).parents[1] / "results"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page to what is built."""
    bundle = next(BUNDLES.glob("*/bundles/nano"))
    files.append(File.generated(config, "how-to/nano.html", content=write_page(at.debug(str(bundle)))))
    return files
