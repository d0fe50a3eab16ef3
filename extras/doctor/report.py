"""Prints findings as text or JSON."""

import json
from collections.abc import Iterable
from dataclasses import asdict

from extras.doctor.diagnosis import exit_code
from extras.doctor.finding import Finding, Severity
from machine.text import wrap

SCHEMA = 1
_ORDER = {Severity.FAIL: 0, Severity.WARN: 1, Severity.COULD_NOT_RUN: 2, Severity.OK: 3}
_LABELS = {Severity.COULD_NOT_RUN: "?"}
_WORDS = {0: "nothing to fix", 1: "it works, with warnings", 2: "there are faults to fix"}


def as_text(findings: tuple[Finding, ...]) -> str:
    """The report as text: what to do first, then every finding."""
    lines = [f"Sotaque's doctor: {_WORDS[exit_code(findings)]}."]
    lines += wrap(_chosen_device(findings), "")
    if steps := fixes(findings):
        lines += ["", "Do this, in this order:"]
        for number, step in enumerate(steps, start=1):
            lines.append(f"  {number}. {step}")
    lines += ["", "Findings:"]
    width = max(len(finding.id) for finding in findings)
    for finding in findings:
        lines += _finding_lines(finding, width)
    if exit_code(findings):
        lines += ["", "docs/errors.md explains the most common errors by their text."]
    return "\n".join(lines) + "\n"


def as_json(findings: tuple[Finding, ...]) -> str:
    """{schema, exit_code, fixes, findings}: names and statuses are stable, texts may change."""
    content = {
        "schema": SCHEMA,
        "exit_code": exit_code(findings),
        "fixes": fixes(findings),
        "findings": [asdict(finding) for finding in findings],
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def fixes(findings: Iterable[Finding]) -> list[str]:
    """The fixes, each once: of failures first, then of warnings, in the order of the checks."""
    wanting = [finding for finding in findings if finding.fix and finding.status is not Severity.OK]
    wanting.sort(key=lambda finding: _ORDER[finding.status])
    return list(dict.fromkeys(finding.fix for finding in wanting))


def _chosen_device(findings: Iterable[Finding]) -> str:
    """The device that a run would use, which is what most users want to know."""
    device = next((finding for finding in findings if finding.id == "device"), None)
    if device is None or device.status is Severity.COULD_NOT_RUN:
        return "The device of a run is unknown."
    if device.status is Severity.FAIL:
        return f"A run would not start. {device.meaning}"
    return f"A run would compute on {device.observed}: {device.meaning}"


def _finding_lines(finding: Finding, width: int) -> list[str]:
    label = _LABELS.get(finding.status, finding.status.value)
    indent = " " * (width + 8)
    lines = wrap(finding.observed, indent, f"{label:<4}  {finding.id:<{width}}  ")
    if finding.status is not Severity.OK and finding.expected:
        lines += wrap(f"expected: {finding.expected}", indent)
    if finding.id != "device":  # shown at the top
        lines += wrap(finding.meaning, indent)
    if finding.fix:
        lines.append(f"{indent}-> {finding.fix}")
    if finding.evidence and finding.status is not Severity.OK:
        lines += wrap(f"evidence: {finding.evidence}", indent)
    return lines
