"""The applier against ``git apply``, on generated files, edits and moved targets.

The oracle is git itself: it makes the patch and it applies it (white space warnings off, no line end conversion).
Equal are: which files apply, their bytes, which hunks fail, and each hunk's offset. The applier is stricter on purpose
in three cases, which `stricter` names one by one; the last tests show each of them with git's own answer.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.conftest import SealedGit
from toolkit.engine.applier import apply_file
from toolkit.engine.patch_reader import read_patch
from toolkit.model.ids import blob_id
from toolkit.model.patch import Applied, FilePatch, Mark

# Few and often equal, so that a hunk fits in several places; and everything that a careless reader takes for a line
# end, a header, a marker or a signature.
COMMON = [b"a\n", b"b\n", b"\n", b"}\n"]
ODD = [
    b"\r\n", b"a\r\n", b"a\rb\n", b"\x0c\n", b"\x0b\x1c\x1d\x1e\n", b"\x85\n", b"caf\xe9\n", b"\xff\xfe\n", b"a\0b\n",
    b" \n", b"\ta \n", b"\xe2\x80\xa8\n", b"- \n", b"-- a/x\n", b"++ b/x\n", b"@@ -1 +1 @@\n", b"diff --git a/x b/x\n",
    b"\\ No newline at end of file\n", b"index 0..1\n", b"GIT binary patch\n",
]  # fmt: skip
UNIQUE = [f"line {number}\n".encode() for number in range(12)]

lines = st.sampled_from(COMMON) | st.sampled_from(COMMON + UNIQUE) | st.sampled_from(COMMON + ODD + UNIQUE)
edits = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3), st.lists(lines, max_size=3)), min_size=1, max_size=4)

# Context of which there is more than one in reach.
repeating = st.lists(lines, min_size=1, max_size=5).map(lambda text: text * 30)
moves = st.builds(
    lambda above, below, repeat: lambda text: above + text * repeat + below,
    st.lists(lines, max_size=6),
    st.lists(lines, max_size=3),
    st.integers(1, 2),
)


def edited(text: list[bytes], changes: list[tuple[int, int, list[bytes]]]) -> list[bytes]:
    """Return the lines with each change's new lines in place of the old ones."""
    result = list(text)
    for position, removed, added in changes:
        at = position % (len(result) + 1)
        result[at : at + removed] = added
    return result


@dataclass(frozen=True)
class Case:
    """One file: what the patch was made from, what it leads to, and what it is applied to."""

    old: bytes
    new: bytes
    target: bytes


@st.composite
def cases(draw: st.DrawFn) -> Case:
    size = draw(st.integers(0, 30))
    old = draw(st.lists(lines, min_size=size, max_size=size) | repeating.map(lambda text: text[:size]))
    new = edited(old, draw(edits))
    target = draw(st.just(old) | st.builds(edited, st.just(old), edits) | moves.map(lambda move: move(old)))
    ends = draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
    texts = [
        b"".join(text).removesuffix(b"\n") if end else b"".join(text)
        for text, end in zip((old, new, target), ends, strict=True)
    ]
    return Case(*texts)


@dataclass
class Verdict:
    """What git said about one file of a patch."""

    rejected: set[int] = field(default_factory=set)
    offsets: dict[int, int] = field(default_factory=dict)


def make_patch(git: SealedGit, old: dict[str, bytes], new: dict[str, bytes], *options: str) -> bytes:
    """Return git's own patch between two trees."""
    repository = git.repository()
    trees = []
    for tree in (old, new):
        for path in repository.iterdir():
            if path.name != ".git":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        write_tree(repository, tree)
        git("add", "--all", "--force", cwd=repository)
        trees.append(git("write-tree", cwd=repository).stdout.decode().strip())
    patch = git("diff", "--full-index", "--text", *options, *trees, cwd=repository).stdout
    shutil.rmtree(repository)
    return patch


def write_tree(root: Path, tree: dict[str, bytes]) -> None:
    for path, data in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)


