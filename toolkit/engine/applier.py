"""The strict applier: a hunk goes exactly where all its lines stand, or not at all.

Where git apply succeeds, this gives the same bytes: the same order of search (outward from the stated line, forwards
first), the same anchors (a hunk for line 1 must match at the beginning, one without context after its last change at
the end), the same rule that no line is matched twice. There is no fuzz and no tolerance for white space. Three things
that git lets pass are not done here, because each of them hides a wrong patch:

* A last line without newline is found only at the end of the file. Git takes any line that begins with it, and joins
  two lines.
* A hunk that has no line to find goes only into an empty file. Git appends it to any other.
* A hunk never goes before the one above it.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator

from toolkit.model.patch import Applied, Change, FilePatch, Hunk, HunkFault, Mark, Nearest, Placement


def apply_file(patch: FilePatch, before: bytes | None) -> Applied | tuple[HunkFault, ...]:
    """Apply a file's hunks to its bytes.

    Args:
        patch: what to do; its blob ids are not looked at, the chain does that.
        before: the file's bytes at the patch's old path (its new path when it creates one), None when there is none.

    Returns:
        The bytes after and where every hunk went; or all the faults found, hunks after a failed one included.
    """
    if patch.change is Change.CREATE and before is not None:
        return (HunkFault(patch.path, 0, "it is to be created, but it exists already"),)
    if patch.change is not Change.CREATE and before is None:
        return (HunkFault(patch.old_path or "", 0, "it is to be changed, but it does not exist"),)
    image = _Image(before or b"")
    placements: list[Placement] = []
    faults: list[HunkFault] = []
    for number, hunk in enumerate(patch.hunks, 1):
        position = image.find(hunk)
        reason = image.absence(hunk) if position is None else image.objection(hunk, position)
        if position is None or reason:
            faults.append(HunkFault(patch.path, number, reason, image.nearest(hunk)))
            continue
        placements.append(Placement(number, max(hunk.old_start, 1), image.original(position) + 1))
        image.replace(hunk, position)
    if faults:
        return tuple(faults)
    after = image.data
    if patch.change is not Change.DELETE:
        return Applied(after, tuple(placements))
    if after:
        return (HunkFault(patch.path, 0, "it is to be deleted, but it holds lines that the patch does not know"),)
    return Applied(None, tuple(placements))


class _Image:
    """A file's lines while hunks replace them; positions count from 0."""

    def __init__(self, data: bytes) -> None:
        self._lines = io.BytesIO(data).readlines()
        self._written: list[tuple[int, int, int]] = []
        """Start, stop and growth of what each placed hunk wrote, in ascending order."""

    @property
    def data(self) -> bytes:
        """The file's bytes."""
        return b"".join(self._lines)

    def find(self, hunk: Hunk) -> int | None:
        """Return the position that git would choose, None when there is none."""
        old = list(hunk.old)
        end = len(self._lines)
        stated = min(max(hunk.new_start - 1, 0), end)
        for position in _outward(stated, end):
            if self._stands(old, position) and not self._overlaps(old, position) and self._anchored(hunk, position):
                return position
        return None

    def objection(self, hunk: Hunk, position: int) -> str:
        """Return why git's position is not ours, empty when it is."""
        if not hunk.old and self._lines:
            return "it has no line to find, and the file is not empty"
        if self._written and position < self._written[-1][1]:
            return f"its lines stand before the hunk above it (line {self.original(position) + 1})"
        return ""

    def absence(self, hunk: Hunk) -> str:
        """Return why the hunk has no position."""
        if not hunk.old:
            return "it has no line to find, and the file is not empty"
        old = list(hunk.old)
        places = [at for at in range(len(self._lines)) if self._stands(old, at)]
        if not places:
            return "its lines are not in the file"
        free = [at for at in places if not self._overlaps(old, at)]
        if not free:
            return f"its lines (line {self.original(places[0]) + 1}) belong to another hunk already"
        edge = "end" if free[0] == 0 or hunk.old_start > 1 else "beginning"
        where = ", ".join(str(self.original(at) + 1) for at in free[:3])
        return f"its lines (line {where}) do not stand at the {edge} of the file, where it must go"

    def replace(self, hunk: Hunk, position: int) -> None:
        """Put the hunk's new lines in place of its old ones."""
        growth = len(hunk.new) - len(hunk.old)
        self._lines[position : position + len(hunk.old)] = hunk.new
        self._written.append((position, position + len(hunk.new), growth))

    def original(self, position: int) -> int:
        """Return the position in the file as it was before any hunk."""
        return position - sum(growth for start, _, growth in self._written if start < position)

    def nearest(self, hunk: Hunk) -> Nearest | None:
        """Return the place where most of the hunk's lines stand, the closest to its stated line among equals."""
        old = hunk.old
        rows: dict[bytes, list[int]] = {}
        for row, line in enumerate(old):
            rows.setdefault(line, []).append(row)
        hits = Counter(at - row for at, line in enumerate(self._lines) for row in rows.get(line, ()) if at >= row)
        if not hits:
            return None
        position = max(hits, key=lambda at: (hits[at], -abs(at - (hunk.new_start - 1))))
        there = self._lines[position : position + len(old)]
        there += [b""] * (len(old) - len(there))
        differing = ((want, found) for want, found in zip(old, there, strict=True) if want != found)
        return Nearest(
            line=self.original(position) + 1,
            matching=hits[position],
            expected=len(old),
            difference=next(differing, (b"", b"")),
        )

    def _stands(self, old: list[bytes], position: int) -> bool:
        return self._lines[position : position + len(old)] == old

    def _overlaps(self, old: list[bytes], position: int) -> bool:
        return any(start < position + len(old) and position < stop for start, stop, _ in self._written)

    def _anchored(self, hunk: Hunk, position: int) -> bool:
        at_beginning = hunk.old_start > 1 or position == 0
        at_end = hunk.lines[-1].mark is Mark.CONTEXT or position + len(hunk.old) == len(self._lines)
        return at_beginning and at_end


def _outward(start: int, end: int) -> Iterator[int]:
    """Yield all positions from 0 to ``end``, nearest to ``start`` first; of two equally near the later one first."""
    yield start
    for distance in range(1, max(start, end - start) + 1):
        if start + distance <= end:
            yield start + distance
        if start - distance >= 0:
            yield start - distance
