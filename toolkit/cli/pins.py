"""``hqtool pins``: the supported releases."""

from __future__ import annotations

from dataclasses import asdict

import click

from toolkit.cli.context import Session, json_option, pass_session
from toolkit.cli.output import emit, table
from toolkit.model.finding import Report
from toolkit.model.pin import Artifact

_HEADER = ("version", "default", "tag", "commit", "released", "torch", "triton", "sdist", "wheel")


@click.command()
@json_option
@pass_session
def command(session: Session) -> int:
    """List the vLLM releases that the series supports."""
    pins = session.pins
    rows: list[tuple[str, ...]] = [
        (
            pin.version,
            "yes" if pin.version == pins.default else "",
            pin.tag,
            pin.commit,
            pin.released,
            pin.torch,
            pin.triton,
            _megabytes(pin.sdist),
            _megabytes(pin.wheel),
        )
        for pin in pins.pins
    ]
    headline = f"{len(pins.pins)} releases of {pins.project}, {pins.default} by default"
    return emit(session, Report("pins", headline, asdict(pins)), table(rows, _HEADER))


def _megabytes(artifact: Artifact) -> str:
    return f"{artifact.size / 1e6:.1f} MB"