def git_apply(git: SealedGit, patch: bytes, tree: dict[str, bytes]) -> tuple[dict[str, bytes], dict[str, Verdict]]:
    """Return the tree after ``git apply --reject``, and its verdict on each file."""
    folder = git.folder()
    write_tree(folder, tree)
    done = git("apply", "--reject", "-v", "--whitespace=nowarn", "-", cwd=folder, data=patch, check=False)
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".rej"}
    shutil.rmtree(folder)
    verdicts: dict[str, Verdict] = {}
    current = Verdict()
    for line in done.stderr.decode("latin-1").split("\n"):
        if named := re.match(r"(?:Checking|Applying) patch (.*?)(?: cleanly\.| with \d+ rejects?)?\.\.\.$", line):
            current = verdicts.setdefault(named[1].rpartition(" => ")[2], Verdict())
        elif failed := re.match(r"Rejected hunk #(\d+)\.", line):
            current.rejected.add(int(failed[1]))
        elif moved := re.match(r"Hunk #(\d+) succeeded at \d+ \(offset (-?\d+) lines?\)", line):
            current.offsets[int(moved[1])] = int(moved[2])
    return after, verdicts


def stricter(patch: FilePatch, number: int, target: bytes, verdict: Verdict) -> bool:
    """Tell whether a hunk is one that git lets pass and the applier refuses on purpose."""
    hunk = patch.hunks[number - 1]
    finds_nothing = not hunk.old and bool(target)
    # Where git put the hunks that it placed; a line in the file as it was at that time.
    placed = {
        at: hunk.new_start + verdict.offsets.get(at, 0)
        for at, hunk in enumerate(patch.hunks, 1)
        if at not in verdict.rejected
    }
    goes_back = number in placed and any(placed[number] < placed[at] for at in placed if at < number)
    joins = joins_lines(patch) and number == len(patch.hunks)
    return finds_nothing or goes_back or joins


def joins_lines(patch: FilePatch) -> bool:
    """Tell whether the patch has context that ends without newline: git takes it for the start of a longer line."""
    last = patch.hunks[-1].lines[-1]
    return last.mark is Mark.CONTEXT and not last.data.endswith(b"\n")


def compare(patch: FilePatch, target: bytes, after: bytes | None, verdict: Verdict) -> str:
    """Assert that the applier and git agree on one file; return how it ended."""
    ours = apply_file(patch, target)
    if isinstance(ours, Applied):
        if joins_lines(patch) and ours.data != after:
            assert ours.data is not None
            assert ours.data.endswith(patch.hunks[-1].lines[-1].data)
            return "stricter"
        assert not verdict.rejected
        assert ours.data == after
        # Of a hunk that leaves no line, git counts the offset from the line above it: one more than the file moved.
        emptied = {number for number, hunk in enumerate(patch.hunks, 1) if not hunk.new}
        offsets = {put.hunk: put.offset for put in ours.placements if put.offset and put.hunk not in emptied}
        assert offsets == {number: by for number, by in verdict.offsets.items() if number not in emptied}
        return "offset" if verdict.offsets else "exact"
    refused = {fault.hunk for fault in ours}
    if any(stricter(patch, number, target, verdict) for number in refused):
        return "stricter"
    assert refused == verdict.rejected
    return "rejected"


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(batch=st.lists(cases(), min_size=8, max_size=24), context=st.sampled_from([0, 1, 2, 3, 3, 3]))
def test_modified_files(git: SealedGit, batch: list[Case], context: int) -> None:
    named = {f"file{number:02}": case for number, case in enumerate(batch)}
    data = make_patch(
        git, {n: c.old for n, c in named.items()}, {n: c.new for n, c in named.items()}, f"--unified={context}"
    )
    patches = read_patch(data)
    assert [patch.path for patch in patches] == [name for name, case in named.items() if case.old != case.new]
    after, verdicts = git_apply(git, data, {name: case.target for name, case in named.items()})
    for patch in patches:
        case = named[patch.path]
        assert (patch.old_blob, patch.new_blob) == (blob_id(case.old), blob_id(case.new))
        if context:
            assert restored(patch, case.old) == case.new
        event(compare(patch, case.target, after[patch.path], verdicts[patch.path]))


def restored(patch: FilePatch, old: bytes) -> bytes | None:
    """Return what the patch makes of the very bytes it was made from."""
    ours = apply_file(patch, old)
    assert isinstance(ours, Applied), ours
    assert all(put.offset == 0 for put in ours.placements)
    return ours.data


NAMES = ["f", "a dir/f", "ä/f", 'q"t/f', "b b/b", "tab\t/f"]


