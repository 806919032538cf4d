"""The history of regression checks: a line of JSON a bundle and check, so that git merges it and anybody plots it.

Format history: 1 first version.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd

from autotune.errors import StoreError
from autotune.regress import Finding

FORMAT_VERSION = 1
COLUMNS = ("time", "payload", "verdict", "slowdown", "speedup", "low", "high", "machine", "compiler", "version")


def append_history(path: Path, findings: Sequence[Finding], when: datetime, about: dict[str, str]) -> None:
    """Add a line a finding.

    Args:
        path: The file; made where it is missing.
        findings: Of one check.
        when: It was.
        about: ``machine`` (a fingerprint), ``compiler`` and ``version`` (of this project).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for finding in findings:
            file.write(json.dumps(line(finding, when, about)) + "\n")


def line(finding: Finding, when: datetime, about: dict[str, str]) -> dict[str, Any]:
    """A finding as the history holds it."""
    speedup = finding.speedup
    return {
        "format_version": FORMAT_VERSION,
        "time": when.isoformat(timespec="seconds"),
        "payload": finding.payload,
        "verdict": finding.verdict,
        "slowdown": finding.slowdown,
        "speedup": speedup.estimate if speedup else None,
        "low": speedup.low if speedup else None,
        "high": speedup.high if speedup else None,
        **about,
    }


def read_history(path: Path) -> pd.DataFrame:
    """Every check, a row a bundle, in the order of the file; columns `COLUMNS`.

    Raises:
        StoreError: A line is none of this format.
    """
    rows = []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        try:
            data = json.loads(text)
            if data["format_version"] != FORMAT_VERSION:
                raise ValueError(f"format_version {data['format_version']}")
            rows.append({name: data[name] for name in COLUMNS})
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"lines of a history must be of format {FORMAT_VERSION}; {path} line {number}: {error!r}; restore it"
            ) from error
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.assign(time=pd.to_datetime(frame["time"], utc=True))


def junit(findings: Sequence[Finding]) -> str:
    """Findings as a JUnit report: alarms are failures, what could not be compared is skipped."""
    suite = ElementTree.Element(
        "testsuite",
        name="autotune regress",
        tests=str(len(findings)),
        failures=str(sum(finding.alarms for finding in findings)),
        skipped=str(sum(finding.verdict in ("stale", "inconclusive") for finding in findings)),
    )
    for finding in findings:
        case = ElementTree.SubElement(
            suite, "testcase", classname="bundles", name=finding.payload, time=f"{finding.seconds:.3f}"
        )
        said = f"{finding.verdict}: {finding.why}"
        if finding.alarms:
            ElementTree.SubElement(case, "failure", message=said).text = "\n".join(finding.notes)
        elif finding.verdict in ("stale", "inconclusive"):
            ElementTree.SubElement(case, "skipped", message=said)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
