"""What every command shares: where the series and the cache are, and how to speak."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from toolkit.io.cache import Cache
    from toolkit.model.pin import Pins
    from toolkit.model.progress import Progress
    from toolkit.model.topic import Series


@dataclass
class Session:
    """The global options, and the objects made from them on first use."""

    as_json: bool = False
    quiet: bool = False
    patchsets: Path | None = None
    cache: Path | None = None

    @cached_property
    def progress(self) -> Progress:
        """A progress display on standard error; silent with ``--json``, ``--quiet`` or without a terminal."""
        from toolkit.io.terminal import make_progress

        return make_progress(quiet=self.quiet or self.as_json)

    @cached_property
    def patchsets_dir(self) -> Path:
        """The folder with pins.toml and series.toml: the option's, else the installed one."""
        if self.patchsets is not None:
            return self.patchsets
        import patchsets

        return Path(next(iter(patchsets.__path__)))

    @cached_property
    def store(self) -> Cache:
        """The download cache."""
        from toolkit.io.cache import Cache

        return Cache.default() if self.cache is None else Cache(self.cache)

    @cached_property
    def pins(self) -> Pins:
        """The supported releases."""
        from toolkit.jobs.series import load_pins

        return load_pins(self.patchsets_dir)

    def series(self, pin: str, without: tuple[str, ...] = ()) -> Series:
        """Return the topics of that pin, in order, less those named (and no topic that requires one of them)."""
        from toolkit.jobs.series import load_series

        return load_series(self.patchsets_dir, pin, without=without)


pass_session = click.make_pass_decorator(Session)

pin_option = click.option("--pin", metavar="VERSION", help="vLLM release to use; the default pin if left out.")
without_option = click.option("--without", multiple=True, metavar="TOPIC", help="Leave this topic out (repeatable).")


def _want_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.find_root().obj.as_json = value


json_option = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=_want_json,
    help="Print one JSON object on standard output instead of text.",
)
