"""A unified diff as values, in bytes: nothing is decoded, no line ending is touched."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from toolkit.model.ids import BlobId


class Change(StrEnum):
    """What a patch does to a file."""

    MODIFY = "modify"
    CREATE = "create"
    DELETE = "delete"
    RENAME = "rename"
    """Renamed, and perhaps modified too."""


class Mark(StrEnum):
    """The first character of a hunk's line."""

    CONTEXT = " "
    REMOVE = "-"
    ADD = "+"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a hunk; ``data`` ends with its newline, unless the file ends without one."""

    mark: Mark
    data: bytes


@dataclass(frozen=True, slots=True)
class Hunk:
    """A run of lines to find and what to put in their place; line numbers count from 1."""

    old_start: int
    new_start: int
    lines: tuple[Line, ...]

    @property
    def old(self) -> tuple[bytes, ...]:
        """The lines that must be there."""
        return tuple(line.data for line in self.lines if line.mark is not Mark.ADD)

    @property
    def new(self) -> tuple[bytes, ...]:
        """The lines that take their place."""
        return tuple(line.data for line in self.lines if line.mark is not Mark.REMOVE)


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What a patch does to one file.

    Attributes:
        old_path: where the file was; None when it is created.
        new_path: where it goes; None when it is deleted.
        old_blob: id before, from the ``index`` line; None when created or when the patch states none.
        new_blob: id after; None when deleted or not stated.
    """

    change: Change
    old_path: str | None
    new_path: str | None
    old_blob: BlobId | None
    new_blob: BlobId | None
    hunks: tuple[Hunk, ...]

    @property
    def path(self) -> str:
        """The path that names the file in reports: the new one, else the old one."""
        return self.new_path or self.old_path or ""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a hunk went: the line it states and the line (both from 1) where its context stood."""

    hunk: int
    stated: int
    found: int

    @property
    def offset(self) -> int:
        """Lines by which the file moved under the hunk; 0 is exact."""
        return self.found - self.stated


@dataclass(frozen=True, slots=True)
class Nearest:
    """The place most like what a hunk expected.

    Attributes:
        line: from 1.
        matching: how many of the expected lines are there.
        expected: how many there are in all.
        difference: the first line that differs, as (expected, found).
    """

    line: int
    matching: int
    expected: int
    difference: tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class HunkFault:
    """A hunk that does not apply; ``hunk`` counts from 1, 0 when the fault is the file's."""

    path: str
    hunk: int
    reason: str
    nearest: Nearest | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """One file after a patch: its bytes (None when deleted) and where each hunk went."""

    data: bytes | None
    placements: tuple[Placement, ...] = ()
