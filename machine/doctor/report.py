"""Prints findings as text or JSON."""

import json
from collections.abc import Iterable
from dataclasses import asdict

from machine.doctor.diagnosis import exit_code
from machine.doctor.finding import Finding, Severity
from machine.text import wrapped

SCHEMA = 1
_ORDER = {Severity.FAIL: 0, Severity.WARN: 1, Severity.COULD_NOT_RUN: 2, Severity.OK: 3}
_LABELS = {Severity.COULD_NOT_RUN: "?"}
_WORDS = {0: "nothing to mend", 1: "works, with something to know", 2: "something to mend"}


def as_text(findings: tuple[Finding, ...]) -> str:
    """What to do first, then everything that was seen."""
    lines = [f"Sotaque's doctor: {_WORDS[exit_code(findings)]}."]
    lines += wrapped(_chosen(findings), "")
    if steps := fixes(findings):
        lines += ["", "In this order:"]
        for number, step in enumerate(steps, start=1):
            lines.append(f"  {number}. {step}")
    lines += ["", "What was seen:"]
    width = max(len(finding.id) for finding in findings)
    for finding in findings:
        lines += _finding_lines(finding, width)
    if exit_code(findings):
        lines += ["", "docs/errors.md explains the commonest errors by their text."]
    return "\n".join(lines) + "\n"


def as_json(findings: tuple[Finding, ...]) -> str:
    """{schema, exit_code, fixes, findings}: names and statuses stay, texts may get better."""
    found = {
        "schema": SCHEMA,
        "exit_code": exit_code(findings),
        "fixes": fixes(findings),
        "findings": [asdict(finding) for finding in findings],
    }
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def fixes(findings: Iterable[Finding]) -> list[str]:
    """The lines that mend, each once: failures first, both in the order of the checks."""
    wanting = [one for one in findings if one.fix and one.status is not Severity.OK]
    wanting.sort(key=lambda finding: _ORDER[finding.status])
    return list(dict.fromkeys(finding.fix for finding in wanting))


def _chosen(findings: Iterable[Finding]) -> str:
    """What most people came for: where a run would compute."""
    device = next((one for one in findings if one.id == "device"), None)
    if device is None or device.status is Severity.COULD_NOT_RUN:
        return "Where a run would compute is not known."
    if device.status is Severity.FAIL:
        return f"A run would not start now. {device.meaning}"
    return f"A run that is started now computes on {device.observed}: {device.meaning}"


def _finding_lines(finding: Finding, width: int) -> list[str]:
    label = _LABELS.get(finding.status, finding.status.value)
    indent = " " * (width + 8)
    lines = wrapped(finding.observed, indent, f"{label:<4}  {finding.id:<{width}}  ")
    if finding.status is not Severity.OK and finding.expected:
        lines += wrapped(f"wanted: {finding.expected}", indent)
    if finding.id != "device":  # shown at the top
        lines += wrapped(finding.meaning, indent)
    if finding.fix:
        lines.append(f"{indent}-> {finding.fix}")
    if finding.evidence and finding.status is not Severity.OK:
        lines += wrapped(f"seen in: {finding.evidence}", indent)
    return lines
