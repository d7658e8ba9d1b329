"""The applier's rules, one small file each; `test_applier_against_git` holds them against git."""

from __future__ import annotations

import pytest

from toolkit.engine.applier import apply_file
from toolkit.model.patch import Applied, Change, FilePatch, Hunk, HunkFault, Line, Mark, Nearest, Placement

FILE = b"".join(b"%d\n" % number for number in range(1, 21))


def hunk(start: int, text: str) -> Hunk:
    """Return a hunk from lines such as ``' a|-b|+c'``; ``~`` at a line's end stands for no newline."""
    lines = []
    for row in text.split("|"):
        data = row[1:].encode()
        lines.append(Line(Mark(row[0]), data[:-1] if data.endswith(b"~") else data + b"\n"))
    return Hunk(start, start, tuple(lines))


def modify(*hunks: Hunk) -> FilePatch:
    return FilePatch(Change.MODIFY, "f", "f", None, None, hunks)


def faults(outcome: Applied | tuple[HunkFault, ...]) -> tuple[HunkFault, ...]:
    assert not isinstance(outcome, Applied)
    return outcome


def test_exact_place() -> None:
    outcome = apply_file(modify(hunk(4, " 4|-5|+five| 6")), FILE)
    assert outcome == Applied(FILE.replace(b"\n5\n", b"\nfive\n"), (Placement(1, 4, 4),))


@pytest.mark.parametrize(
    ("target", "offset"),
    [(b"new\nnew\n" + FILE, 2), (FILE.removeprefix(b"1\n"), -1)],
)
def test_an_offset_is_allowed_and_reported(target: bytes, offset: int) -> None:
    outcome = apply_file(modify(hunk(4, " 4|-5|+five| 6"), hunk(14, " 14|+new| 15")), target)
    assert isinstance(outcome, Applied)
    assert outcome.data == target.replace(b"\n5\n", b"\nfive\n").replace(b"\n15\n", b"\nnew\n15\n")
    assert [put.offset for put in outcome.placements] == [offset, offset]


def test_placements_count_lines_of_the_file_before_the_patch() -> None:
    grown = Hunk(14, 15, hunk(14, " 14|-15| 16").lines)
    outcome = apply_file(modify(hunk(4, " 4|+new| 5"), grown), FILE)
    assert isinstance(outcome, Applied)
    assert outcome.placements == (Placement(1, 4, 4), Placement(2, 14, 14))


@pytest.mark.parametrize(
    ("stated", "expected"),
    [(2, b"x\nA\nx\nb\nx\nb\n"), (3, b"x\nb\nx\nA\nx\nb\n"), (4, b"x\nb\nx\nA\nx\nb\n"), (9, b"x\nb\nx\nA\nx\nb\n")],
)
def test_the_nearest_place_wins_and_of_two_the_later(stated: int, expected: bytes) -> None:
    outcome = apply_file(modify(hunk(stated, "-b|+A| x")), b"x\nb\nx\nb\nx\nb\n")
    assert isinstance(outcome, Applied)
    assert outcome.data == expected


def test_white_space_is_never_forgiven() -> None:
    (fault,) = faults(apply_file(modify(hunk(2, " 4|-5|+five| 6")), FILE.replace(b"\n5\n", b"\n5 \n")))
    assert fault.hunk == 1
    assert fault.nearest == Nearest(line=4, matching=2, expected=3, difference=(b"5\n", b"5 \n"))


def test_all_faults_are_found_and_the_rest_is_still_tried() -> None:
    patch = modify(hunk(2, " 2|-three|+3| 4"), hunk(6, " 6|-7|+seven| 8"), hunk(18, " 18|-nineteen|+19| 20"))
    found = faults(apply_file(patch, FILE))
    assert [(fault.path, fault.hunk) for fault in found] == [("f", 1), ("f", 3)]
    assert [fault.nearest and fault.nearest.line for fault in found] == [2, 18]


def test_nothing_alike_has_no_nearest_place() -> None:
    (fault,) = faults(apply_file(modify(hunk(2, " p|-q|+r| s")), FILE))
    assert fault == HunkFault("f", 1, "its lines are not in the file", None)