@st.composite
def trees(draw: st.DrawFn) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Two trees, between which files are created, deleted, emptied, filled, changed and renamed."""
    old: dict[str, bytes] = {}
    new: dict[str, bytes] = {}
    for number in range(draw(st.integers(1, 8))):
        name = f"{draw(st.sampled_from(NAMES))}{number}"
        text = [f"{number} {row}\n".encode() for row in range(20)] + draw(st.lists(lines, max_size=6))
        before, after = b"".join(text), b"".join(edited(text, draw(edits)))
        was, now = draw(
            st.sampled_from(
                [(before, after), (None, after), (before, None), (b"", after), (before, b""), (None, b""), (b"", None)]
            )
        )
        renamed = draw(st.booleans()) and was == before and now == after
        if was is not None:
            old[name] = was
        if now is not None:
            new[f"new/{name}" if renamed else name] = draw(st.sampled_from([now, was])) if renamed else now
    return old, new


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(pair=trees())
def test_whole_trees(git: SealedGit, pair: tuple[dict[str, bytes], dict[str, bytes]]) -> None:
    old, new = pair
    patches = read_patch(make_patch(git, old, new, "--find-renames=30%"))
    after = dict(old)
    for patch in patches:
        event(patch.change.value)
        before = old.get(patch.old_path or patch.path)
        assert patch.old_blob in (None, None if before is None else blob_id(before))
        ours = apply_file(patch, before)
        assert isinstance(ours, Applied), ours
        if patch.old_path:
            del after[patch.old_path]
        if patch.new_path and ours.data is not None:
            after[patch.new_path] = ours.data
    assert after == new


def hand_made(old: bytes, new: bytes, body: bytes) -> bytes:
    return b"diff --git a/f b/f\nindex %s..%s 100644\n--- a/f\n+++ b/f\n%s" % (
        blob_id(old).encode(), blob_id(new).encode(), body,
    )  # fmt: skip


STRICTER = {
    "a last line without newline matches the start of a longer line": (
        b"@@ -1,2 +1,2 @@\n-a\n+b\n end\n\\ No newline at end of file\n",
        b"a\nend  \nmore\n",
        b"b\nendmore\n",
    ),
    "a hunk without context goes to the end of the file": (b"@@ -2,0 +3 @@\n+b\n", b"a\na\na\n", b"a\na\na\nb\n"),
    "a hunk goes before the one above it": (
        b"@@ -2,3 +2,3 @@\n a\n-x\n+y\n a\n@@ -6,3 +6,3 @@\n b\n-x\n+y\n b\n",
        b"0\nb\nx\nb\na\nx\na\n0\n",
        b"0\nb\ny\nb\na\ny\na\n0\n",
    ),
}


@pytest.mark.parametrize("case", STRICTER)
def test_stricter_than_git_on_purpose(git: SealedGit, case: str) -> None:
    body, target, theirs = STRICTER[case]
    data = hand_made(b"", b"", body)
    after, verdicts = git_apply(git, data, {"f": target})
    assert (after["f"], verdicts["f"].rejected) == (theirs, set())
    (patch,) = read_patch(data)
    faults = apply_file(patch, target)
    assert not isinstance(faults, Applied)
    assert all(stricter(patch, fault.hunk, target, verdicts["f"]) for fault in faults)


@pytest.mark.parametrize(
    ("header", "target"),
    [
        (f"new file mode 100644\nindex {'0' * 40}..{blob_id(b'')}\n", {"f": b""}),
        (f"deleted file mode 100644\nindex {blob_id(b'')}..{'0' * 40}\n", {"f": b"x\n"}),
        (f"deleted file mode 100644\nindex {blob_id(b'')}..{'0' * 40}\n", {}),
        (
            f"deleted file mode 100644\nindex {blob_id(b'a')}..{'0' * 40}\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
            {"f": b"a\nb\n"},
        ),
        (f"index {blob_id(b'a')}..{blob_id(b'b')} 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n", {}),
    ],
)
def test_what_git_refuses_outright(git: SealedGit, header: str, target: dict[str, bytes]) -> None:
    data = f"diff --git a/f b/f\n{header}".encode()
    folder = git.folder()
    write_tree(folder, target)
    assert git("apply", "-", cwd=folder, data=data, check=False).returncode != 0
    (patch,) = read_patch(data)
    assert not isinstance(apply_file(patch, target.get("f")), Applied)
