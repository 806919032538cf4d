"""What README and the how-to pages show runs: every block of Python and of shell, in order, in an empty folder.

It runs as it stands, but with `MOST_TRIALS` at most and measured without care, as no page is about speed; see
`page_programs/sitecustomize.py`.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from warm_pythons import COMMAND, CONVERTERS, PAGE_PROGRAMS, PLACE, WarmPython

from autotune.store.folders import home

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)
RUN = ("python", "sh")
BIN = Path(sys.executable).parent
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

MOST_TRIALS = 2
TRIALS = re.compile(r'(trials(?:[ =]|": ))(\d+)')

SHARED = "autotune tune softmax,rows=16,cols=128 --trials 6 --store mine.journal --bundle mine.bundle\n"


@dataclass(frozen=True)
class Place:
    """Where pages run: in an environment in which commands and keepers start in milliseconds, as they do."""

    commands: WarmPython
    environment: dict

    def run(self, program):
        """Exit code of a program, and what it wrote; of one with PyTorch in a new Python, as import order matters."""
        if re.search("^import torch$", program.read_text(), re.M):
            command = [sys.executable, program.name]
            given = {"cwd": program.parent, "env": self.environment, "capture_output": True, "text": True}
            done = subprocess.run(command, check=False, **given)
            return done.returncode, done.stderr
        with tempfile.TemporaryFile("w+") as said:
            code = self.commands.run_program(program, self.environment, said)
            said.seek(0)
            return code, said.read()


@pytest.fixture(scope="session")
def warmly(tmp_path_factory, warm_keepers):
    """Where pages run."""
    commands, folder = WarmPython(COMMAND), tmp_path_factory.mktemp("commands")
    commands.write_command(folder / "autotune")
    path = f"{folder}{os.pathsep}{BIN}{os.pathsep}{os.environ['PATH']}"
    mine = {"MPLBACKEND": "agg", "PYTHONPATH": str(PAGE_PROGRAMS), PLACE: warm_keepers.place, "PATH": path}
    yield Place(commands, os.environ | mine)
    commands.close()


@pytest.fixture(scope="session")
def shared(tmp_path_factory, warmly):
    """The folder that the command several pages begin with leaves behind; it is run once, whichever page is first."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared-page"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "mine.bundle").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            run([("sh", SHARED)], folder, warmly)
    return folder


def blocks_of(page):
    """Language, file name and text of every block of a page."""
    return [match.groups() for match in BLOCK.finditer(page.read_text())]


def steps_of(page, folder):
    """Language and text of what a page runs, its files written into a folder."""
    blocks = blocks_of(page)
    for name, text in ((name, text) for _, name, text in blocks if name):
        (folder / name).write_text(text)
    return [(language, text) for language, name, text in blocks if language in RUN and not name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_run_or_said_to_be_shown(page):
    assert {language for language, _, _ in blocks_of(page)} <= {*RUN, *SHOWN}
    assert page.read_text().count("\n```") == 2 * len(blocks_of(page))


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.name)
def test_blocks_of_a_page_run_in_an_empty_folder(page, request, warmly, tmp_path):
    steps = steps_of(page, tmp_path)
    if any(re.search("^import torch$", text, re.M) for _, text in steps):
        if find_spec("torch") is None:
            pytest.skip("PyTorch is not installed: pip install '.[test,torch]'")
        converters = {CONVERTERS: request.getfixturevalue("program_converters").place}
        warmly = replace(warmly, environment=warmly.environment | converters)
    if not steps:
        pytest.skip("nothing on this page runs")
    if steps[0] == ("sh", SHARED):
        shutil.copytree(request.getfixturevalue("shared"), tmp_path, dirs_exist_ok=True)
        steps = steps[1:]
    run(steps, tmp_path, warmly)


# What the README shows for people, and what they do with a winner, each where most would overwrite something.
IN_A_CLONE = """autotune tune matmul,m=64,n=64,k=64 --trials 2
autotune compare softmax,rows=16,cols=128 --against numpy
autotune report mine.bundle
autotune emit mine.bundle
autotune regress mine.bundle --quick --patience 0 || test $? = 1 -o $? = 3
"""
DEMO = f"from autotune.contrib.demo import verb\nverb.TRIALS = {MOST_TRIALS}\nverb.demo()\n"


def test_blocks_of_the_readme_run_and_leave_a_clone_as_it_was(warmly, tmp_path):
    """`git status` is clean after each, also where winners of this kind of machine are recorded."""
    recorded = next((ROOT / "results").glob("*/bundles/matmul_m64_n64_k64"))
    shutil.copy(ROOT / ".gitignore", tmp_path)
    shutil.copytree(recorded, tmp_path / "results" / home().name / "bundles" / recorded.name)
    for command in ("init --quiet", "add --all", "-c user.name=a -c user.email=a@b commit --quiet -m recorded"):
        in_git(tmp_path, command)
    steps = steps_of(ROOT / "README.md", tmp_path)
    for some in (steps, [("python", DEMO)], *([("sh", line)] for line in IN_A_CLONE.splitlines())):
        run(some, tmp_path, warmly)
        (tmp_path / "page.py").unlink()
        assert in_git(tmp_path, "status --porcelain --untracked-files=all") == "", some


def in_git(folder, command):
    """What a command of git says in a folder."""
    return subprocess.run(["git", *command.split()], cwd=folder, capture_output=True, text=True, check=True).stdout


def run(steps, folder, where):
    """Run blocks as one program, so that what Python defines is there for the next block."""
    program = "".join(
        text if language == "python" else f"import shell\nshell.run({text!r})\n" for language, text in steps
    )
    few = TRIALS.sub(lambda found: f"{found[1]}{min(int(found[2]), MOST_TRIALS)}", program)
    (folder / "page.py").write_text(few)
    code, said = where.run(folder / "page.py")
    assert code == 0, said[-3000:]
