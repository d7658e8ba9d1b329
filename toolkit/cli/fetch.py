"""``hqtool fetch``: downloads a pinned vLLM and verifies it."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.cli.context import Session, json_option, pass_session, pin_option
from toolkit.cli.output import emit
from toolkit.model.finding import Report


@click.command("fetch")
@pin_option
@click.option(
    "--source",
    default="sdist",
    metavar="sdist|git|PATH",
    show_default=True,
    help="Where the tree comes from: the registry's sdist, the pinned tag, or a checkout of yours.",
)
@click.option("--repository", metavar="URL", help="With --source git: fetch from here (https://, file:// or a path).")
@click.option("--wheel", is_flag=True, help="Download the official wheel too, which build-wheel starts from.")
@click.option(
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Put a sdist or wheel that was downloaded elsewhere into the cache; nothing is fetched.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be downloaded, and do nothing.")
@json_option
@pass_session
def command(
    session: Session,
    *,
    pin: str | None,
    source: str,
    repository: str | None,
    wheel: bool,
    file: Path | None,
    dry_run: bool,
) -> int:
    """Download a pinned vLLM and verify it.

    Everything goes to the cache and is checked against the sha256 in pins.toml; an interrupted download continues.
    """
    from toolkit.jobs import artifact, fetch

    pins = session.pins
    release = pins.get(pin)
    if file is not None:
        if dry_run:
            raise click.UsageError("--file fetches nothing: --dry-run has no meaning with it")
        kept = artifact.adopt(file, pins, session.store)
        return emit(session, Report("fetch", f"{kept.filename} is in the cache", {"file": kept.filename}))
    if repository is not None and source != fetch.SourceKind.GIT:
        raise click.UsageError("--repository is for --source git only")
    if dry_run:
        missing = fetch.missing_files(release, source, session.store, wheel=wheel)
        tag = fetch.missing_tag(release, source, session.store)
        size = sum(part.size for part in missing)
        named = [f"{part.filename} ({part.size / 1e6:,.0f} MB)" for part in missing] + ([f"tag {tag}"] if tag else [])
        data = {"download": [part.filename for part in missing], "bytes": size, "tag": tag}
        return emit(session, Report("fetch", f"to download: {', '.join(named) or 'nothing'}", data))
    tree = fetch.fetch_source(release, pins, source, session.store, session.progress, repository=repository)
    found = {"pin": release.version, "kind": tree.kind.value, "root": str(tree.root), "commit": tree.commit}
    if wheel:
        found["wheel"] = str(artifact.obtain(release.wheel, pins.project, session.store, session.progress))
    return emit(session, Report("fetch", f"vLLM {release.version} ({tree.kind}) is in {tree.root}", found))
