"""Faults that are injected by tests, in docs/results.md: run those tests (`measure`), write their table (`render`).

A fault is a test: what somebody or something does wrong, and what must become of it.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from blocks import ROOT, home, serve, table

NAME = "faults.json"
HEAD = ("injected", "faults", "as promised", "skipped", "what must become of it")
# Files of tests, and the promise that each case of them is about.
GROUPS = {
    "bundles, payloads, scripts and stores that mean harm": (
        ["tests/bundles/test_hostile.py"],
        "refused in one line, exit code 2",
    ),
    "damaged bundles": (["tests/store/test_bundle.py"], "refused in one line that names the file"),
    "machine code that reaches out of the sandbox": (["tests/worker/test_sandbox.py"], "refused; the sweep goes on"),
    "processes that answer with nonsense": (["tests/worker/test_answers.py"], "an outcome; nothing of it is run"),
    "candidates that crash, hang, flood or lie": (
        ["tests/worker/test_faults.py", "tests/worker/test_worker.py"],
        "an outcome; the next candidate is fine",
    ),
    "stores that are torn, shared or full": (
        ["tests/store/test_journal.py", "tests/store/test_sharing.py"],
        "nothing finished is lost",
    ),
    "options of every verb": (["tests/cli/test_option_laws.py"], "done, or one line and exit code 2"),
}


def measure() -> None:
    """Run the tests that inject faults; about ten minutes."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, (files, promise)) in enumerate(GROUPS.items()):
            report = Path(folder) / f"{number}.xml"
            command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *files]
            subprocess.run(command, check=False, cwd=ROOT.parent, stdout=subprocess.DEVNULL)
            found[name] = {"promise": promise, **count(report)}
    target = home() / NAME
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(found, indent=1) + "\n")


def count(report: Path) -> dict[str, int]:
    """Cases of a report of pytest: all that ran, those as promised, and those skipped."""
    suite = ElementTree.parse(report).getroot().find("testsuite")
    if suite is None:
        sys.exit(f"{report} must hold a suite of tests, it does not")
    total, skipped = int(suite.attrib["tests"]), int(suite.attrib["skipped"])
    wrong = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
    return {"injected": total - skipped, "kept": total - skipped - wrong, "skipped": skipped}


def part(path: Path) -> str:
    """A machine's faults."""
    rows = [
        f"| {name} | {each['injected']} | {each['kept']} | {each['skipped']} | {each['promise']} |"
        for name, each in json.loads(path.read_text()).items()
    ]
    return f"\nIn `results/{path.parent.name}`:\n\n" + table(HEAD, rows)


if __name__ == "__main__":
    serve("faults", measure, part, NAME)
