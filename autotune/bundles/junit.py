"""Outputs of a regression check: the history file, and a JUnit report for CI servers."""

from collections.abc import Sequence
from datetime import datetime
from xml.etree import ElementTree

from autotune.bundles.finding import RegressionFinding
from autotune.core.host.machine import this_machine
from autotune.core.payload import UNPROVED
from autotune.store.history import FORMAT_VERSION, Check
from autotune.tuning.stages.record import versions


def to_checks(findings: Sequence[RegressionFinding], when: datetime) -> list[Check]:
    """Convert findings on this machine and compiler to entries of the history."""
    machine, compiler, version = this_machine().fingerprint, versions().compiler, versions().autotune
    return [
        Check(
            format_version=FORMAT_VERSION,
            time=when,
            payload=finding.payload,
            verdict=finding.verdict,
            slowdown=finding.slowdown,
            speedup=finding.speedup.estimate if finding.speedup else None,
            low=finding.speedup.low if finding.speedup else None,
            high=finding.speedup.high if finding.speedup else None,
            machine=machine,
            compiler=compiler,
            version=version,
        )
        for finding in findings
    ]


def junit(findings: Sequence[RegressionFinding]) -> str:
    """Return a JUnit report of findings: alarms are failures; stale and inconclusive ones are skipped."""
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
        if finding.unproved:
            properties = ElementTree.SubElement(case, "properties")
            ElementTree.SubElement(properties, "property", name="oracle", value=UNPROVED)
        message = f"{finding.verdict}: {finding.why}"
        if finding.alarms:
            ElementTree.SubElement(case, "failure", message=message).text = "\n".join(finding.notes)
        elif finding.verdict in ("stale", "inconclusive"):
            ElementTree.SubElement(case, "skipped", message=message)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
