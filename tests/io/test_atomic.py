"""Outputs that appear whole or not at all, also when the process is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.small_release import ROOT
from toolkit.io.atomic import PARTIAL, atomic_file, atomic_folder
from toolkit.model.errors import UsageError

HANG = """\
import sys, time
from pathlib import Path
from toolkit.io.atomic import atomic_file, atomic_folder
with {kind}(Path(sys.argv[1])) as partial:
    (partial / "half" if partial.is_dir() else partial).write_bytes(b"half")
    print("ready", flush=True)
    time.sleep(60)
"""


def writing(kind: str, target: Path) -> subprocess.Popen[str]:
    """Start a process that is in the middle of writing the target."""
    code = HANG.format(kind=kind)
    process = subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(kind: str, target: Path) -> None:
    """Write the target to its end."""
    if kind == "atomic_file":
        with atomic_file(target) as partial:
            partial.write_bytes(b"whole")
    else:
        with atomic_folder(target) as partial:
            (partial / "file").write_bytes(b"whole")


def test_a_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file"
    with atomic_file(target) as partial:
        partial.write_bytes(b"whole")
        assert not target.exists()
    assert target.read_bytes() == b"whole"
    assert names(target.parent) == ["file"]


def test_an_older_file_stays_until_it_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    with pytest.raises(RuntimeError), atomic_file(target) as partial:
        partial.write_bytes(b"half")
        raise RuntimeError
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]
    write("atomic_file", target)
    assert target.read_bytes() == b"whole"


def test_a_folder_appears_when_the_block_ends(tmp_path: Path) -> None:
    write("atomic_folder", tmp_path / "new" / "tree")
    assert names(tmp_path / "new" / "tree") == ["file"]
    assert names(tmp_path / "new") == ["tree"]


def test_nothing_is_left_of_a_folder_that_failed(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "tree") as partial:
        (partial / "deep").mkdir()
        (partial / "deep" / "file").write_bytes(b"half")
        raise KeyboardInterrupt
    assert names(tmp_path) == []


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_an_existing_folder_is_refused_before_the_work(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "tree"
    target.mkdir() if kind == "folder" else target.write_bytes(b"")
    with pytest.raises(UsageError, match="exists already"), atomic_folder(target):
        pytest.fail("the block must not run")
    assert names(tmp_path) == ["tree"]


@pytest.mark.parametrize("kind", ["atomic_file", "atomic_folder"])
def test_what_a_killed_process_left_goes_on_the_next_run(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out[1]*"
    process = writing(kind, target)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert names(tmp_path) == [f"{PARTIAL}{process.pid}-{target.name}"]
    write(kind, target)
    assert names(tmp_path) == [target.name]


@pytest.mark.parametrize("kind", ["atomic_file", "atomic_folder"])
def test_what_a_living_process_writes_stays(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out"
    process = writing(kind, target)
    try:
        write(kind, target)
        assert names(tmp_path) == [f"{PARTIAL}{process.pid}-out", "out"]
    finally:
        process.kill()
        process.communicate()


def test_other_targets_partials_stay(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "a-out") as outer:
        outer.write_bytes(b"outer")
        write("atomic_file", tmp_path / "out")
        assert outer.exists()
    assert names(tmp_path) == ["a-out", "out"]


@pytest.mark.parametrize("owner", ["mine", "", "9" * 30])
def test_only_names_of_its_own_kind_are_removed(tmp_path: Path, owner: str) -> None:
    odd = tmp_path / f"{PARTIAL}{owner}-out"
    odd.write_bytes(b"")
    write("atomic_file", tmp_path / "out")
    assert odd.exists() == (not owner.isdecimal())


def test_a_link_to_a_folder_is_removed_and_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_bytes(b"")
    (tmp_path / f"{PARTIAL}{os.getpid()}-out").symlink_to(kept)
    write("atomic_folder", tmp_path / "out")
    assert names(kept) == ["file"]