def test_nearest_at_the_end_of_the_file() -> None:
    (fault,) = faults(apply_file(modify(hunk(19, " 19|-20|+x| 21")), FILE))
    assert fault.nearest == Nearest(19, 2, 3, (b"21\n", b""))


@pytest.mark.parametrize(
    ("placed", "target", "reason"),
    [
        (hunk(1, "-1|+one| 2"), b"0\n" + FILE, "(line 2) do not stand at the beginning"),
        (hunk(19, " 19|-20|+twenty"), FILE + b"21\n", "(line 19) do not stand at the end"),
        (hunk(1, "-1|+one"), b"1\n2\n", "(line 1) do not stand at the end"),
        (hunk(3, "+3"), FILE, "no line to find"),
    ],
)
def test_anchors(placed: Hunk, target: bytes, reason: str) -> None:
    (fault,) = faults(apply_file(modify(placed), target))
    assert reason in fault.reason


def test_hunks_never_overlap() -> None:
    found = faults(apply_file(modify(hunk(2, " a|+new| b"), hunk(3, " b|-c|+d| e")), b"0\na\nb\nc\ne\n"))
    assert [(fault.hunk, fault.reason) for fault in found] == [(2, "its lines (line 3) belong to another hunk already")]


def test_hunks_never_go_backwards() -> None:
    found = faults(apply_file(modify(hunk(15, " 15|-16| 17"), hunk(18, " 4|-5| 6")), FILE))
    assert [(fault.hunk, fault.reason) for fault in found] == [(2, "its lines stand before the hunk above it (line 4)")]


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("-a~|+b~", b"a", b"b"),
        ("-a~|+a", b"a", b"a\n"),
        (" x|-a|+a~", b"x\na\n", b"x\na"),
        ("-a\r|+a", b"a\r\n", b"a\n"),
        ("-a\x0cb|+\x85", b"a\x0cb\n", b"\xc2\x85\n"),
        ("-a~", b"a", b""),
        ("+a~", b"", b"a"),
    ],
)
def test_ends_of_lines(text: str, before: bytes, after: bytes) -> None:
    start = 0 if text.startswith("+") else 1
    outcome = apply_file(modify(hunk(start, text)), before)
    assert isinstance(outcome, Applied)
    assert outcome.data == after


@pytest.mark.parametrize(
    ("change", "hunks", "before", "expected"),
    [
        (Change.CREATE, (hunk(0, "+a|+b~"),), None, Applied(b"a\nb", (Placement(1, 1, 1),))),
        (Change.CREATE, (), None, Applied(b"")),
        (Change.CREATE, (hunk(0, "+a"),), b"", "exists already"),
        (Change.DELETE, (hunk(1, "-a|-b"),), b"a\nb\n", Applied(None, (Placement(1, 1, 1),))),
        (Change.DELETE, (), b"", Applied(None)),
        (Change.DELETE, (), b"a\n", "lines that the patch does not know"),
        (Change.DELETE, (hunk(1, "-a|-b"),), b"a\nb\nc\n", "do not stand at the end"),
        (Change.DELETE, (), None, "does not exist"),
        (Change.MODIFY, (hunk(1, "-a|+b"),), None, "does not exist"),
        (Change.RENAME, (), b"a\0b", Applied(b"a\0b")),
        (Change.RENAME, (hunk(1, "-a|+b"),), b"a\n", Applied(b"b\n", (Placement(1, 1, 1),))),
        (Change.RENAME, (), None, "does not exist"),
    ],
)
def test_changes(change: Change, hunks: tuple[Hunk, ...], before: bytes | None, expected: Applied | str) -> None:
    old = None if change is Change.CREATE else "old"
    new = None if change is Change.DELETE else "new"
    outcome = apply_file(FilePatch(change, old, new, None, None, hunks), before)
    if isinstance(expected, Applied):
        assert outcome == expected
    else:
        assert expected in faults(outcome)[0].reason
