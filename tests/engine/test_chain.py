"""The series in memory: outputs, chain, all faults at once, and where a tree stands."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import SealedGit
from toolkit.engine.chain import Collision, Drift, apply_series, faults_error, patch_in_memory
from toolkit.engine.standing import DeviationKind, State, locate
from toolkit.model.chain import Chain, FileChain
from toolkit.model.errors import CheckError, UsageError
from toolkit.model.ids import BlobId, TopicId, blob_id
from toolkit.model.topic import Kind, Numbers, Series, Topic, TopicSource, Upstream, UpstreamState

Tree = dict[str, bytes]

BASE = {
    "vllm/a.py": b"".join(b"a%d\n" % row for row in range(30)),
    "vllm/b.py": b"one\r\ntwo\r\n",
    "vllm/gone.py": b"old\n",
    "vllm/name.py": b"".join(b"n%d\n" % row for row in range(9)),
}


def source(name: str, patch: bytes = b"", files: Mapping[str, bytes] | None = None) -> TopicSource:
    topic = Topic(
        id=TopicId(name),
        title=name,
        kind=Kind.FIX,
        what="w",
        why="y",
        upstream=Upstream(UpstreamState.PENDING),
        numbers=Numbers(lossless=True),
        probe="p",
        retires_when=(),
    )
    return TopicSource(topic, patch, dict(files or {}))


def series(*topics: TopicSource) -> Series:
    return Series("1.0", 1, topics)


def commits(git: SealedGit, *trees: Tree) -> list[bytes]:
    """Return git's patches from each tree to the next."""
    repository = git.repository()
    ids = []
    for tree in trees:
        git("rm", "-r", "--quiet", "--force", "--ignore-unmatch", ".", cwd=repository)
        for path, data in tree.items():
            (repository / path).parent.mkdir(parents=True, exist_ok=True)
            (repository / path).write_bytes(data)
        git("add", "--all", cwd=repository)
        ids.append(git("write-tree", cwd=repository).stdout.decode().strip())
    return [
        git("diff", "--full-index", "--find-renames", before, after, cwd=repository).stdout
        for before, after in pairwise(ids)
    ]


@pytest.fixture(scope="module")
def steps(git: SealedGit) -> tuple[list[Tree], list[bytes]]:
    """Three trees and the two patches between them: change, rename, delete, create, and a change on a change."""
    first = dict(BASE)
    first["vllm/a.py"] = BASE["vllm/a.py"].replace(b"a9\n", b"nine\n")
    first["vllm/new name.py"] = first.pop("vllm/name.py").replace(b"n4\n", b"four\n")
    del first["vllm/gone.py"]
    second = dict(first)
    second["vllm/a.py"] = first["vllm/a.py"].replace(b"a11\n", b"eleven\n")
    second["vllm/b.py"] = b"one\r\ntwo"
    second["vllm/empty.py"] = b""
    trees = [BASE, first, second]
    return trees, commits(git, *trees)


def test_outputs_and_chain(steps: tuple[list[Tree], list[bytes]]) -> None:
    trees, patches = steps
    added = {"vllm/hq/x.py": b"x\n"}
    result = patch_in_memory(series(source("p", patches[0]), source("q", patches[1], added)), BASE.get, exact=True)
    after = {**BASE, **result.outputs}
    assert {path: data for path, data in after.items() if data is not None} == {**trees[2], **added}
    levels = [*trees[:2], {**trees[2], **added}]
    assert [file.path for file in result.chain.files] == sorted({path for tree in levels for path in tree})
    for file in result.chain.files:
        assert file.ids == tuple(blob_id(tree[file.path]) if file.path in tree else None for tree in levels)
    assert result.chain.topics == ("p", "q")
    assert result.chain.topic_of("vllm/b.py") == "q"
    assert not result.offsets
    assert not result.drifts


