"""Progress on a terminal: what runs, how far, how fast, how long still."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as RichBar

from toolkit.model.progress import Progress, Silent, Task


def make_progress(*, quiet: bool) -> Progress:
    """Return a live display on standard error, plain lines without a terminal, or nothing when quiet."""
    if quiet:
        return Silent()
    return Live() if sys.stderr.isatty() else Lines()


class Lines(Silent):
    """Single lines, no bars: for logs."""

    def say(self, line: str) -> None:
        """Print the line to standard error."""
        print(line, file=sys.stderr, flush=True)


class _BarTask:
    def __init__(self, label: str, total: int | None, unit: str, console: Console) -> None:
        columns = (
            (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
            if unit == "bytes"
            else (MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
        )
        self._bar = RichBar(TextColumn("{task.description}"), BarColumn(), *columns, console=console, transient=True)
        self._bar.start()
        self._id = self._bar.add_task(label, total=total)

    def advance(self, amount: int) -> None:
        self._bar.advance(self._id, amount)

    def finish(self) -> None:
        self._bar.stop()


class Live:
    """Bars that vanish when done, and lines that stay."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)

    def task(self, label: str, total: int | None, *, unit: str = "bytes") -> Task:
        """Show a bar with size, speed and time left."""
        return _BarTask(label, total, unit, self._console)

    def say(self, line: str) -> None:
        """Print a line above the bars."""
        self._console.print(line, markup=False)
