"""``hqtool apply`` on a small vLLM: the tree it writes, what it reports, and what it refuses to write."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import SealedGit
from tests.small_vllm import VERSION, SmallVllm, write_files
from toolkit.cli.main import run
from toolkit.engine.build_manifest import load_manifest
from toolkit.io.tree import FolderTree
from toolkit.model.build import MANIFEST_PATH
from toolkit.model.errors import CheckError, UsageError
from toolkit.model.ids import sha256


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, git: SealedGit) -> SmallVllm:
    """A vLLM of ten files."""
    return SmallVllm(tmp_path_factory.mktemp("template"), git)


@pytest.fixture
def small(tmp_path: Path, template: SmallVllm) -> SmallVllm:
    """The same in a folder that the test may change."""
    return template.copy(tmp_path)


def contents(root: Path) -> dict[str, bytes]:
    """Return every file below a folder, found without the code under test."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def apply(small: SmallVllm, source: Path, *options: str) -> int:
    head = ["--quiet", "--patchsets", str(small.patchsets), "--cache", str(small.root / "cache")]
    return run([*head, "apply", "--source", str(source), *options])


def test_writes_the_patched_tree_and_leaves_the_source(small: SmallVllm, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = small.source(0), small.root / "out"
    write_files(source, {".git/HEAD": b"x", "vllm/__pycache__/core.pyc": b"x", "vllm/core.py.orig": b"x"})
    (source / ".git").rename(source / ".git-away")  # not a repository: the copy must not need one
    (source / "setup.py").chmod(0o755)
    before = contents(source)
    assert apply(small, source, "--out", str(out)) == 0
    assert contents(source) == before
    made = contents(out)
    manifest = load_manifest(made.pop(MANIFEST_PATH))
    made.pop(".git-away/HEAD")
    assert made == small.levels[2] | {"setup.py": b"setup()\n", "PKG-INFO": b"info\n"}
    assert (out / "setup.py").stat().st_mode & 0o777 == 0o755
    assert manifest.chain == small.chain
    assert manifest.version == f"{VERSION}+hq3.sm86"
    assert "2 topics in 5 files patched" in capsys.readouterr().out


def test_the_manifest_names_the_source_by_its_listing(small: SmallVllm, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = small.source(0), small.root / "out"
    listing = subprocess.run(
        ["sha256sum", *sorted(contents(source))], cwd=source, capture_output=True, check=True
    ).stdout
    assert apply(small, source, "--out", str(out)) == 0
    assert load_manifest((out / MANIFEST_PATH).read_bytes()).base == sha256(listing)


def test_the_written_tree_passes_check(small: SmallVllm, capsys: pytest.CaptureFixture[str]) -> None:
    out = small.root / "out"
    assert apply(small, small.source(0), "--out", str(out)) == 0
    head = ["--quiet", "--patchsets", str(small.patchsets), "--cache", str(small.root / "cache")]
    assert run([*head, "check", str(out)]) == 0
    capsys.readouterr()


def test_json_of_a_dry_run(small: SmallVllm, capsys: pytest.CaptureFixture[str]) -> None:
    source = small.source(0)
    core = source / "vllm/core.py"
    core.write_bytes(core.read_bytes().replace(b"line 10\n", b"line 10\nnew\nnew\n"))
    assert apply(small, source, "--dry-run", "--json") == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert data["out"] is None
    assert data["topics"] == ["base", "second"]
    assert {(item["topic"], item["action"], item["path"]) for item in data["files"]} == {
        ("base", "change", "vllm/core.py"),
        ("base", "add", "vllm/hq/__init__.py"),
        ("second", "change", "vllm/core.py"),
        ("second", "add", "vllm/hq/extra.py"),
        ("second", "change", "vllm/model.py"),
        ("second", "remove", "vllm/old.py"),
    }
    assert [(item["topic"], item["path"], item["offset"]) for item in data["offsets"]] == [
        ("second", "vllm/core.py", 2),
    ]
    assert [(item["topic"], item["path"]) for item in data["drifts"]] == [
        ("base", "vllm/core.py"),
        ("second", "vllm/core.py"),
    ]
    assert sorted(path.name for path in small.root.iterdir()) == ["patchsets", "source"]


def test_without_a_topic(small: SmallVllm, capsys: pytest.CaptureFixture[str]) -> None:
    out = small.root / "out"
    assert apply(small, small.source(0), "--out", str(out), "--without", "second") == 0
    made = contents(out)
    del made[MANIFEST_PATH]
    assert made == small.levels[1] | {"setup.py": b"setup()\n", "PKG-INFO": b"info\n"}


def test_faults_leave_nothing_behind(small: SmallVllm, capsys: pytest.CaptureFixture[str]) -> None:
    source = small.source(0)
    core = source / "vllm/core.py"
    core.write_bytes(core.read_bytes().replace(b"line 3\n", b"edited\n").replace(b"line 25\n", b"edited\n"))
    assert apply(small, source, "--out", str(small.root / "out")) == 1
    message = capsys.readouterr().err
    for part in ("topic base, vllm/core.py, hunk 1", "topic second, vllm/core.py, hunk 1", "nearest match at line"):
        assert part in message
    assert sorted(path.name for path in small.root.iterdir()) == ["patchsets", "source"]


@pytest.mark.parametrize(("out", "part"), [("source/vllm/new", "lies in the source"), ("patchsets", "exists already")])
def test_folders_that_are_not_written(
    small: SmallVllm, capsys: pytest.CaptureFixture[str], out: str, part: str
) -> None:
    source = small.source(0)
    before = contents(small.root)
    assert apply(small, source, "--out", str(small.root / out)) == 2
    assert part in capsys.readouterr().err
    assert contents(small.root) == before


def test_a_patched_source_is_refused(small: SmallVllm, capsys: pytest.CaptureFixture[str]) -> None:
    out = small.root / "out"
    assert apply(small, small.source(0), "--out", str(out)) == 0
    assert apply(small, out, "--dry-run") == 1
    assert "patched already" in capsys.readouterr().err


def test_out_is_needed(small: SmallVllm, capsys: pytest.CaptureFixture[str]) -> None:
    assert apply(small, small.source(0)) == 2
    assert "--dry-run" in capsys.readouterr().err


def test_a_link_out_of_the_tree_is_not_followed(small: SmallVllm, capsys: pytest.CaptureFixture[str]) -> None:
    source = small.source(0)
    secret = small.root / "secret.py"
    (source / "vllm/core.py").rename(secret)
    (source / "vllm/core.py").symlink_to(secret)
    before = secret.read_bytes()
    assert apply(small, source, "--out", str(small.root / "out")) == 1
    assert "outside its tree" in capsys.readouterr().err
    assert secret.read_bytes() == before


def test_a_link_inside_the_tree_is_not_written_through(tmp_path: Path) -> None:
    write_files(tmp_path, {"real/a.py": b"1"})
    (tmp_path / "linked").symlink_to("real")
    (tmp_path / "b.py").symlink_to("real/a.py")
    tree = FolderTree(tmp_path)
    assert tree.read("linked/a.py") == b"1"
    for path in ("linked/a.py", "b.py"):
        with pytest.raises(CheckError):
            tree.write(path, b"2")
    assert (tmp_path / "real/a.py").read_bytes() == b"1"


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", ""])
def test_paths_out_of_the_tree(tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError):
        FolderTree(tmp_path).read(path)
    with pytest.raises(UsageError):
        FolderTree(tmp_path).write(path, b"")


def test_a_copy_of_a_read_only_tree_can_be_patched(small: SmallVllm) -> None:
    source, out = small.source(0), small.root / "out"
    for path in source.rglob("*.py"):
        path.chmod(0o444)
    os.utime(source / "setup.py", (1, 1))
    assert apply(small, source, "--out", str(out)) == 0
    assert (out / "vllm/model.py").read_bytes() == small.levels[2]["vllm/model.py"]
    assert (out / "vllm/model.py").stat().st_mode & 0o777 == 0o444
    assert (out / "setup.py").stat().st_mtime == 1
