"""The chain without a tree equals git's own ids, and refuses patches that do not follow one another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conftest import SealedGit
from tests.small_vllm import VERSION, SmallVllm
from toolkit.engine.stated_chain import stated_chain
from toolkit.jobs.series import load_series
from toolkit.model.errors import UsageError
from toolkit.model.ids import BlobId
from toolkit.model.topic import Series


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, git: SealedGit) -> SmallVllm:
    """The series of two topics."""
    return SmallVllm(tmp_path_factory.mktemp("small"), git)


@pytest.fixture
def series(small: SmallVllm) -> Series:
    """The topics as read from their folder."""
    return load_series(small.patchsets, VERSION)


def test_the_stated_ids_are_those_of_git(small: SmallVllm, series: Series) -> None:
    chain = stated_chain(series)
    assert chain == small.chain
    assert {file.path for file in chain.files} == {
        "vllm/core.py",
        "vllm/model.py",
        "vllm/old.py",
        "vllm/hq/__init__.py",
        "vllm/hq/extra.py",
    }


def test_a_renamed_file_leaves_its_old_path(series: Series) -> None:
    one, two = BlobId("1" * 40), BlobId("2" * 40)
    patch = (
        f"diff --git a/vllm/a.py b/vllm/b.py\nsimilarity index 90%\nrename from vllm/a.py\nrename to vllm/b.py\n"
        f"index {one}..{two} 100644\n--- a/vllm/a.py\n+++ b/vllm/b.py\n@@ -1 +1 @@\n-x\n+y\n"
    )
    first = replace(series.topics[0], patch=patch.encode(), files={})
    files = stated_chain(replace(series, topics=(first,))).files
    assert {file.path: file.ids for file in files} == {"vllm/a.py": (one, None), "vllm/b.py": (None, two)}


def test_a_topic_must_start_from_what_the_ones_before_leave(series: Series) -> None:
    with pytest.raises(UsageError) as caught:
        stated_chain(replace(series, topics=tuple(reversed(series.topics))))
    assert len(caught.value.details) == 1
    assert caught.value.details[0].startswith("topic base, vllm/core.py: starts from ")


def test_the_last_topic_can_be_left_out(small: SmallVllm) -> None:
    chain = stated_chain(load_series(small.patchsets, VERSION, without=("second",)))
    whole = {file.path: file.ids for file in small.chain.files}
    assert {file.path: file.ids for file in chain.files} == {
        path: whole[path][:2] for path in ("vllm/core.py", "vllm/hq/__init__.py")
    }


def test_patches_without_ids_are_refused(series: Series) -> None:
    first = series.topics[0]
    bare = b"".join(line for line in first.patch.splitlines(keepends=True) if not line.startswith(b"index "))
    with pytest.raises(UsageError, match=r"topic base, vllm/core\.py: its patch states no ids"):
        stated_chain(replace(series, topics=(replace(first, patch=bare),)))


def test_two_topics_may_not_add_the_same_file(series: Series) -> None:
    first, second = series.topics
    twice = replace(second, patch=b"", files=first.files)
    with pytest.raises(UsageError, match=r"topic second, vllm/hq/__init__\.py: starts from no file"):
        stated_chain(replace(series, topics=(first, twice)))
