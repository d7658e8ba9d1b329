"""Rendering of reports and errors: text for people, one JSON envelope for scripts."""

from __future__ import annotations

import json

import click

from toolkit.cli.context import Session
from toolkit.model.errors import HqError
from toolkit.model.finding import Report, Severity

ENVELOPE_SCHEMA = 1


def emit(session: Session, report: Report, body: str = "") -> int:
    """Print the report and return its exit code.

    Args:
        session: says whether JSON is wanted.
        report: what to print.
        body: text for people between the headline and the findings, such as a table.
    """
    if session.as_json:
        click.echo(_envelope(report))
        return int(report.exit_code)
    click.echo(report.headline)
    if body:
        click.echo(body)
    for finding in report.findings:
        mark = "!" if finding.severity is Severity.PROBLEM else "-"
        fix = f" ({finding.fix})" if finding.fix else ""
        click.echo(f"{mark} {finding.subject}: {finding.message}{fix}")
    return int(report.exit_code)


def table(rows: list[tuple[str, ...]], header: tuple[str, ...]) -> str:
    """Return the rows in aligned columns; plain text, so that it reads the same in a pipe."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [header, *rows]
    ]
    return "\n".join(lines)


def error_envelope(error: HqError) -> str:
    """Return the JSON envelope of a failure."""
    detail = {"what": error.what, "cause": error.cause, "fix": error.fix, "details": list(error.details)}
    code = int(error.exit_code)
    return json.dumps({"schema": ENVELOPE_SCHEMA, "status": "error", "exit_code": code, "error": detail}, indent=1)


def _envelope(report: Report) -> str:
    value = {
        "schema": ENVELOPE_SCHEMA,
        "command": report.command,
        "status": "ok" if report.exit_code == 0 else "findings",
        "exit_code": int(report.exit_code),
        "headline": report.headline,
        "data": report.data,
        "findings": [
            {"severity": f.severity.value, "subject": f.subject, "message": f.message, "fix": f.fix}
            for f in report.findings
        ],
    }
    return json.dumps(value, indent=1)
