"""The cache folder: sizes, clearing, locks."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.small_release import ROOT
from toolkit.io.cache import PARTS, TAG, Cache
from toolkit.model.errors import UsageError
from toolkit.model.ids import Sha256


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """A cache that was used."""
    used = Cache(tmp_path / "cache")
    with used.lock("first"):
        pass
    return used


def put(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def test_the_default_is_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Cache.default().root == tmp_path / "hqtool"


def test_sizes_are_those_on_disk(cache: Cache) -> None:
    put(cache.download(Sha256("1" * 64), "a.whl"), 1000)
    put(cache.made("trees", "t") / "deep" / "file", 20)
    (cache.made("trees", "t") / "dangling").symlink_to("x" * 7)
    assert cache.sizes() == {"downloads": 1000, "trees": 27, "locks": 0}


def test_an_unused_cache_is_empty(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "absent")
    assert cache.sizes() == {}
    cache.clear()
    assert not cache.root.exists()


def test_clearing_leaves_what_is_not_the_caches(cache: Cache) -> None:
    for part in PARTS:
        put(cache.root / part / "key" / "file", 1)
    foreign = put(cache.root / "notes.txt", 1)
    cache.clear()
    assert cache.sizes() == {}
    assert sorted(cache.root.iterdir()) == [cache.root / TAG, foreign]


def test_a_folder_that_was_never_a_cache_is_not_cleared(tmp_path: Path) -> None:
    holiday = put(tmp_path / "downloads" / "holiday.jpg", 10)
    with pytest.raises(UsageError, match=TAG):
        Cache(tmp_path).clear()
    assert holiday.exists()


def test_the_tag_is_the_one_that_backup_programs_know(cache: Cache) -> None:
    assert (cache.root / TAG).read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55\n")


def test_a_lock_excludes_another_process_and_ends_with_it(cache: Cache) -> None:
    code = (
        "import sys; from pathlib import Path; from toolkit.io.cache import Cache\n"
        "with Cache(Path(sys.argv[1])).lock('one'): print('held', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(cache.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"held\n"
    events: list[str] = []

    def wait() -> None:
        with cache.lock("one", lambda: events.append("waiting")):
            events.append("held")

    waiter = threading.Thread(target=wait)
    waiter.start()
    waiter.join(timeout=0.5)
    assert events == ["waiting"]
    with cache.lock("two", lambda: events.append("never")):
        other.kill()
        other.communicate()
        waiter.join(timeout=10)
    assert events == ["waiting", "held"]
