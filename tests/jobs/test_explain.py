"""Explaining wheels, folders and installations from what they hold."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.wheel_fixtures import BUILT, PATCH, pin_of, tiny_series, write_official
from toolkit.engine.explain import Explanation
from toolkit.io.cache import Cache
from toolkit.jobs.build_wheel import WheelRequest, build_wheel
from toolkit.jobs.explain import explain_installed, explain_target
from toolkit.model.errors import CheckError, UsageError
from toolkit.model.progress import Silent


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """The tiny wheel, built."""
    official = write_official(tmp_path)
    request = WheelRequest(
        project="vllm",
        pin=pin_of(official),
        series=tiny_series(),
        patchsets=tmp_path,
        out=tmp_path / "out",
        base_wheel=official,
    )
    return build_wheel(request, Cache(tmp_path / "cache"), Silent()).path


def check(found: Explanation) -> None:
    """See that it is the tiny build's explanation."""
    assert found.manifest.version == BUILT
    assert [(item.topic.id, item.diff) for item in found.topics] == [("runtime", b""), ("hook", PATCH)]


def test_a_wheel(wheel: Path) -> None:
    check(explain_target(wheel))


def test_an_unpacked_wheel(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "tree")
    check(explain_target(tmp_path / "tree"))


def test_an_installation_in_another_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    with pytest.raises(UsageError, match="not installed"):
        explain_installed(python)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True)
    check(explain_installed(python))


def test_the_official_wheel_is_not_ours(tmp_path: Path) -> None:
    with pytest.raises(CheckError, match=r"it has no vllm/hq/manifest\.json"):
        explain_target(write_official(tmp_path))


def test_a_tree_without_its_dist_info(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "tree", [name for name in archive.namelist() if name.startswith("vllm/")])
    with pytest.raises(CheckError, match=r"hqtool\.cdx\.json"):
        explain_target(tmp_path / "tree")


def test_a_file_that_is_no_wheel(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(b"no wheel")
    with pytest.raises(CheckError):
        explain_target(path)
    with pytest.raises(UsageError):
        explain_target(tmp_path / "nothing.whl")
