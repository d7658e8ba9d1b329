"""The patch reader: what git writes is read to the byte, and whatever cannot be applied exactly is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import SealedGit
from toolkit.engine.patch_reader import read_patch
from toolkit.model.errors import UsageError
from toolkit.model.ids import blob_id
from toolkit.model.patch import Change, FilePatch, Hunk, Line, Mark

OLD, NEW, ZERO = "1" * 40, "2" * 40, "0" * 40
BODY = "@@ -1,2 +1,2 @@ def f():\n a\n-b\n+c\n"


def modify(body: str = BODY, *, name: str = "x.py", index: str = f"{OLD}..{NEW} 100644") -> str:
    return f"diff --git a/{name} b/{name}\nindex {index}\n--- a/{name}\n+++ b/{name}\n{body}"


def read(text: str) -> tuple[FilePatch, ...]:
    return read_patch(text.encode("latin-1"))


def test_nothing_to_read() -> None:
    assert read_patch(b"") == ()
    assert read_patch(b"\n\n") == ()


def test_a_modified_file() -> None:
    hunk = Hunk(1, 1, (Line(Mark.CONTEXT, b"a\n"), Line(Mark.REMOVE, b"b\n"), Line(Mark.ADD, b"c\n")))
    assert read(modify()) == (FilePatch(Change.MODIFY, "x.py", "x.py", OLD, NEW, (hunk,)),)


def test_without_ids() -> None:
    (patch,) = read(modify().replace(f"index {OLD}..{NEW} 100644\n", ""))
    assert (patch.old_blob, patch.new_blob) == (None, None)


@pytest.mark.parametrize(
    ("body", "old", "new"),
    [
        ("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n", (b"a",), (b"b\n",)),
        ("@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n", (b"a\n",), (b"b",)),
        ("@@ -1,2 +1 @@\n-a\n b\n\\ Pas de fin de ligne\n", (b"a\n", b"b"), (b"b",)),
        ("@@ -1 +1 @@\n--- a/x\n+++ b/x\n", (b"-- a/x\n",), (b"++ b/x\n",)),
        ("@@ -1,2 +1 @@\n-a\n--- \n", (b"a\n", b"-- \n"), ()),
        ("@@ -1 +1,2 @@\n+@@ -1 +1 @@\n a\r\n", (b"a\r\n",), (b"@@ -1 +1 @@\n", b"a\r\n")),
        ("@@ -1 +1 @@\n-a\x85\x1c\x0c\rb\n+\xe9\xff\n", (b"a\x85\x1c\x0c\rb\n",), (b"\xe9\xff\n",)),
        ("@@ -1 +1 @@\n-\\ No newline at end of file\n+\n", (b"\\ No newline at end of file\n",), (b"\n",)),
    ],
)
def test_lines_survive_to_the_byte(body: str, old: tuple[bytes, ...], new: tuple[bytes, ...]) -> None:
    if not new:
        body = body.replace("+1 @@", "+0,0 @@")
    (patch,) = read(modify(body))
    assert (patch.hunks[0].old, patch.hunks[0].new) == (old, new)


def test_two_hunks_and_two_files() -> None:
    patches = read(modify(BODY + "@@ -9 +9 @@\n-x\n+y\n") + modify(name="z.py"))
    assert [(patch.path, [hunk.old_start for hunk in patch.hunks]) for patch in patches] == [
        ("x.py", [1, 9]),
        ("z.py", [1]),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"diff --git a/e b/e\nnew file mode 100644\nindex {ZERO}..{NEW}\n",
            FilePatch(Change.CREATE, None, "e", None, NEW, ()),
        ),
        (
            f"diff --git a/e b/e\ndeleted file mode 100755\nindex {OLD}..{ZERO}\n",
            FilePatch(Change.DELETE, "e", None, OLD, None, ()),
        ),
        (
            "diff --git a/a b b/c b/d\nsimilarity index 100%\nrename from a b\nrename to c b/d\n",
            FilePatch(Change.RENAME, "a b", "c b/d", None, None, ()),
        ),
        (
            'diff --git "a/\\303\\244.py" "b/\\"\\t.py"\nsimilarity index 100%\n'
            'rename from "\\303\\244.py"\nrename to "\\"\\t.py"\n',
            FilePatch(Change.RENAME, "ä.py", '"\t.py', None, None, ()),
        ),
    ],
)
def test_files_without_hunks(text: str, expected: FilePatch) -> None:
    assert read(text) == (expected,)
    assert read(text + "-- \n2.39.5\n\n") == (expected,)


def test_names_with_spaces() -> None:
    text = modify(name="a b/b c.py").replace("c.py\n+++", "c.py\t\n+++").replace("c.py\n@@", "c.py\t\n@@")
    (patch,) = read(text)
    assert patch.path == "a b/b c.py"


@pytest.mark.parametrize("signature", ["", "\n", "-- \n2.39.5\n\n", "-- \n2.39.5", "\n-- \n2.52.0.windows.1\n\n\n"])
def test_mail_around_the_patch_is_ignored(signature: str) -> None:
    head = (
        "From 1234 Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\nSubject: [PATCH] x\n\nWhy.\n---\n x.py | 2 +-\n\n"
    )
    assert read(head + modify() + signature) == read(modify())


def test_what_format_patch_writes(git: SealedGit) -> None:
    repository = git.repository()
    before = b"a\r\nb\n" * 9
    after = before.replace(b"b\n", b"-- \n", 1) + b"no end"
    for message, data in (("one", before), ("two", after)):
        (repository / "a file.py").write_bytes(data)
        git("add", "--all", cwd=repository)
        git("commit", "--quiet", "--message", message, cwd=repository)
    mail = git("format-patch", "--full-index", "--stdout", "-1", cwd=repository).stdout
    assert mail.startswith(b"From ")
    (patch,) = read_patch(mail)
    assert (patch.path, patch.old_blob, patch.new_blob) == ("a file.py", blob_id(before), blob_id(after))
    assert patch.hunks[-1].new[-1] == b"no end"


CREATE = f"diff --git a/e b/e\nnew file mode 100644\nindex {ZERO}..{NEW}\n"

REFUSED = {
    "no file header": (BODY, "the first file, hunk 1", "no 'diff --git' line"),
    "only words": ("hello\n", "the patch", "no 'diff --git' line"),
    "fewer lines than counted": (modify("@@ -1,3 +1,3 @@\n a\n-b\n+c\n"), "x.py, hunk 1", "shorter"),
    "more lines than counted": (modify("@@ -1,2 +1,2 @@\n a\n-b\n+c\n+d\n"), "x.py, hunk 1", "header counts"),
    "more context than counted": (modify("@@ -1,1 +1,2 @@\n a\n-b\n+c\n"), "x.py, hunk 1", "longer"),
    "second hunk short": (modify(BODY + "@@ -9,2 +9,2 @@\n-x\n+y\n"), "x.py, hunk 2", "shorter"),
    "cut in a line": (modify()[:-1], "x.py", "middle of a line"),
    "cut before its hunks": (modify(""), "x.py", "truncated"),
    "bad hunk header": (modify("@@ -1,x +1 @@\n-a\n+b\n"), "x.py, hunk 1", "damaged"),
    "stripped spaces": (modify("@@ -1,2 +1,2 @@\n\n-b\n+c\n"), "x.py, hunk 1", "stripped"),
    "no change in a hunk": (modify("@@ -1 +1 @@\n a\n"), "x.py, hunk 1", "changes nothing"),
    "no newline inside": (
        modify("@@ -1 +1,2 @@\n-a\n+b\n\\ No newline at end of file\n+c\n"),
        "x.py, hunk 1",
        "not the last of its side",
    ),
    "marker twice": (modify(BODY + "\\ No newline at end of file\n" * 2), "x.py, hunk 1", "backslash"),
    "line 0": (modify("@@ -0,2 +1,2 @@\n a\n-b\n+c\n"), "x.py, hunk 1", "line 0"),
    "mode change": ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "a/x", "mode"),
    "executable": (CREATE.replace("100644", "100755"), "a/e", "plain files only"),
    "symbolic link": (CREATE.replace("100644", "120000"), "a/e", "plain files only"),
    "link changed": (modify(index=f"{OLD}..{NEW} 120000"), "x.py", "not a plain file"),
    "copy": ("diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n", "a/x", "copies"),
    "binary": (f"diff --git a/x b/x\nindex {OLD}..{NEW} 100644\nBinary files a/x and b/x differ\n", "a/x", "binary"),
    "binary contents": (
        f"diff --git a/x b/x\nindex {OLD}..{NEW} 100644\nGIT binary patch\nliteral 1\nIc${{\n",
        "a/x",
        "binary",
    ),
    "short ids": (modify(index="1111111..2222222 100644"), "x.py", "40"),
    "long ids": (modify(index=f"{'1' * 64}..{'2' * 64}"), "x.py", "64"),
    "ids of a merge": (modify(index=f"{OLD},{OLD}..{NEW}"), "x.py", "damaged"),
    "created from an id": (CREATE.replace(ZERO, OLD), "e", "zeros"),
    "modified from nothing": (modify(index=f"{ZERO}..{NEW} 100644"), "x.py", "zeros"),
    "climbs": (modify(name="a/../../x"), "a/../../x", "inside the tree"),
    "absolute": (modify(name="/etc/passwd"), "/etc/passwd", "inside the tree"),
    "git's own": (modify(name=".git/config"), ".git/config", "inside the tree"),
    "no prefixes": (modify().replace("a/x", "x").replace("b/x", "x"), "x.py", "prefixes"),
    "two names": (modify().replace("+++ b/x.py", "+++ b/y.py"), "x.py", "other files"),
    "rename by half": ("diff --git a/x b/y\nrename from x\n", "a/x", "contradicts"),
    "create and delete": (CREATE + "deleted file mode 100644\n", "a/e", "contradicts"),
    "unknown header": ("diff --git a/x b/x\nhello\n", "a/x", "means nothing"),
    "header twice": (CREATE + f"index {ZERO}..{NEW}\n", "a/e", "twice"),
    "line ends converted": (modify().replace("\n", "\r\n"), "a/x.py", "CR LF"),
    "not UTF-8": (modify(name="\xff.py"), ".py", "UTF-8"),
    "one file twice": (modify() + modify(), "x.py", "twice"),
    "creates over lines": (
        CREATE + "--- /dev/null\n+++ b/e\n" + BODY,
        "e, hunk 1",
        "expects lines",
    ),
    "deletes but leaves": (
        f"diff --git a/e b/e\ndeleted file mode 100644\nindex {OLD}..{ZERO}\n--- a/e\n+++ /dev/null\n" + BODY,
        "e, hunk 1",
        "leaves lines",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_name_and_cause(case: str) -> None:
    text, subject, cause = REFUSED[case]
    with pytest.raises(UsageError) as caught:
        read(text)
    assert subject in caught.value.what
    assert cause in caught.value.cause
    assert caught.value.fix


@given(st.binary(max_size=200), st.integers(0, 200))
def test_damage_is_an_error_with_a_cause_or_an_exact_read(noise: bytes, at: int) -> None:
    whole = (modify() + modify(name="z.py")).encode()
    try:
        patches = read_patch(whole[: at % len(whole)] + noise)
    except UsageError as error:
        assert error.cause
    else:
        assert all(hunk.old_start >= 0 for patch in patches for hunk in patch.hunks)
