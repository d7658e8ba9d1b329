"""``hqtool check``: where a tree, a wheel or an installation stands."""

from __future__ import annotations

import time
from pathlib import Path

import click

from toolkit.cli.context import Session, json_option, pass_session, pin_option
from toolkit.cli.output import emit


@click.command()
@click.argument("target", required=False, type=click.Path(path_type=Path))
@click.option("--installed", is_flag=True, help="Check the installed vLLM; the default without a target.")
@click.option(
    "--python",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Interpreter whose vLLM is meant; the first python3 of the PATH if left out.",
)
@click.option("--full", is_flag=True, help="Hash every file, compiled libraries and data too (seconds).")
@pin_option
@json_option
@pass_session
def command(
    session: Session, *, target: Path | None, installed: bool, python: Path | None, full: bool, pin: str | None
) -> int:
    """Say whether TARGET is pristine, patched or modified.

    TARGET is a source tree, a folder that holds vllm/ (site-packages), or a wheel. By default every file that a topic
    touches and every Python file is compared by its bytes, everything else by its size. Nothing is downloaded.
    """
    from toolkit.engine.examination import report
    from toolkit.jobs.check import CheckRequest, check
    from toolkit.model.progress import Silent

    if target is not None and (installed or python):
        raise click.UsageError("TARGET excludes --installed and --python")
    begun = time.perf_counter()
    # A bar for a tenth of a second is not worth the time that importing it takes.
    progress = session.progress if full else Silent()
    found = check(CheckRequest(target, python, pin, full), session.patchsets_dir, session.store, progress)
    seconds = time.perf_counter() - begun
    counts = found.compared
    body = (
        f"{found.kind} {found.target}: {counts.chain} files by the chain, {counts.hashed:,} by sha256, "
        f"{counts.sized:,} by size ({seconds:.2f} s)"
    )
    return emit(session, report(found), body)
