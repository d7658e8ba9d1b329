"""An output folder is found unfit before the work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolkit.io.output_folder import prepare_folder
from toolkit.model.errors import EnvironmentUnfitError


def test_a_new_folder_is_made_and_stays_empty(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    prepare_folder(folder, 1)
    prepare_folder(folder, 1)
    assert list(folder.iterdir()) == []


def test_too_little_room(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnfitError, match=r"1,000,000,000,000 MB are needed"):
        prepare_folder(tmp_path, 10**18)


@pytest.mark.parametrize("name", ["file", "file/below", "dangling"])
def test_what_is_no_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "dangling").symlink_to("/proc/nothing/here")
    with pytest.raises(EnvironmentUnfitError, match="nothing can be written"):
        prepare_folder(tmp_path / name, 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not stop root")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(EnvironmentUnfitError, match="nothing can be written"):
        prepare_folder(tmp_path, 1)