def test_a_moved_file_gives_offsets_and_drifts_and_applies(steps: tuple[list[Tree], list[bytes]]) -> None:
    moved = {**BASE, "vllm/a.py": b"new\n" + BASE["vllm/a.py"]}
    both = series(source("p", steps[1][0]), source("q", steps[1][1]))
    result = patch_in_memory(both, moved.get)
    assert [(found.topic, found.path, found.placement.offset) for found in result.offsets] == [
        ("p", "vllm/a.py", 1),
        ("q", "vllm/a.py", 1),
    ]
    assert [(drift.topic, drift.path) for drift in result.drifts] == [("p", "vllm/a.py"), ("q", "vllm/a.py")]
    with pytest.raises(CheckError) as caught:
        patch_in_memory(both, moved.get, exact=True)
    assert blob_id(moved["vllm/a.py"])[:12] in "\n".join(caught.value.details)


def test_a_topic_left_out_breaks_the_link_but_not_the_patch(steps: tuple[list[Tree], list[bytes]]) -> None:
    second = steps[1][1].partition(b"diff --git a/vllm/b.py")[0].replace(b" nine\n", b" a9\n")
    result = patch_in_memory(series(source("q", second)), BASE.get)
    assert result.drifts == (
        Drift(TopicId("q"), "vllm/a.py", blob_id(steps[0][1]["vllm/a.py"]), blob_id(BASE["vllm/a.py"])),
    )


def test_faults_of_all_topics_at_once(steps: tuple[list[Tree], list[bytes]]) -> None:
    trees, patches = steps
    edited = {**BASE, "vllm/a.py": BASE["vllm/a.py"].replace(b"a9\n", b"A9\n"), "vllm/gone.py": b"young\n"}
    edited["vllm/empty.py"] = b"not\n"
    result = apply_series(series(source("p", patches[0]), source("q", patches[1])), edited.get)
    assert not result.applies
    assert [(topic, fault.path, fault.hunk) for topic, fault in result.faults] == [
        ("p", "vllm/a.py", 1),
        ("p", "vllm/gone.py", 1),
        ("q", "vllm/a.py", 1),
        ("q", "vllm/empty.py", 0),
    ]
    assert result.outputs["vllm/a.py"] == edited["vllm/a.py"]
    assert result.outputs["vllm/gone.py"] == b"young\n"
    assert result.outputs["vllm/b.py"] == trees[2]["vllm/b.py"]
    text = str(faults_error(result.faults))
    for part in ("topic p, vllm/a.py, hunk 1", r"expected 'a9\n', found 'A9\n'", "6 of 7 lines", "q, vllm/empty.py: "):
        assert part in text


def test_collisions() -> None:
    path, other = "vllm/hq/x.py", "vllm/b.py"
    result = apply_series(
        series(source("p", files={path: b"1"}), source("q", files={path: b"2", other: b""})), BASE.get
    )
    assert result.collisions == (Collision(TopicId("q"), path, TopicId("p")), Collision(TopicId("q"), other, None))
    assert result.outputs == {path: b"1", other: BASE[other]}
    with pytest.raises(CheckError) as caught:
        patch_in_memory(series(source("p", files={other: b""})), BASE.get)
    assert "upstream has it already" in str(caught.value)


def test_a_rename_onto_a_file_is_a_fault(steps: tuple[list[Tree], list[bytes]]) -> None:
    taken = {**BASE, "vllm/new name.py": b"mine\n"}
    result = apply_series(series(source("p", steps[1][0])), taken.get)
    assert [(topic, fault.path) for topic, fault in result.faults] == [("p", "vllm/new name.py")]
    assert result.outputs["vllm/new name.py"] == b"mine\n"
    assert result.outputs["vllm/name.py"] == BASE["vllm/name.py"]


def test_renames_may_swap() -> None:
    patch = b"".join(
        b"diff --git a/%s b/%s\nsimilarity index 100%%\nrename from %s\nrename to %s\n" % (old, new, old, new)
        for old, new in ((b"x", b"y"), (b"y", b"x"))
    )
    result = patch_in_memory(series(source("p", patch)), {"x": b"1", "y": b"2"}.get)
    assert result.outputs == {"x": b"2", "y": b"1"}


