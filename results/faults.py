"""Faults that are injected by tests, in docs/results.md: run those tests (`measure`), write their table (`render`).

A fault is a test: what somebody or something does wrong, and what must become of it. All of them run in one process of
pytest for each core, so that what they share is made once.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

from blocks import ROOT, Block, file_of, keep_all, load, table

from autotune.core.host.machine import this_machine
from autotune.tuning.stages.record import versions
from autotune.worker.isolation.sandbox import available_mechanisms

NAME = "faults.json"
HEAD = ("injected", "faults", "as promised", "skipped", "what must become of it")
LIMIT_SECONDS = 1200.0  # on a machine that is busy; a quiet one needs less than three minutes
RAN = (0, 1)  # exit codes of pytest: all as promised, or some not
# Files of tests, and the promise that each case of them is about.
GROUPS = {
    "bundles, payloads, scripts and stores that mean harm": (
        ["tests/bundles/test_hostile.py"],
        "refused in one line, exit code 2",
    ),
    "bundles and stores that name files": (["tests/bundles/test_known.py"], "no such file is opened"),
    "damaged bundles": (["tests/store/test_bundle.py"], "refused in one line that names the file"),
    "machine code that reaches out of the sandbox": (["tests/worker/test_sandbox.py"], "refused; the sweep goes on"),
    "processes that answer with nonsense": (["tests/worker/test_answers.py"], "an outcome; nothing of it is run"),
    "candidates that crash, hang, flood or lie": (
        ["tests/worker/test_faults.py", "tests/worker/test_worker.py"],
        "an outcome; the next candidate is fine",
    ),
    "stores that are torn, damaged, shared or full": (
        [
            *(f"tests/store/test_{name}.py" for name in ("journal", "damage", "sharing", "full_disk")),
            *(f"tests/contrib/postgres/test_{name}.py" for name in ("postgres", "outage")),
        ],
        "nothing finished is lost",
    ),
    "limits of the system, folders that are gone": (
        ["tests/cli/test_surroundings.py"],
        "done, or one line that says it",
    ),
    "options of every verb": (["tests/cli/test_option_laws.py"], "done, or one line and exit code 2"),
}


def measure() -> None:
    """Run the tests that inject faults; two or three minutes on a quiet machine."""
    begun, load = time.perf_counter(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        cases = read_report(run_tests(Path(folder) / "report.xml"))
    groups = {name: {"promise": promise, **count(cases, files)} for name, (files, promise) in GROUPS.items()}
    empty = [name for name, found in groups.items() if not found["injected"] and not found["skipped"]]
    if empty:
        sys.exit(f"each group must hold tests that run, {empty[0]} holds none")
    found = {
        "machine": asdict(this_machine()),
        "walls": available_mechanisms(),
        "versions": asdict(versions()),
        "load": load,
        "seconds": time.perf_counter() - begun,
        "groups": groups,
    }
    target = file_of(NAME)
    keep_all(target, found)


def run_tests(report: Path) -> Path:
    """Run all tests of all groups; gives the report, or ends with what pytest said."""
    files = [file for files, _ in GROUPS.values() for file in files]
    cores = str(len(os.sched_getaffinity(0)))
    command = [sys.executable, "-m", "pytest", "-q", "-n", cores, "-o", "junit_family=xunit1", f"--junitxml={report}"]
    around = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    try:
        done = subprocess.run(
            [*command, *files],
            check=False,
            cwd=ROOT.parent,
            env=around,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        sys.exit(f"tests must end within {LIMIT_SECONDS:.0f} s, they did not; try again on a quieter machine")
    print(done.stdout[-2000:], file=sys.stderr)
    if done.returncode not in RAN:
        sys.exit(f"tests must run, pytest ended with exit code {done.returncode}: {done.stderr[-500:]}")
    return report


def read_report(report: Path) -> Counter[tuple[str, str]]:
    """How many tests there are of each file and each end: ``kept``, ``broken`` or ``skipped``."""
    found: Counter[tuple[str, str]] = Counter()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        ends = {child.tag for child in case}
        end = "broken" if ends & {"failure", "error"} else "skipped" if "skipped" in ends else "kept"
        found[case.attrib["file"], end] += 1
    return found


def count(cases: Counter[tuple[str, str]], files: list[str]) -> dict[str, int]:
    """Cases of some files: all that ran, those as promised, and those skipped."""
    kept, broken, skipped = (sum(cases[file, end] for file in files) for end in ("kept", "broken", "skipped"))
    return {"injected": kept + broken, "kept": kept, "skipped": skipped}


def part(path: Path) -> str:
    """A machine's faults."""
    found = load(path)
    machine, mechanisms = found["machine"], " and ".join(found["walls"]) or "no mechanism"
    rows = [
        f"| {name} | {each['injected']} | {each['kept']} | {each['skipped']} | {each['promise']} |"
        for name, each in found["groups"].items()
    ]
    around = f"Python {found['versions']['python']}, {found['versions']['compiler']}, sandbox of {mechanisms}"
    return (
        f"\nIn `results/{path.parent.name}`: {machine['cpu']}, {machine['isa']}, {machine['cores']} cores, {around}; "
        f"{found['seconds']:.0f} s, load {found['load']:.1f} when it began:\n\n" + table(HEAD, rows)
    )


BLOCK = Block("faults", part, measure)


if __name__ == "__main__":
    BLOCK.serve()
