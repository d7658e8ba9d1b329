"""``hqtool wheel explain``: what a built wheel changes, topic by topic."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.context import Session, json_option, pass_session
from toolkit.cli.output import emit
from toolkit.model.finding import Report

if TYPE_CHECKING:
    from toolkit.engine.explain import ExplainedTopic, Explanation

_MARKS = {"create": "+", "modify": "~", "delete": "-", "rename": ">"}


@click.group()
def command() -> None:
    """Explain what a built wheel changes."""


@command.command()
@click.argument("target", required=False, metavar="[FILE|FOLDER]", type=click.Path(path_type=Path))
@click.option("--installed", is_flag=True, help="Explain the installed vLLM instead.")
@click.option(
    "--python",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="PATH",
    help="With --installed: the interpreter that has it; the first python3 of the PATH if left out.",
)
@click.option("--topic", metavar="TOPIC", help="Show this topic alone.")
@click.option("--diff", is_flag=True, help="Show each topic's changes to upstream's files.")
@json_option
@pass_session
def explain(
    session: Session, *, target: Path | None, installed: bool, python: Path | None, topic: str | None, diff: bool
) -> int:
    """Print what differs from upstream, topic by topic, from the wheel alone.

    Before each path, + says that the topic adds the file, ~ that it modifies it, - that it removes it.
    """
    from toolkit.engine.explain import only
    from toolkit.jobs.explain import explain_installed, explain_target

    if (target is None) != installed:
        raise click.UsageError("name either a wheel (or a folder) or --installed")
    if python is not None and not installed:
        raise click.UsageError("--python goes with --installed")
    found = explain_target(target) if target is not None else explain_installed(python)
    shown = only(found, topic) if topic is not None else found
    manifest = found.manifest
    headline = f"vLLM {manifest.pin} with {len(manifest.topics)} topics: {manifest.version}, built by {manifest.tool}"
    return emit(session, Report("wheel explain", headline, _data(shown, diff)), _body(shown, diff))


def _data(shown: Explanation, diff: bool) -> dict[str, Any]:
    manifest = shown.manifest
    topics = [
        asdict(item.topic)
        | {"files": [{"path": file.path, "change": file.change.value} for file in item.files]}
        | ({"diff": item.diff.decode("utf-8", "replace")} if diff else {})
        for item in shown.topics
    ]
    return {
        "version": manifest.version,
        "pin": manifest.pin,
        "commit": manifest.commit,
        "base": manifest.base,
        "torch": manifest.torch,
        "triton": manifest.triton,
        "tool": manifest.tool,
        "topics": topics,
        "generated": list(manifest.generated),
        "kernels": asdict(manifest.kernels) if manifest.kernels else None,
    }


def _body(shown: Explanation, diff: bool) -> str:
    manifest = shown.manifest
    lines = [f"official wheel: sha256 {manifest.base}, commit {manifest.commit}, torch {manifest.torch}", ""]
    for item in shown.topics:
        lines += [*_topic_lines(item, diff), ""]
    lines += ["The build itself", *(f"  ~ {path}" for path in manifest.generated)]
    kernels = manifest.kernels
    if kernels is not None:
        architectures = ", ".join(kernels.architectures)
        lines.append(f"  + {kernels.path}: {kernels.size / 1e3:,.0f} kB, {architectures}, nvcc {kernels.nvcc}")
    return "\n".join(lines)


def _topic_lines(item: ExplainedTopic, diff: bool) -> list[str]:
    topic = item.topic
    numbers = "results are upstream's" if topic.lossless else f"results change: {topic.error}"
    lines = [f"{topic.id}: {topic.title} ({topic.kind}, upstream: {topic.upstream})", f"  {topic.what}", f"  {numbers}"]
    lines += [f"  {name}={default} by default" for name, default in topic.knobs.items()]
    if topic.ops:
        lines.append(f"  operators: {', '.join(topic.ops)}")
    lines += [f"  {_MARKS[file.change.value]} {file.path}" for file in item.files]
    if diff and item.diff:
        lines += ["", *(f"    {line}" for line in item.diff.decode("utf-8", "replace").splitlines())]
    return lines
