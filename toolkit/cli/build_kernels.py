"""``hqtool build-kernels``: the topics' CUDA sources as one library."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from toolkit.cli.context import Session, json_option, pass_session, pin_option, without_option
from toolkit.cli.output import emit
from toolkit.cli.toolchain_options import toolchain_options
from toolkit.model.finding import Report
from toolkit.model.toolchain import ToolchainOptions
from toolkit.model.topic import Series


@click.command()
@pin_option
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Copy the library into this folder.")
@toolchain_options
@without_option
@click.option("--dry-run", is_flag=True, help="Say what would be compiled, and with what; fetch and write nothing.")
@json_option
@pass_session
def command(
    session: Session,
    *,
    pin: str | None,
    out: Path | None,
    options: ToolchainOptions,
    without: tuple[str, ...],
    dry_run: bool,
) -> int:
    """Compile the topics' CUDA sources.

    The compiler comes from the package registry; a g++ on this machine is all that is needed.
    """
    series = session.series(session.pins.get(pin).version, without)
    return _plan(session, series, options) if dry_run else _build(session, series, options, out)


def _plan(session: Session, series: Series, options: ToolchainOptions) -> int:
    from toolkit.jobs.build_kernels import plan_kernels
    from toolkit.jobs.toolchain import load_toolchain

    plan = plan_kernels(series, pins=load_toolchain(session.patchsets_dir), cache=session.store, options=options)
    if plan is None:
        return emit(session, _nothing())
    where = plan.nvcc.origin if plan.nvcc.nvcc is None else f"{plan.nvcc.nvcc} ({plan.nvcc.origin})"
    data = {
        "files": list(plan.files),
        "ops": {topic: list(names) for topic, names in plan.ops.items()},
        "architectures": list(plan.code),
        "nvcc": str(plan.nvcc.nvcc or ""),
        "nvcc_origin": plan.nvcc.origin,
        "download_bytes": plan.nvcc.fetched_bytes,
    }
    headline = f"would compile {len(plan.files)} files for {', '.join(plan.code)}"
    lines = [f"  {path}" for path in plan.files]
    lines.append(f"nvcc: {where}, {plan.nvcc.fetched_bytes / 1e6:.0f} MB to fetch")
    return emit(session, Report("build-kernels", headline, data), "\n".join(lines))


def _build(session: Session, series: Series, options: ToolchainOptions, out: Path | None) -> int:
    from toolkit.jobs.build_kernels import build_kernels
    from toolkit.jobs.toolchain import load_toolchain

    build = build_kernels(
        series,
        pins=load_toolchain(session.patchsets_dir),
        cache=session.store,
        progress=session.progress,
        options=options,
        out=out,
    )
    if build is None:
        return emit(session, _nothing())
    data = {
        "library": str(build.path),
        "kernels": asdict(build.built),
        "ops": {topic: list(names) for topic, names in build.ops.items()},
        "steps": build.steps,
        "nvcc_origin": build.origin,
    }
    state = f"{build.steps} steps" if build.steps else "up to date"
    lines = [f"{topic}: {', '.join(names)}" for topic, names in build.ops.items()]
    lines.append(f"sha256 {build.built.sha256}")
    lines.append(f"nvcc {build.built.nvcc} ({build.origin}), {', '.join(build.built.architectures)}, {state}")
    headline = f"{build.path} ({build.built.size} bytes)"
    return emit(session, Report("build-kernels", headline, data), "\n".join(lines))


def _nothing() -> Report:
    return Report("build-kernels", "no topic defines an operator: nothing to compile", {"library": ""})
