"""Findings and reports: what an examination returns, before anything renders it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from toolkit.model.errors import ExitCode


class Severity(StrEnum):
    """How much a finding matters."""

    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing noticed.

    Attributes:
        subject: what it is about: a path, a topic, a pin.
        message: one sentence.
        fix: what to do about it; may be empty for notes.
    """

    severity: Severity
    subject: str
    message: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a command that reports.

    Attributes:
        command: its name, as typed.
        headline: the answer in one line.
        data: the answer as JSON values; its keys are the command's contract with scripts.
        findings: problems make the exit code 1, notes do not.
    """

    command: str
    headline: str
    data: dict[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """FINDINGS when any finding is a problem, else OK."""
        problem = any(finding.severity is Severity.PROBLEM for finding in self.findings)
        return ExitCode.FINDINGS if problem else ExitCode.OK
