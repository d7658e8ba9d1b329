"""``hqtool cache``: shows what the cache holds, and empties it."""

from __future__ import annotations

import click

from toolkit.cli.context import Session, json_option, pass_session
from toolkit.cli.output import emit
from toolkit.model.finding import Report


@click.command("cache")
@click.option("--clear", is_flag=True, help="Remove everything that hqtool put there.")
@click.option("--dry-run", is_flag=True, help="With --clear: say what would go, and remove nothing.")
@json_option
@pass_session
def command(session: Session, clear: bool, dry_run: bool) -> int:
    """Show what the cache holds, or empty it. All of it can be made again."""
    store = session.store
    sizes = store.sizes()
    total = f"{sum(sizes.values()) / 1e6:,.0f} MB"
    body = "\n".join(f"{size / 1e6:10,.1f} MB  {name}" for name, size in sizes.items())
    data = {"root": str(store.root), "bytes": sizes}
    if not clear:
        if dry_run:
            raise click.UsageError("--dry-run goes with --clear")
        return emit(session, Report("cache", f"{store.root}: {total}", data), body)
    if dry_run:
        store.require_own()
        return emit(session, Report("cache", f"would free {total} in {store.root}", data), body)
    store.clear()
    return emit(session, Report("cache", f"freed {total} in {store.root}", data))
