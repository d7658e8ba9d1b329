"""How long work tells a person where it stands, without knowing about terminals."""

from __future__ import annotations

from typing import Protocol


class Task(Protocol):
    """One running piece of work."""

    def advance(self, amount: int) -> None:
        """Count that many more units (bytes, files) as done."""

    def finish(self) -> None:
        """Remove the bar; called on success and on failure."""


class Progress(Protocol):
    """Starts tasks and says single lines."""

    def task(self, label: str, total: int | None, *, unit: str = "bytes") -> Task:
        """Begin a task; ``total`` in units, None when unknown."""

    def say(self, line: str) -> None:
        """Tell a person what begins or what was found."""


class _SilentTask:
    def advance(self, amount: int) -> None:
        del amount

    def finish(self) -> None:
        return


class Silent:
    """Progress that nobody watches; for tests and ``--json``."""

    def task(self, label: str, total: int | None, *, unit: str = "bytes") -> Task:
        """Return a task that shows nothing."""
        del label, total, unit
        return _SilentTask()

    def say(self, line: str) -> None:
        """Say nothing."""
        del line
