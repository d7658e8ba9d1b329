"""``hqtool build-wheel``: the patched wheel."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.context import Session, json_option, pass_session, pin_option, without_option
from toolkit.cli.output import emit, table
from toolkit.cli.toolchain_options import toolchain_options
from toolkit.model.finding import Report
from toolkit.model.toolchain import ToolchainOptions

if TYPE_CHECKING:
    from toolkit.jobs.build_wheel import WheelResult

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@pin_option
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("wheels"),
    show_default=True,
    metavar="DIR",
    help="Folder for the wheel.",
)
@click.option(
    "--lane",
    type=click.Choice(["overlay"]),
    default="overlay",
    show_default=True,
    help="overlay: the official wheel with patched Python and our kernels.",
)
@without_option
@click.option("--base-wheel", type=_FILE, metavar="FILE", help="A copy of the official wheel; fetched if left out.")
@toolchain_options
@click.option("--dry-run", is_flag=True, help="Say what the wheel would hold; compile and write nothing.")
@json_option
@pass_session
def command(
    session: Session,
    *,
    pin: str | None,
    out: Path,
    lane: str,
    without: tuple[str, ...],
    base_wheel: Path | None,
    options: ToolchainOptions,
    dry_run: bool,
) -> int:
    """Build the patched vLLM wheel.

    The same series, compiler and pin give the same bytes. A wheel that is there already and equal is left alone.
    """
    from toolkit.jobs.build_wheel import WheelRequest, build_wheel, plan_wheel

    chosen = session.pins.get(pin)
    request = WheelRequest(
        project=session.pins.project,
        pin=chosen,
        series=session.series(chosen.version, without),
        patchsets=session.patchsets_dir,
        out=out,
        options=options,
        whole=not without,
        base_wheel=base_wheel,
    )
    run = plan_wheel if dry_run else build_wheel
    result = run(request, session.store, session.progress)
    data = _data(result, lane=lane, pin=chosen.version)
    if dry_run:
        headline = f"would write {result.path}, from {chosen.wheel.filename}"
        return emit(session, Report("build-wheel", headline, data), _plan_table(result))
    headline = f"{'wrote' if result.written else 'up to date:'} {result.path}"
    return emit(session, Report("build-wheel", headline, data), _next_steps(result))


def _data(result: WheelResult, *, lane: str, pin: str) -> dict[str, Any]:
    members = [
        {"action": member.action.value, "path": member.name or member.source, "topic": member.owner or None}
        for member in result.plan.changed
    ]
    return {
        "path": str(result.path),
        "version": result.plan.version,
        "pin": pin,
        "lane": lane,
        "base": str(result.base),
        "size": result.size or None,
        "sha256": result.sha256,
        "written": result.written,
        "members": members,
    }


def _plan_table(result: WheelResult) -> str:
    changed = sorted(result.plan.changed, key=lambda member: (member.owner == "", member.owner))
    rows: list[tuple[str, ...]] = [(item.owner or "(the build)", item.action.value, item.name) for item in changed]
    kept = len(result.plan.members) - len(changed)
    return f"{table(rows, ('topic', 'action', 'member'))}\n{kept} members stay as they are"


def _next_steps(result: WheelResult) -> str:
    path = shlex.quote(str(result.path))
    return "\n".join(
        [
            f"{result.size / 1e6:.1f} MB, sha256 {result.sha256}",
            "",
            f"install it:  pip install {path}",
            "             (add --force-reinstall --no-deps over an earlier build of the same version)",
            f"look inside: hqtool wheel explain {path}",
            "then:        hqtool check --installed --python PYTHON && vllm serve MODEL",
        ]
    )