def test_a_patch_must_produce_the_bytes_that_it_states(steps: tuple[list[Tree], list[bytes]]) -> None:
    wrong = steps[1][0].replace(b"+nine\n", b"+NINE\n")
    result = apply_series(series(source("p", wrong)), BASE.get)
    assert [(topic, fault.path, fault.reason) for topic, fault in result.faults] == [
        ("p", "vllm/a.py", "the patch states other bytes than it produces")
    ]


def test_unreadable_patches_are_named_together(steps: tuple[list[Tree], list[bytes]]) -> None:
    with pytest.raises(UsageError) as caught:
        apply_series(series(source("p", b"hello\n"), source("q", steps[1][0]), source("r", b"@@ -1 +1 @@\n")), BASE.get)
    assert [detail.split(",")[0] for detail in caught.value.details] == ["topic p", "topic r"]


def named(letter: str) -> BlobId | None:
    return None if letter == "-" else BlobId(letter * 40)


def chain_of(**files: str) -> Chain:
    levels = len(next(iter(files.values()))) - 1
    topics = tuple(TopicId(f"t{number}") for number in range(1, levels + 1))
    return Chain(topics, tuple(FileChain(path, tuple(map(named, ids))) for path, ids in sorted(files.items())))


CHAIN = chain_of(a="012", b="011", c="-00", d="000")


@pytest.mark.parametrize(
    ("found", "level", "state"),
    [("00-0", 0, State.PRISTINE), ("1100", 1, State.PARTIAL), ("2100", 2, State.PATCHED)],
)
def test_exact_levels(found: str, level: int, state: State) -> None:
    standing = locate(CHAIN, dict(zip("abcd", map(named, found), strict=True)))
    assert (standing.level, standing.last, standing.state) == (level, 2, state)
    assert standing.topic == (f"t{level}" if level else None)


@pytest.mark.parametrize(
    ("found", "level", "expected"),
    [
        ("210x", 2, [("d", None, DeviationKind.UNKNOWN, None)]),
        ("x100", 2, [("a", "t2", DeviationKind.UNKNOWN, None)]),
        ("2x00", 2, [("b", "t1", DeviationKind.UNKNOWN, None)]),
        ("21-0", 2, [("c", "t1", DeviationKind.MISSING, 0)]),
        ("2000", 2, [("b", "t1", DeviationKind.OTHER_LEVEL, 0)]),
        ("00x0", 0, [("c", "t1", DeviationKind.UNKNOWN, None)]),
        ("-1x0", 2, [("a", "t2", DeviationKind.MISSING, None), ("c", "t1", DeviationKind.UNKNOWN, None)]),
    ],
)
def test_modified_trees_name_file_and_topic(
    found: str, level: int, expected: list[tuple[str, str | None, DeviationKind, int | None]]
) -> None:
    standing = locate(CHAIN, dict(zip("abcd", map(named, found), strict=True)))
    assert (standing.level, standing.state) == (level, State.MODIFIED)
    assert [(item.path, item.topic, item.kind, item.level) for item in standing.deviations] == expected


@given(st.data())
def test_one_edit_never_hides_the_level(data: st.DataObject) -> None:
    """With four files that differ at every level, one edited file leaves three witnesses."""
    level = data.draw(st.integers(0, 3))
    chain = chain_of(a="0123", b="4567", c="89ab", d="cdef")
    current = {file.path: file.ids[level] for file in chain.files}
    edited = data.draw(st.sampled_from(sorted(current)))
    current[edited] = data.draw(st.sampled_from([None, BlobId("9" * 39 + "0")]))
    standing = locate(chain, current)
    assert (standing.level, [item.path for item in standing.deviations]) == (level, [edited])
