"""What ninja printed about a failed build, taken apart: which source failed, whose it is, what the compiler said."""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.model.errors import CheckError, EnvironmentUnfitError, HqError
from toolkit.model.ids import TopicId

STATUS = "[%f/%t] "
"""NINJA_STATUS: the lines that `finished_steps` and `failures` tell from compiler output."""

SHOWN_LINES = 40
"""Of one source's output; the first error explains the others more often than not."""

_STATUS_LINE = re.compile(r"\[(\d+)/(\d+)\] ")
_FAILED = re.compile(r"FAILED: (?:\[code=-?\d+\] )?(.+?)\s*$")
_PLACE = re.compile(r"(?:^|\s)src/([^/\s]+)/([^\s:(]+)(?:\(\d+\)|:\d+(?::\d+)?): (?:fatal |catastrophic )?error\b")
_ERROR = re.compile(r"\berror\b|multiple definition|undefined reference|cannot find", re.IGNORECASE)
_NO_SPACE = "No space left on device"


@dataclass(frozen=True, slots=True)
class Failure:
    """One step that failed.

    Attributes:
        topic: owner of the file in which the first error stands, else of the source compiled; '' for the link.
        file: that file's name.
        error: the first line that says error, '' if none does.
        lines: what was printed, without ninja's own lines and the command.
    """

    topic: TopicId
    file: str
    error: str
    lines: tuple[str, ...]


def finished_steps(line: str) -> tuple[int, int] | None:
    """Return (steps done, steps in all) when the line is ninja's status, else None."""
    found = _STATUS_LINE.match(line)
    return (int(found.group(1)), int(found.group(2))) if found else None


def failures(output: str) -> list[Failure]:
    """Return the failed steps of a ninja run with the status `STATUS`, in the order in which they failed."""
    found: list[Failure] = []
    lines = output.splitlines()
    starts = [index for index, line in enumerate(lines) if _FAILED.match(line)]
    for start in starts:
        end = start + 2  # the line after FAILED is the command
        while end < len(lines) and not (
            _STATUS_LINE.match(lines[end]) or lines[end].startswith(("ninja: ", "FAILED: "))
        ):
            end += 1
        match = _FAILED.match(lines[start])
        found.append(_failure(match.group(1) if match else "", lines[start + 2 : end]))
    return found


def build_error(output: str, folder: str) -> HqError:
    """Return the error to raise for a build that failed.

    Args:
        output: of ninja.
        folder: the build folder, for the message when ninja itself failed.
    """
    if _NO_SPACE in output:
        return EnvironmentUnfitError(
            "the kernels cannot be compiled",
            cause=f"no space left on device, in {folder} or the folder for temporary files",
            fix="free some space, or choose another cache with --cache or HQTOOL_CACHE",
        )
    found = failures(output)
    if not found:
        return EnvironmentUnfitError(
            "the kernels cannot be compiled",
            cause="ninja stopped before it compiled anything",
            details=output.splitlines()[-SHOWN_LINES:],
            fix=f"remove {folder}, then run the same command again",
        )
    details = []
    for failure in found:
        if len(found) > 1:
            details.append(f"{failure.file} of {failure.topic or 'no topic'}:")
        details += failure.lines[:SHOWN_LINES]
        if len(failure.lines) > SHOWN_LINES:
            details.append(f"... {len(failure.lines) - SHOWN_LINES} more lines")
    return CheckError(_headline(found), cause=found[0].error, details=details, fix=_fix(found))


def _failure(target: str, lines: list[str]) -> Failure:
    error = next((line.strip() for line in lines if _ERROR.search(line)), "")
    place = next((match for line in lines if (match := _PLACE.search(line))), None)
    if place:
        return Failure(TopicId(place.group(1)), place.group(2), error, tuple(lines))
    folder, _, name = target.rpartition("/")
    topic = folder.removeprefix("obj/") if folder.startswith("obj/") else ""
    return Failure(TopicId(topic), name.removesuffix(".o") if topic else name, error, tuple(lines))


def _headline(found: list[Failure]) -> str:
    first = found[0]
    if len(found) > 1:
        topics = sorted({failure.topic for failure in found if failure.topic})
        return f"{len(found)} steps of the kernels' build failed, in topic {', '.join(topics) or 'none'}"
    if first.topic:
        return f"topic {first.topic}: {first.file} does not compile"
    return f"{first.file} does not link"


def _fix(found: list[Failure]) -> str:
    topics = sorted({failure.topic for failure in found if failure.topic})
    if not topics:
        return "compare the objects with the libraries that the error names"
    return f"correct csrc of {', '.join(topics)}, or leave it out with --without"
