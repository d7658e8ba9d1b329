"""``hqtool topics``: the topics of a pin, and PATCHES.md."""

from __future__ import annotations

from dataclasses import asdict

import click

from toolkit.cli.context import Session, json_option, pass_session, pin_option
from toolkit.cli.output import emit, table
from toolkit.model.finding import Finding, Report, Severity

_HEADER = ("topic", "kind", "title", "upstream files", "lines", "new files", "kernels", "results")


@click.command()
@pin_option
@click.option("--write", is_flag=True, help="Bring PATCHES.md up to date instead.")
@click.option("--verify", is_flag=True, help="Say whether PATCHES.md is up to date instead; exit code 1 if not.")
@json_option
@pass_session
def command(session: Session, pin: str | None, write: bool, verify: bool) -> int:
    """List the topics of the series; write PATCHES.md."""
    if write and verify:
        raise click.UsageError("--write and --verify exclude each other")
    if write or verify:
        return emit(session, _write(session) if write else _verify(session))
    return _list(session, session.pins.get(pin).version)


def _list(session: Session, pin: str) -> int:
    from toolkit.engine.patches_page import touched

    series = session.series(pin)
    rows: list[tuple[str, ...]] = []
    data = []
    for source in series.topics:
        topic, files = source.topic, touched(source.patch)
        added, removed = sum(file.added for file in files), sum(file.removed for file in files)
        results = "as upstream's" if topic.numbers.lossless else "changed"
        counts = (str(len(files)), f"+{added} -{removed}", str(len(source.files)), str(len(source.kernels)))
        rows.append((topic.id, topic.kind.value, topic.title, *counts, results))
        changes = {"touched": [asdict(file) for file in files], "files": [*source.files], "kernels": [*source.kernels]}
        data.append(asdict(topic) | changes)
    headline = f"{len(rows)} topics for vLLM {pin}, revision {series.revision}"
    report = Report("topics", headline, {"pin": pin, "revision": series.revision, "topics": data})
    return emit(session, report, table(rows, _HEADER))


def _write(session: Session) -> Report:
    from toolkit.jobs.topics import PAGE, page_path, write_page

    written = write_page(session.patchsets_dir)
    headline = f"wrote {PAGE}" if written else f"{PAGE} was up to date"
    return Report("topics", headline, {"path": str(page_path(session.patchsets_dir)), "written": written})


def _verify(session: Session) -> Report:
    from toolkit.jobs.topics import PAGE, page_is_current

    if page_is_current(session.patchsets_dir):
        return Report("topics", f"{PAGE} is up to date", {"current": True})
    finding = Finding(Severity.PROBLEM, PAGE, "is not what the manifests give", "hqtool topics --write")
    return Report("topics", f"{PAGE} is out of date", {"current": False}, (finding,))
