"""What README and the how-to pages show runs: every block of Python and of shell, in order, in an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)
RUN = ("python", "sh")
SHOWN = (
    "console",
    "text",
    "toml",
    "mlir",
    "json",
    "yaml",
    "c",
    "make",
)  # for people who have this repository, a machine, a package


def blocks_of(page):
    """Language, file name and text of every block of a page."""
    return [match.groups() for match in BLOCK.finditer(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_run_or_said_to_be_shown(page):
    assert {language for language, _, _ in blocks_of(page)} <= {*RUN, *SHOWN}
    assert page.read_text().count("\n```") == 2 * len(blocks_of(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_of_a_page_run_in_an_empty_folder(page, tmp_path):
    blocks = blocks_of(page)
    for name, text in ((name, text) for _, name, text in blocks if name):
        (tmp_path / name).write_text(text)
    program = "".join(
        text if language == "python" else f"import subprocess\nsubprocess.run({text!r}, shell=True, check=True)\n"
        for language, name, text in blocks
        if language in RUN and not name
    )
    if not program:
        pytest.skip("nothing on this page runs")
    (tmp_path / "page.py").write_text(program)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "page.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "MPLBACKEND": "agg"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
