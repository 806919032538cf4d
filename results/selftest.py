"""What the tuner promises and does, in docs/results.md: run the self-test (`measure`), write its table (`render`).

The command keeps its report below tuned/; `measure` records it as results/<machine>/selftest.json.
"""

import subprocess
import sys
from pathlib import Path

from blocks import ROOT, Block, file_of, keep_all, load, table

from autotune.contrib.selftest.figures import Figure
from autotune.store.folders import home as written

BROKEN = 1  # exit code where a promise is broken, which is a result too


HEAD = ("promise", "measured", "must be", "", "how")


def measure() -> None:
    """Run the self-test; about forty minutes."""
    done = subprocess.run(["autotune", "doctor", "--self"], check=False, cwd=ROOT.parent)
    if done.returncode not in (0, BROKEN):
        sys.exit(done.returncode)
    keep_all(file_of("selftest"), load(ROOT.parent / written() / "selftest.json"))


def part(path: Path) -> str:
    """A machine's promises."""
    found = load(path)
    machine = found["machine"]
    rows = [row(Figure(**figure)) for figure in found["figures"]]
    return (
        f"\nIn `results/{path.parent.name}`: {machine['cpu']}, {machine['isa']}, {machine['cores']} cores, load "
        f"{found['load']:.1f} when it began:\n\n" + table(HEAD, rows)
    )


def row(figure: Figure) -> str:
    """One line of the table."""
    kept = "kept" if figure.holds else "broken"
    return f"| {figure.name} | {figure.shown} | {figure.law} | {kept} | {figure.detail} |"


BLOCK = Block("selftest", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
