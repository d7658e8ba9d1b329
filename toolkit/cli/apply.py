"""``hqtool apply``: a patched source tree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.context import Session, json_option, pass_session, pin_option, without_option
from toolkit.cli.output import emit, table
from toolkit.model.finding import Finding, Report, Severity

if TYPE_CHECKING:
    from toolkit.engine.chain import SeriesResult


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder to write; it must not exist yet.",
)
@pin_option
@click.option(
    "--source",
    default="sdist",
    show_default=True,
    metavar="sdist|git|PATH",
    help="The release's sdist, its tag in the git repository, or a tree of yours (it is copied, never changed).",
)
@without_option
@click.option("--dry-run", is_flag=True, help="Apply in memory and say what would be written.")
@json_option
@pass_session
def command(
    session: Session, *, out: Path | None, pin: str | None, source: str, without: tuple[str, ...], dry_run: bool
) -> int:
    """Write a patched source tree.

    All topics are tried; hunks that do not fit are reported together, with the place most like what they expect.
    """
    from toolkit.jobs.apply import ApplyRequest, plan_apply, write_apply

    if out is None and not dry_run:
        raise click.UsageError("name the folder to write with --out, or ask for --dry-run")
    chosen = session.pins.get(pin)
    request = ApplyRequest(
        pin=chosen,
        pins=session.pins,
        series=session.series(chosen.version, without),
        whole=not without,
        source=source,
    )
    if dry_run or out is None:
        patched = plan_apply(request, session.store, session.progress).patched
        headline = f"vLLM {chosen.version}: {_count(patched)} would be written"
    else:
        patched = write_apply(request, out, session.store, session.progress).patched
        headline = f"wrote {out}: vLLM {chosen.version}, {_count(patched)} patched"
    files = _files(patched)
    data = {
        "pin": chosen.version,
        "source": source,
        "out": None if out is None or dry_run else str(out),
        "topics": list(patched.chain.topics),
        "files": files,
        "offsets": [
            {"topic": moved.topic, "path": moved.path, "hunk": moved.placement.hunk, "offset": moved.placement.offset}
            for moved in patched.offsets
        ],
        "drifts": [drift._asdict() for drift in patched.drifts],
    }
    rows: list[tuple[str, ...]] = [(item["topic"], item["action"], item["path"]) for item in files]
    body = table(rows, ("topic", "action", "file")) if rows else ""
    return emit(session, Report("apply", headline, data, _notes(patched)), body)


def _count(patched: SeriesResult) -> str:
    topics, files = len(patched.chain.topics), len(patched.outputs)
    return f"{topics} topic{'s' * (topics != 1)} in {files} file{'s' * (files != 1)}"


def _files(patched: SeriesResult) -> list[dict[str, Any]]:
    """Return what each topic does to each file, in the order of the topics."""
    found = []
    for level, topic in enumerate(patched.chain.topics, 1):
        for file in patched.chain.files:
            before, after = file.ids[level - 1], file.ids[level]
            if before != after:
                action = "add" if before is None else "remove" if after is None else "change"
                found.append({"topic": topic, "action": action, "path": file.path})
    return found


def _notes(patched: SeriesResult) -> tuple[Finding, ...]:
    drifts = [
        Finding(Severity.NOTE, drift.path, f"is not the file that topic {drift.topic} was made from; it applies still")
        for drift in patched.drifts
    ]
    offsets = [
        Finding(
            Severity.NOTE,
            moved.path,
            f"hunk {moved.placement.hunk} of topic {moved.topic} went to line {moved.placement.found} instead of"
            f" {moved.placement.stated} (offset {moved.placement.offset:+d})",
        )
        for moved in patched.offsets
    ]
    return (*drifts, *offsets)
