"""The array API standard's test suite, run on `autotune.tensor`, in docs/results.md: `measure`, then `render`.

The suite is that of github.com/data-apis/array-api-tests, a folder with its submodule; it needs the extra `array-api`.
`measure --suite FOLDER` runs it for some minutes, and goes on where it was stopped; once all tests have ended,
results/array_api.json is written. What is not run, and why: `array_api_plugin.py`.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from blocks import ROOT, Block, keep_all, load, run, table

from autotune import tensor

TARGET = ROOT / "array_api.json"
SUITE = "https://github.com/data-apis/array-api-tests"
RECORDS = ROOT.parent / "build" / "array_api"  # a line a test; a file for each suite and number of examples
RAN = (0, 1, 2, 5)  # exit codes of pytest: all passed, some not, stopped as the time was up, none left
HELPERS = "array_api_tests/dtype_helpers.py"
RECORD, SECONDS = "AUTOTUNE_ARRAY_API_RECORD", "AUTOTUNE_ARRAY_API_SECONDS"  # of the environment
ABSENT = ("int8", "int16", "uint8", "uint16", "uint32", "uint64", "float64", "complex64", "complex128")
COMPLEX = "in complex_dtypes], key=lambda x: x[1]\n"  # of nothing there is no widest
NEAREST = "in complex_dtypes] or [(xp.float32, 32)], key=lambda x: x[1]\n"
NAMES = {
    "array_object": "the tensor itself",
    "operators_and_elementwise_functions": "functions of elements, operators",
    "special_cases": "NaN, infinities, zeros",
    "has_names": "names",
    "inspection_functions": "what the namespace says of itself",
}


def measure(
    suite: Annotated[Path | None, typer.Option(help="The suite, a git checkout with its submodule.")] = None,
    examples: Annotated[int, typer.Option(help="Examples of a test; a tenth where elements are read one by one.")] = 20,
    seconds: Annotated[float, typer.Option(help="For how long tests are begun; call again for the others.")] = 3600.0,
) -> None:
    """Run what is left of the suite; without a suite, leave what is recorded."""
    if suite is None:
        typer.echo(f"no suite is given, what is recorded stays; clone {SUITE} and pass --suite", err=True)
        return
    commit = run(["git", "-C", str(suite), "rev-parse", "HEAD"]).strip()
    record = RECORDS / f"{commit[:12]}-{examples}.jsonl"
    record.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "suite"
        shutil.copytree(suite, copy, ignore=shutil.ignore_patterns(".git"))
        allow_no_complex(copy / HELPERS)
        left = run_suite(copy, record, examples, seconds)
    typer.echo(f"{left} tests are left; call measure again" if left else "all tests have ended", err=True)
    if not left:
        found = {
            "suite": commit,
            "standard": tensor.__array_api_version__,
            "examples": examples,
            "versions": {name: version(name) for name in ("hypothesis", "numpy", "pytest")},
            "tests": ends(record),
        }
        keep_all(TARGET, found)


def allow_no_complex(helpers: Path) -> None:
    """Let the suite be imported for a namespace without complex numbers, whose widest one it asks for.

    The line is changed in a copy; complex numbers are drawn for no test that is run.
    """
    text = helpers.read_text()
    if text.count(COMPLEX) != 1:
        sys.exit(f"the suite must ask for the widest complex type once, in {HELPERS}; try commit 55fcc60179ef")
    helpers.write_text(text.replace(COMPLEX, NEAREST))


def run_suite(suite: Path, record: Path, examples: int, seconds: float) -> int:
    """Run tests that a record lacks; gives how many are left."""
    around = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | {
        "PYTHONPATH": str(ROOT),
        "ARRAY_API_TESTS_MODULE": tensor.__name__,
        "ARRAY_API_TESTS_SKIP_DTYPES": ",".join(ABSENT),
        RECORD: str(record.resolve()),
        SECONDS: str(seconds),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "array_api_plugin", "-p", "no:cacheprovider", "--tb=short"]
    command += ["--derandomize", "--disable-deadline", f"--max-examples={examples}", "array_api_tests"]
    done = subprocess.run(command, check=False, cwd=suite, env=around, capture_output=True, text=True)
    listing = [*command, "--collect-only"]
    if done.returncode not in RAN:
        print(done.stdout[-4000:], done.stderr[-2000:], file=sys.stderr)
        print(f"the process ended with {done.returncode}; what it ran has failed", file=sys.stderr)
    listed = subprocess.run(listing, check=False, cwd=suite, env=around, capture_output=True, text=True)
    return sum("::" in line for line in listed.stdout.splitlines())


def ends(record: Path) -> dict[str, dict[str, Any]]:
    """How the tests of each file ended: the number that passed, those that failed, those not run by their reason."""
    found: dict[str, dict[str, Any]] = {}
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    for one in {line["test"]: line for line in lines if line["end"] != "began"}.values():
        file, _, name = one["test"].partition("::")
        group = found.setdefault(Path(file).stem.removeprefix("test_"), {"passed": 0, "failed": {}, "not run": {}})
        if one["end"] == "passed":
            group["passed"] += 1
        elif one["end"] == "failed":
            group["failed"][name] = one["said"]
        else:
            group["not run"].setdefault(one["said"], []).append(name)
    return dict(sorted(found.items()))


def part(path: Path) -> str:
    """The table of a run, and why tests are not run."""
    found = load(path)
    groups = found["tests"]
    passed, failed = sum(g["passed"] for g in groups.values()), sum(len(g["failed"]) for g in groups.values())
    reasons: Counter[str] = Counter()
    for group in groups.values():
        reasons.update({why: len(names) for why, names in group["not run"].items()})
    rows = [
        f"| {NAMES.get(name, name.replace('_functions', '').replace('_', ' '))} | {group['passed']} | "
        f"{len(group['failed'])} | {sum(map(len, group['not run'].values()))} |"
        for name, group in groups.items()
    ]
    rows += [f"| **all** | **{passed}** | **{failed}** | **{sum(reasons.values())}** |"]
    why = "".join(f"- {count}: {reason}.\n" for reason, count in reasons.most_common())
    return (
        f"\nOf {passed + failed} tests for what tensors have, {passed} pass, {passed / (passed + failed):.1%}; version "
        f"{found['standard']} of the standard, suite of commit `{found['suite'][:12]}`, {found['examples']} examples a "
        f"test and a tenth of it where elements are read one by one, not random.\n\n"
        + table(("tests of", "passed", "failed", "not run"), rows)
        + f"\nNot run, since tensors do not have it:\n\n{why}{failures(groups)}\n"
    )


def failures(groups: dict[str, dict[str, Any]]) -> str:
    """The tests that fail, by name."""
    names = [name for group in groups.values() for name in group["failed"]]
    return f"\nWhat fails: {', '.join(f'`{name}`' for name in names)}.\n" if names else ""


BLOCK = Block("array_api", part, measure, TARGET.name)


if __name__ == "__main__":
    BLOCK.serve()
