"""What a regression check tells others: the terminal, a line a bundle; the history; a CI server."""

from collections.abc import Sequence
from datetime import datetime
from xml.etree import ElementTree

from rich.table import Table

from autotune.history import FORMAT_VERSION, Check
from autotune.machine import this_machine
from autotune.recording import versions
from autotune.regress import Finding
from autotune.tables import out


def show_findings(findings: Sequence[Finding]) -> None:
    """Verdicts, and what is not as it was recorded."""
    table = Table(box=None, pad_edge=False)
    for column in ("verdict", "payload", "speed-up", "recorded", "why"):
        table.add_column(column, overflow="fold", justify="right" if column in ("speed-up", "recorded") else "left")
    for finding in findings:
        now, then = (f"{i.estimate:.4g}x" if i is not None else "-" for i in (finding.speedup, finding.recorded))
        table.add_row(finding.verdict, finding.payload, now, then, finding.why)
    console = out()
    console.print(table)
    for finding in findings:
        for note in finding.notes:
            console.print(f"  {finding.payload}: {note}", soft_wrap=True)


def to_checks(findings: Sequence[Finding], when: datetime) -> list[Check]:
    """Findings of this machine and compiler as the history holds them."""
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
