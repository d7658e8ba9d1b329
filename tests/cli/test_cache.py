"""``hqtool cache`` as people and scripts call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolkit.cli.main import run
from toolkit.io.cache import TAG, Cache


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A cache with 1.5 MB of downloads and a file that is not hqtool's."""
    folder = tmp_path / "cache"
    with Cache(folder).lock("one"):
        (folder / "downloads").mkdir()
    (folder / "downloads" / "file").write_bytes(b"x" * 1_500_000)
    (folder / "mine.txt").write_bytes(b"x")
    return folder


def test_sizes_are_shown(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--cache", str(root), "cache"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{root}: 2 MB"
    assert [line.split() for line in lines[1:]] == [["1.5", "MB", "downloads"], ["0.0", "MB", "locks"]]


def test_json_has_bytes(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--cache", str(root), "cache", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert data == {"root": str(root), "bytes": {"downloads": 1_500_000, "locks": 0}}


def test_a_dry_run_clears_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--cache", str(root), "cache", "--clear", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith(f"would free 2 MB in {root}\n")
    assert (root / "downloads" / "file").exists()


def test_clearing_leaves_what_is_not_hqtools(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--cache", str(root), "cache", "--clear"]) == 0
    assert capsys.readouterr().out == f"freed 2 MB in {root}\n"
    assert sorted(path.name for path in root.iterdir()) == [TAG, "mine.txt"]


def test_a_folder_that_is_no_cache_is_not_cleared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / "holiday.jpg").write_bytes(b"x")
    for more in ([], ["--dry-run"]):
        assert run(["--cache", str(tmp_path), "cache", "--clear", *more]) == 2
        assert "fix: name the cache with --cache" in capsys.readouterr().err
    assert (tmp_path / "downloads" / "holiday.jpg").exists()


def test_dry_run_alone_is_refused(root: Path) -> None:
    assert run(["--cache", str(root), "cache", "--dry-run"]) == 2
