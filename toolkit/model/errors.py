"""Errors that a person sees: what failed, why, and what to do about it.

Everything below the command line raises these; only ``cli.main`` prints them and turns them into an exit code.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """What a script can rely on."""

    OK = 0
    FINDINGS = 1
    """Something that was examined is not as it must be: a wrong hash, a patch that does not apply, an edited tree."""
    USAGE = 2
    """The request or the series itself is wrong: unknown pin, bad option, invalid manifest."""
    ENVIRONMENT = 3
    """This machine cannot do it now: no network, no compiler, no space, no permission."""
    INTERRUPTED = 130


class HqError(Exception):
    """A failure with its cause and its fix.

    Args:
        what: one line that names the object that failed.
        cause: why; the innermost reason known.
        fix: a command to run or a precise edit to make.
        details: further lines (compiler output, one line a mistake), shown between cause and fix.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.FINDINGS

    def __init__(self, what: str, *, cause: str = "", fix: str = "", details: Sequence[str] = ()) -> None:
        super().__init__(what)
        self.what = what
        self.cause = cause
        self.fix = fix
        self.details = tuple(details)

    def lines(self) -> list[str]:
        """Return the message as it is shown, first line first, without colour."""
        shown = [f"error: {self.what}"]
        if self.cause:
            shown.append(f"cause: {self.cause}")
        shown += [f"  {detail}" for detail in self.details]
        if self.fix:
            shown.append(f"fix: {self.fix}")
        return shown

    def __str__(self) -> str:
        return "\n".join(self.lines())


class CheckError(HqError):
    """What was examined is not as it must be (exit code 1)."""

    exit_code = ExitCode.FINDINGS


class UsageError(HqError):
    """The request, or the series it names, is wrong (exit code 2)."""

    exit_code = ExitCode.USAGE


class EnvironmentUnfitError(HqError):
    """This machine cannot do it now (exit code 3)."""

    exit_code = ExitCode.ENVIRONMENT
