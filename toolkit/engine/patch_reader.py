"""Reads a git patch into values, in bytes, and refuses whatever the applier could not carry out exactly.

unidiff finds the lines of each hunk and holds them against the hunk's counts. It gets one hunk at a time, in latin-1
(one character a byte), split at newlines only, and what it returns must spell the very lines that went in: left to
itself it drops lines that it does not know, takes a mail's signature for a removed line and splits names at their
spaces. What stands around the hunks (names, ids, modes) is therefore read here.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import NoReturn

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from toolkit.model.errors import UsageError
from toolkit.model.ids import BlobId
from toolkit.model.patch import Change, FilePatch, Hunk, Line, Mark

_BYTES = "latin-1"
_FILE = "diff --git "
_HUNK = "@@ "
_NO_NEWLINE = "\\ No newline at end of file\n"

_FIELDS = (
    "index",
    "new file mode",
    "deleted file mode",
    "rename from",
    "rename to",
    "similarity index",
    "dissimilarity index",
    "---",
    "+++",
)
_REFUSED = {
    "old mode": "it changes the file's mode, and a series carries contents only",
    "new mode": "it changes the file's mode, and a series carries contents only",
    "copy from": "it copies a file; git diff --no-find-copies writes the copy as a new file",
    "copy to": "it copies a file; git diff --no-find-copies writes the copy as a new file",
    "Binary files": "it is binary, and a series carries text only",
    "GIT binary patch": "it is binary, and a series carries text only",
}
_INDEX = re.compile(r"([0-9a-f]+)\.\.([0-9a-f]+)(?: ([0-7]{6}))?")
_PLAIN_MODES = {"100644", "100755"}
_QUOTED = re.compile(r'"(?:[^"\\]|\\(?:[0-3][0-7]{2}|[abtnvfr"\\]))*"')
_ESCAPE = re.compile(r'\\([0-7]{3}|[abtnvfr"\\])')
_ESCAPED = {"a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}


@dataclass(slots=True)
class _Block:
    """The lines of one file: its ``diff --git`` line, its extended header, and its hunks."""

    title: str
    header: list[str] = field(default_factory=list)
    hunks: list[list[str]] = field(default_factory=list)


def read_patch(data: bytes) -> tuple[FilePatch, ...]:
    """Return what the patch does, file by file, in its order.

    Text before the first file (a mail's header) and a mail's signature after the last are ignored; no other line is.

    Args:
        data: a patch as ``git diff --full-index`` or ``git format-patch --full-index`` writes it; may be empty.

    Raises:
        UsageError: the patch is damaged, or asks for something that cannot be applied exactly (binary contents, modes,
            copies, abbreviated ids, paths that leave the tree). It names the file and, where there is one, the hunk.
    """
    lines = _without_signature([line.decode(_BYTES) for line in io.BytesIO(data)])
    patches = tuple(_read_file(block) for block in _blocks(lines))
    for side in ([patch.old_path for patch in patches], [patch.new_path for patch in patches]):
        twice = [path for path, count in Counter(side).items() if path is not None and count > 1]
        if twice:
            _refuse(twice[0], 0, "it appears twice in one patch")
    return patches


def _refuse(path: str, hunk: int, cause: str) -> NoReturn:
    subject = f"{path}, hunk {hunk}" if hunk else path
    raise UsageError(
        f"{subject}: the patch cannot be used",
        cause=cause,
        fix="export the patch again (git diff --full-index); do not edit one by hand",
    )


def _without_signature(lines: list[str]) -> list[str]:
    """Cut the blank lines and the mail signature (``-- ``, git's version) from the end."""
    end = len(lines)
    while end and lines[end - 1] == "\n":
        end -= 1
    # A hunk's own line "-- " is followed by a line that starts with a mark, a version never does.
    if end >= 2 and lines[end - 2] == "-- \n" and lines[end - 1][0] not in " +-\\@":
        end -= 2
        while end and lines[end - 1] == "\n":
            end -= 1
    return lines[:end]


def _blocks(lines: list[str]) -> list[_Block]:
    blocks: list[_Block] = []
    for line in lines:
        if line.startswith(_FILE):
            blocks.append(_Block(title=line))
        elif not blocks:
            if line.startswith(_HUNK):
                _refuse("the first file", 1, "no 'diff --git' line stands before it")
        elif line.startswith(_HUNK):
            blocks[-1].hunks.append([line])
        elif blocks[-1].hunks:
            blocks[-1].hunks[-1].append(line)
        else:
            blocks[-1].header.append(line)
    if lines and not blocks:
        _refuse("the patch", 0, "it has no 'diff --git' line")
    if lines and not lines[-1].endswith("\n"):
        _refuse(blocks[-1].title.strip(), len(blocks[-1].hunks), "the patch ends in the middle of a line")
    return blocks


def _read_file(block: _Block) -> FilePatch:
    title = block.title.removesuffix("\n")
    if title.endswith("\r"):
        _refuse(title.strip(), 0, "its line ends were converted to CR LF")
    fields = _fields(title, block.header)
    change = _change(title, fields)
    old, new = _names(title, fields, change, has_hunks=bool(block.hunks))
    path = new or old or ""
    before, after = _ids(path, fields, change)
    hunks = tuple(_read_hunk(path, number, lines) for number, lines in enumerate(block.hunks, 1))
    _check_hunks(path, change, hunks)
    return FilePatch(change, old, new, before, after, hunks)


def _fields(title: str, header: list[str]) -> dict[str, str]:
    """Return the extended header as keyword -> rest of the line."""
    fields: dict[str, str] = {}
    for line in header:
        text = line.removesuffix("\n")
        for keyword, cause in _REFUSED.items():
            if text.startswith(keyword):
                _refuse(title, 0, cause)
        found = [keyword for keyword in _FIELDS if text.startswith(f"{keyword} ")]
        if not found:
            _refuse(title, 0, f"its header has a line that means nothing to git: {text!r}")
        if found[0] in fields:
            _refuse(title, 0, f"its header says {found[0]!r} twice")
        fields[found[0]] = text.removeprefix(f"{found[0]} ")
    return fields


def _change(title: str, fields: dict[str, str]) -> Change:
    stated = {
        Change.CREATE: "new file mode" in fields,
        Change.DELETE: "deleted file mode" in fields,
        Change.RENAME: "rename from" in fields and "rename to" in fields,
    }
    changes = [change for change, said in stated.items() if said]
    if len(changes) > 1 or ("rename from" in fields) != ("rename to" in fields):
        _refuse(title, 0, "its header contradicts itself")
    if fields.get("new file mode", "100644") != "100644":
        _refuse(
            title, 0, f"it creates a file of mode {fields['new file mode']}; a series adds plain files only (100644)"
        )
    if fields.get("deleted file mode", "100644") not in _PLAIN_MODES:
        _refuse(title, 0, f"it deletes something of mode {fields['deleted file mode']}, which is not a plain file")
    return changes[0] if changes else Change.MODIFY


def _names(title: str, fields: dict[str, str], change: Change, *, has_hunks: bool) -> tuple[str | None, str | None]:
    """Return the path before and after; the title, the rename lines and the ``---`` lines must agree on them."""
    pairs = _title_pairs(title)
    if change is Change.RENAME:
        pair = (_decode(title, _unquote(fields["rename from"])), _decode(title, _unquote(fields["rename to"])))
    else:
        pair = next(((old, new) for old, new in pairs if old == new), ("", ""))
    if pair not in pairs:
        _refuse(title, 0, "the names in its header differ, or lack git's prefixes a/ and b/")
    for name in pair:
        _check_path(name)
    old = None if change is Change.CREATE else pair[0]
    new = None if change is Change.DELETE else pair[1]
    stated = (fields.get("---"), fields.get("+++"))
    if has_hunks != (stated[0] is not None) or has_hunks != (stated[1] is not None):
        _refuse(pair[1], 0, "its '---' and '+++' lines and its hunks do not belong together: the patch is truncated")
    if has_hunks and (_side(title, stated[0], "a/"), _side(title, stated[1], "b/")) != (old, new):
        _refuse(pair[1], 0, "its '---' and '+++' lines name other files than its 'diff --git' line")
    return old, new


def _title_pairs(title: str) -> list[tuple[str, str]]:
    """Return every way to read ``diff --git a/X b/Y``; names with spaces leave several."""
    rest = title.removeprefix(_FILE)
    quoted = _QUOTED.match(rest)
    cuts = [quoted.end()] if quoted else [at for at, sign in enumerate(rest) if sign == " "]
    pairs = [(_unquote(rest[:cut]), _unquote(rest[cut + 1 :])) for cut in cuts]
    return [
        (_decode(title, old.removeprefix("a/")), _decode(title, new.removeprefix("b/")))
        for old, new in pairs
        if old.startswith("a/") and new.startswith("b/")
    ]


def _side(title: str, stated: str | None, prefix: str) -> str | None:
    """Return the path of a ``---`` or ``+++`` line; git ends a name that has spaces with a tab."""
    name = _unquote((stated or "").removesuffix("\t"))
    return None if name == "/dev/null" else _decode(title, name.removeprefix(prefix))


def _unquote(name: str) -> str:
    if not _QUOTED.fullmatch(name):
        return name

    def plain(match: re.Match[str]) -> str:
        return _ESCAPED.get(match[1]) or chr(int(match[1], 8))

    return _ESCAPE.sub(plain, name[1:-1])


def _decode(title: str, name: str) -> str:
    try:
        return name.encode(_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        _refuse(title, 0, "its name is not UTF-8")


def _check_path(path: str) -> None:
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or "." in parts or "" in parts or ".git" in parts or "\0" in path:
        _refuse(path, 0, "it is not a plain relative path inside the tree")


def _ids(path: str, fields: dict[str, str], change: Change) -> tuple[BlobId | None, BlobId | None]:
    if "index" not in fields:
        return None, None
    stated = _INDEX.fullmatch(fields["index"])
    if stated is None:
        _refuse(path, 0, f"its index line is damaged: {fields['index']!r}")
    if (stated[3] or "100644") not in _PLAIN_MODES:
        _refuse(path, 0, f"it changes something of mode {stated[3]}, which is not a plain file")
    for digits in (stated[1], stated[2]):
        if len(digits) != 40:
            _refuse(path, 0, f"its index line has an id of {len(digits)} digits, {digits}; all 40 are needed")
    before, after = (None if set(digits) == {"0"} else BlobId(digits) for digits in (stated[1], stated[2]))
    if (before is None, after is None) != (change is Change.CREATE, change is Change.DELETE):
        _refuse(path, 0, "its index line contradicts its header: an id of zeros stands for no file")
    return before, after


def _read_hunk(path: str, number: int, lines: list[str]) -> Hunk:
    # Git translates the marker; unidiff knows the English one only.
    prepared = [lines[0], *(_NO_NEWLINE if line.startswith("\\ ") else line for line in lines[1:])]
    try:
        files = PatchSet(["--- a/file\n", "+++ b/file\n", *prepared])
    except UnidiffParseError as error:
        _refuse(path, number, f"{error}".strip())
    if [len(file) for file in files] != [1]:
        _refuse(path, number, f"its header is damaged: {lines[0].rstrip()!r}")
    read = files[0][0]
    if "\n" in prepared:
        _refuse(path, number, "it has an empty line without its leading space: something stripped trailing spaces")
    if [str(line) for line in read] != prepared[1:]:
        _refuse(path, number, "it does not have the lines that its header counts")
    found: list[Line] = []
    for line in read:
        if line.line_type != "\\":
            found.append(Line(Mark(line.line_type), line.value.encode(_BYTES)))
        elif found and found[-1].data.endswith(b"\n") and str(line) == _NO_NEWLINE:
            found[-1] = Line(found[-1].mark, found[-1].data.removesuffix(b"\n"))
        else:
            _refuse(path, number, "a line that starts with a backslash stands where none may")
    hunk = Hunk(read.source_start, read.target_start, tuple(found))
    _check_hunk(path, number, hunk)
    return hunk


def _check_hunk(path: str, number: int, hunk: Hunk) -> None:
    if all(line.mark is Mark.CONTEXT for line in hunk.lines):
        _refuse(path, number, "it changes nothing")
    if any(not line.endswith(b"\n") for side in (hunk.old, hunk.new) for line in side[:-1]):
        _refuse(path, number, "a line without newline is not the last of its side")
    if (hunk.old and hunk.old_start < 1) or (hunk.new and hunk.new_start < 1):
        _refuse(path, number, "its header gives line 0 to lines that exist")


def _check_hunks(path: str, change: Change, hunks: tuple[Hunk, ...]) -> None:
    if change is Change.MODIFY and not hunks:
        _refuse(path, 0, "it changes nothing")
    if change is Change.CREATE and (len(hunks) > 1 or any(hunk.old for hunk in hunks)):
        _refuse(path, 1, "it creates the file and yet expects lines in it")
    if change is Change.DELETE and (len(hunks) > 1 or any(hunk.new for hunk in hunks)):
        _refuse(path, 1, "it deletes the file and yet leaves lines in it")
