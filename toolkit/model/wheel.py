"""The members of a wheel that is to be written: which are copied, and what the others hold."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Action(StrEnum):
    """How a member of the official wheel becomes a member of ours."""

    KEEP = "keep"
    """Copied as it is, compressed bytes and all."""
    REPLACE = "replace"
    ADD = "add"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class PlannedMember:
    """One member of the planned wheel, or one that it leaves out.

    Attributes:
        name: path in the new wheel.
        source: path in the official wheel; empty when added.
        executable: mode 755 if true, else 644.
        data: its bytes when replaced or added; empty otherwise.
        owner: the topic that last changed it; empty when the build itself makes it.
    """

    name: str
    action: Action
    source: str = ""
    executable: bool = False
    data: bytes = b""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class WheelPlan:
    """A wheel before it is written.

    Attributes:
        filename: by the rules for wheel names, with the version's label.
        version: of the distribution.
        members: in the order in which they are written, RECORD last; those to remove come at the end.
    """

    filename: str
    version: str
    members: tuple[PlannedMember, ...]

    @property
    def written(self) -> tuple[PlannedMember, ...]:
        """The members that the wheel will have."""
        return tuple(member for member in self.members if member.action is not Action.REMOVE)

    @property
    def changed(self) -> tuple[PlannedMember, ...]:
        """The members that are not as in the official wheel."""
        return tuple(member for member in self.members if member.action is not Action.KEEP)
