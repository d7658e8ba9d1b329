"""Pinned files in the cache: obtained once, verified, repaired."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.io.hostile_server import Answer, serving
from tests.small_release import SDIST, WHEEL, SmallRelease, artifact_of, closed_port, tree_files
from toolkit.jobs.artifact import adopt, is_cached, obtain
from toolkit.model.errors import CheckError, EnvironmentUnfitError, UsageError
from toolkit.model.progress import Silent


class Sayings(Silent):
    """Progress that remembers its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallRelease]:
    with serving() as server:
        made = SmallRelease(tmp_path, server)
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made


def get(release: SmallRelease, progress: Silent | None = None) -> Path:
    return obtain(release.pins.get().sdist, "vllm", release.cache, progress or Silent())


def test_the_second_time_nothing_is_asked(release: SmallRelease, monkeypatch: pytest.MonkeyPatch) -> None:
    said = Sayings()
    assert get(release, said) == release.kept
    assert release.kept.read_bytes() == release.sdist
    assert said.lines == [f"downloading {SDIST} (0 MB)"]
    monkeypatch.setenv("HQTOOL_INDEX_URL", closed_port())
    assert get(release, said) == release.kept
    assert len(said.lines) == 1


def test_without_network_and_cache_the_error_says_what_to_do(
    release: SmallRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HQTOOL_INDEX_URL", closed_port())
    with pytest.raises(EnvironmentUnfitError) as caught:
        get(release)
    assert caught.value.what == "the registry's page of vllm cannot be read"
    assert "hqtool fetch --file" in caught.value.fix


def same_size(release: SmallRelease) -> bytes:
    return release.sdist[:-1] + bytes([release.sdist[-1] ^ 1])


@pytest.mark.parametrize("times", ["new", "kept"])
def test_an_edited_file_is_noticed_and_fetched_again(release: SmallRelease, times: str) -> None:
    get(release)
    before = release.kept.stat()
    release.kept.write_bytes(same_size(release))
    if times == "kept":
        os.utime(release.kept, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not is_cached(release.pins.get().sdist, release.cache)
    assert release.kept.exists(), "asking removes nothing"
    get(release)
    assert release.kept.read_bytes() == release.sdist
    assert release.ranges() == ["", ""]


def test_a_touched_file_is_hashed_and_kept(release: SmallRelease) -> None:
    get(release)
    stamp = release.kept.with_name(f"{SDIST}.verified")
    before = stamp.read_text(encoding="utf-8")
    os.utime(release.kept)
    get(release)
    assert release.ranges() == [""]
    assert stamp.read_text(encoding="utf-8") != before, "the next run hashes it again"


def test_a_file_that_was_put_there_by_hand_is_used_if_it_is_right(release: SmallRelease) -> None:
    release.kept.parent.mkdir(parents=True)
    release.kept.write_bytes(release.sdist)
    assert is_cached(release.pins.get().sdist, release.cache)
    get(release)
    assert release.ranges() == []


def test_a_bad_file_is_not_used_when_the_network_is_gone(
    release: SmallRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    get(release)
    release.kept.write_bytes(b"edited")
    monkeypatch.setenv("HQTOOL_INDEX_URL", closed_port())
    for _ in range(2):
        with pytest.raises(EnvironmentUnfitError):
            get(release)
    assert not release.kept.exists()


def test_wrong_bytes_leave_nothing_in_the_cache(release: SmallRelease) -> None:
    release.serve(SDIST, Answer(same_size(release)))
    with pytest.raises(CheckError, match="wrong sha256"):
        get(release)
    assert tree_files(release.cache.root / "downloads") == {}
    release.serve(SDIST, Answer(release.sdist))
    get(release)


def test_two_runs_download_once(release: SmallRelease) -> None:
    release.serve(SDIST, Answer(release.sdist, slow=0.005))
    said = [Sayings(), Sayings()]
    runs = [threading.Thread(target=get, args=(release, progress)) for progress in said]
    runs[0].start()
    release.server.wait_for_bytes(f"/files/{SDIST}", 1)
    runs[1].start()
    for run in runs:
        run.join()
    assert release.ranges() == [""]
    assert said[1].lines == [f"waiting for another run with {SDIST}"]
    assert release.kept.read_bytes() == release.sdist


def test_a_file_from_elsewhere_is_adopted_under_any_name(release: SmallRelease, tmp_path: Path) -> None:
    given = tmp_path / "downloaded (1)"
    given.write_bytes(release.sdist)
    assert adopt(given, release.pins, release.cache).filename == SDIST
    assert given.exists()
    get(release)
    assert release.ranges() == []


def test_a_damaged_file_from_elsewhere_is_refused(release: SmallRelease, tmp_path: Path) -> None:
    given = tmp_path / SDIST
    given.write_bytes(release.sdist[:-5])
    with pytest.raises(CheckError) as caught:
        adopt(given, release.pins, release.cache)
    assert artifact_of(SDIST, release.sdist).sha256 in caught.value.cause
    assert not (release.cache.root / "downloads").exists()


def test_a_file_of_no_pin_is_refused(release: SmallRelease, tmp_path: Path) -> None:
    given = tmp_path / "other.whl"
    given.write_bytes(b"")
    with pytest.raises(UsageError) as caught:
        adopt(given, release.pins, release.cache)
    assert caught.value.fix == f"give one of {SDIST}, {WHEEL}"
