"""Folders and wheels give the same answers, and what cannot be looked at is refused with the reason."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SealedGit
from tests.small_vllm import UPSTREAM, SmallVllm, write_files
from toolkit.io.checkable import find_installed, open_target
from toolkit.model.errors import CheckError, EnvironmentUnfitError, UsageError


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, git: SealedGit) -> SmallVllm:
    """A vLLM of ten files."""
    return SmallVllm(tmp_path_factory.mktemp("template"), git)


@pytest.fixture
def small(tmp_path: Path, template: SmallVllm) -> SmallVllm:
    """The same in a folder that the test may change."""
    return template.copy(tmp_path)


@pytest.mark.parametrize("form", ["site", "wheel"])
def test_what_is_there_is_read(small: SmallVllm, form: str) -> None:
    target = small.site(0) if form == "site" else small.wheel(0)
    with open_target(target) as tree:
        assert tree.label == str(target)
        assert tree.is_wheel == (form == "wheel")
        assert tree.metadata_folder() == "vllm-1.2.0.dist-info"
        assert tree.read("vllm/plain.py") == b"plain = True\n"
        assert tree.read("vllm/absent.py") is None
        assert tree.sha256("vllm/plain.py") == hashlib.sha256(b"plain = True\n").hexdigest()
        found = {path: size for path, size in tree.sizes(()).items() if path.startswith("vllm/")}
        assert found == {path: len(data) for path, data in UPSTREAM.items()}
        assert "vllm-1.2.0.dist-info/METADATA" in tree.sizes(["vllm-1.2.0.dist-info/METADATA"])


def test_large_files_are_hashed_in_pieces(small: SmallVllm) -> None:
    data = os.urandom(3 << 20)
    root = small.site(0, more={"vllm/big.bin": data})
    with open_target(root) as tree:
        assert tree.sha256("vllm/big.bin") == hashlib.sha256(data).hexdigest()


def test_a_folder_reads_what_a_path_outside_the_package_is(small: SmallVllm) -> None:
    root = small.source(0)
    with open_target(root) as tree:
        assert tree.metadata_folder() is None
        assert tree.read("vllm") is None
        found = tree.sizes(["setup.py", "absent", "setup.py/below", "vllm"])
    assert found["setup.py"] == 8
    assert not {"absent", "setup.py/below", "vllm"} & set(found)


def test_links_are_followed_but_not_in_circles(small: SmallVllm, tmp_path: Path) -> None:
    root = small.source(0)
    elsewhere = write_files(tmp_path / "elsewhere", {"linked.py": b"1", "deep/more.py": b"22"})
    (root / "vllm/linked").symlink_to(elsewhere)
    (root / "vllm/file.py").symlink_to(elsewhere / "linked.py")
    (root / "vllm/nowhere.py").symlink_to(tmp_path / "absent")
    (elsewhere / "deep/up").symlink_to(elsewhere)
    with open_target(root) as tree:
        found = tree.sizes(())
    assert {path: size for path, size in found.items() if path not in UPSTREAM} == {
        "vllm/linked/linked.py": 1,
        "vllm/linked/deep/more.py": 2,
        "vllm/file.py": 1,
    }


def test_of_several_metadata_folders_none_is_chosen(small: SmallVllm) -> None:
    root = small.site(0)
    write_files(root, {"vllm-1.1.0.dist-info/RECORD": b"vllm/__init__.py,,\n"})
    write_files(root, {"vllm_flash-1.0.dist-info/RECORD": b"vllm_flash/vllm/__init__.py,,\n"})
    with (
        open_target(root) as tree,
        pytest.raises(CheckError, match=r"vllm-1\.1\.0\.dist-info, vllm-1\.2\.0\.dist-info"),
    ):
        tree.metadata_folder()


def test_targets_that_hold_no_vllm(small: SmallVllm, tmp_path: Path) -> None:
    root = small.source(0)
    empty = tmp_path / "empty"
    empty.mkdir()
    text = write_files(tmp_path, {"text.whl": b"no archive"}) / "text.whl"
    whole = small.wheel(0).read_bytes()
    (tmp_path / "cut.whl").write_bytes(whole[: len(whole) // 2])
    for target, error, message in (
        (tmp_path / "absent", UsageError, "there is no"),
        (empty, UsageError, "has no vllm/__init__.py"),
        (root / "vllm", UsageError, f"fix: name {root}"),
        (text, CheckError, "is no wheel that can be read"),
        (tmp_path / "cut.whl", CheckError, "is no wheel that can be read"),
    ):
        with pytest.raises(error, match=message), open_target(target):
            pass


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with nothing in it."""
    home = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    return home / "bin/python"


def test_an_installation_is_found_without_importing_it(small: SmallVllm, python: Path) -> None:
    with pytest.raises(UsageError, match="vLLM is not installed for"):
        find_installed(python)
    site = next(python.parent.parent.glob("lib/python*/site-packages"))
    write_files(site, {"vllm/__init__.py": b"raise SystemExit('imported')\n"})
    assert find_installed(python) == site


def test_the_current_folder_is_no_installation(small: SmallVllm, python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = next(python.parent.parent.glob("lib/python*/site-packages"))
    write_files(site, {"vllm/__init__.py": b""})
    monkeypatch.chdir(small.source(0))
    assert find_installed(python) == site


def test_an_interpreter_that_does_not_run(tmp_path: Path) -> None:
    for path in (
        tmp_path / "absent",
        write_files(tmp_path, {"text": b"text"}) / "text",
        Path(shutil.which("false") or ""),
    ):
        with pytest.raises(EnvironmentUnfitError, match="name a Python with --python"):
            find_installed(path)
