"""Trees of a release: from the sdist, from git, from a folder; and from the real registry."""

from __future__ import annotations

import hashlib
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import SealedGit
from tests.io.hostile_server import Answer, serving
from tests.small_release import COMMIT, FILES, ROOT, SDIST, SmallRelease, closed_port, member, tar_gz, tree_files
from toolkit.io.cache import Cache
from toolkit.jobs.fetch import FetchedSource, SourceKind, fetch_source, missing_files, missing_tag
from toolkit.jobs.file_index import index_path, load_file_index
from toolkit.jobs.series import load_pins
from toolkit.model.errors import CheckError, EnvironmentUnfitError, UsageError
from toolkit.model.progress import Silent


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallRelease]:
    with serving() as server:
        made = SmallRelease(tmp_path, server)
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made


@pytest.fixture
def upstream(git: SealedGit) -> Path:
    """A bare repository with the release's files under its tag, and a younger commit."""
    work = git.repository()
    for path, data in FILES.items():
        (work / path).parent.mkdir(exist_ok=True)
        (work / path).write_bytes(data)
    git("add", "--all", cwd=work)
    git("commit", "--quiet", "--message", "release", cwd=work)
    git("tag", "--annotate", "--message", "release", "v7.1.0", cwd=work)
    git("commit", "--quiet", "--allow-empty", "--message", "later", cwd=work)
    bare = git.folder()
    git("clone", "--quiet", "--bare", str(work), str(bare), cwd=bare)
    return bare


def fetch(release: SmallRelease, source: str, repository: Path | None = None) -> FetchedSource:
    address = str(repository) if repository else None
    return fetch_source(release.pins.get(), release.pins, source, release.cache, Silent(), repository=address)


def commit_in(git: SealedGit, folder: Path) -> str:
    return git("rev-parse", "v7.1.0^{commit}", cwd=folder).stdout.decode().strip()


def test_the_sdists_tree_and_its_index(release: SmallRelease) -> None:
    fetched = fetch(release, "sdist")
    assert (fetched.kind, fetched.commit, fetched.base) == (SourceKind.SDIST, COMMIT, release.pins.get().sdist.sha256)
    assert tree_files(fetched.root) == FILES
    assert load_file_index(release.pins.get(), release.cache) == {
        path: (hashlib.sha256(data).hexdigest(), len(data)) for path, data in FILES.items()
    }


def test_a_tree_that_is_there_needs_neither_network_nor_sdist(
    release: SmallRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fetch(release, "sdist")
    monkeypatch.setenv("HQTOOL_INDEX_URL", closed_port())
    release.kept.unlink()
    assert fetch(release, "sdist") == first


@pytest.mark.parametrize("lost", ["tree", "index"])
def test_a_tree_without_its_index_is_unpacked_again(release: SmallRelease, lost: str) -> None:
    root = fetch(release, "sdist").root
    if lost == "index":
        index_path(root).unlink()
        (root / "half").write_bytes(b"")
    else:
        root.rename(root.with_name("elsewhere"))
    assert tree_files(fetch(release, "sdist").root) == FILES
    assert release.ranges() == [""]


def test_an_sdist_that_cannot_be_unpacked_leaves_no_tree(release: SmallRelease) -> None:
    release.sdist = tar_gz([(member("a/vllm/x"), b""), (member("b/vllm/x"), b"")])
    release.pin_commit(COMMIT)
    release.serve(SDIST, Answer(release.sdist))
    with pytest.raises(CheckError, match="several folders"):
        fetch(release, "sdist")
    assert list((release.cache.root / "trees").iterdir()) == []


def test_a_tag_of_the_pinned_commit(release: SmallRelease, git: SealedGit, upstream: Path) -> None:
    commit = commit_in(git, upstream)
    release.pin_commit(commit[:9])
    fetched = fetch(release, "git", upstream)
    assert (fetched.kind, fetched.commit, fetched.base) == (SourceKind.GIT, commit, None)
    files = tree_files(fetched.root)
    assert {path: data for path, data in files.items() if not path.startswith(".git/")} == FILES
    assert fetch(release, "git", upstream / "gone") == fetched, "it is there and needs no repository"


def test_a_tag_of_another_commit_leaves_nothing(release: SmallRelease, upstream: Path) -> None:
    with pytest.raises(CheckError) as caught:
        fetch(release, "git", upstream)
    assert caught.value.what == f"tag v7.1.0 of {upstream} is not the pinned commit"
    assert COMMIT in caught.value.cause
    assert list((release.cache.root / "trees").iterdir()) == []


def test_a_repository_without_the_tag_leaves_nothing(release: SmallRelease, git: SealedGit, upstream: Path) -> None:
    git("tag", "--delete", "v7.1.0", cwd=upstream)
    with pytest.raises(CheckError, match=r"has no tag v7\.1\.0"):
        fetch(release, "git", upstream)
    assert list((release.cache.root / "trees").iterdir()) == []


def folder_of(tmp_path: Path, files: dict[str, bytes]) -> Path:
    root = tmp_path / "mine"
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def test_a_folder_of_the_release_is_used_where_it_lies(release: SmallRelease, tmp_path: Path) -> None:
    root = folder_of(tmp_path, FILES)
    assert fetch(release, str(root)) == FetchedSource(root, SourceKind.FOLDER, "", None)
    assert tree_files(root) == FILES


def test_a_folder_of_another_release_is_refused(release: SmallRelease, tmp_path: Path) -> None:
    root = folder_of(tmp_path, FILES | {"vllm/_version.py": b"\xff\n__version__ = version = '7.2.0'\n"})
    with pytest.raises(UsageError, match=r"is vLLM 7\.2\.0"):
        fetch(release, str(root))


@pytest.mark.parametrize("source", ["gti", "/nowhere", "~"])
def test_a_folder_without_vllm_is_refused(
    release: SmallRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UsageError, match="give sdist, git, or the folder"):
        fetch(release, source)


def checkout(git: SealedGit, upstream: Path, reference: str) -> Path:
    folder = git.folder() / "checkout"
    git("clone", "--quiet", str(upstream), str(folder), cwd=folder.parent)
    git("checkout", "--quiet", reference, cwd=folder)
    (folder / "vllm/_version.py").unlink()
    return folder


def test_an_unbuilt_checkout_is_known_by_its_commit(release: SmallRelease, git: SealedGit, upstream: Path) -> None:
    folder = checkout(git, upstream, "v7.1.0")
    commit = commit_in(git, upstream)
    assert fetch(release, str(folder)).commit == commit
    other = release.patchsets / "pins.toml"
    text = other.read_text(encoding="utf-8").replace("7.1.0", "7.0.0").replace(COMMIT, commit[:12])
    second = "[[pins]]" + text.partition("[[pins]]")[2]
    other.write_text(other.read_text(encoding="utf-8") + second, encoding="utf-8")
    with pytest.raises(UsageError, match=r"is vLLM 7\.0\.0"):
        fetch(release, str(folder))


def test_a_checkout_that_git_cannot_read_is_an_error_with_a_fix(release: SmallRelease, tmp_path: Path) -> None:
    root = folder_of(tmp_path, FILES | {".git": b"gitdir: /nowhere\n"})
    with pytest.raises(EnvironmentUnfitError) as caught:
        fetch(release, str(root))
    assert caught.value.cause
    assert caught.value.fix


def test_what_is_missing_is_known_without_fetching(release: SmallRelease, tmp_path: Path) -> None:
    pin = release.pins.get()
    assert missing_files(pin, "sdist", release.cache, wheel=True) == (pin.wheel, pin.sdist)
    assert missing_files(pin, "git", release.cache, wheel=False) == ()
    assert missing_tag(pin, "git", release.cache) == "v7.1.0"
    assert missing_tag(pin, str(tmp_path), release.cache) == ""
    fetch(release, "sdist")
    release.kept.unlink()
    assert missing_files(pin, "sdist", release.cache, wheel=False) == (), "the tree is there"


@pytest.mark.network
def test_the_real_sdist_and_again_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pins = load_pins(ROOT / "patchsets")
    pin = pins.get()
    cache = Cache(tmp_path)
    fetched = fetch_source(pin, pins, "sdist", cache, Silent())
    monkeypatch.setenv("HQTOOL_INDEX_URL", closed_port())
    assert fetch_source(pin, pins, "sdist", cache, Silent()) == fetched
    index = load_file_index(pin, cache)
    assert index is not None
    assert len(index) > 8_000
    with tarfile.open(cache.download(pin.sdist.sha256, pin.sdist.filename)) as archive:
        packed = {info.name.partition("/")[2]: info for info in archive if info.isreg()}
        assert set(index) == set(packed)
        for path in ["vllm/__init__.py", *random.Random(3).sample(sorted(index), 50)]:
            content = archive.extractfile(packed[path])
            assert content is not None
            data = content.read()
            assert (fetched.root / path).read_bytes() == data
            assert index[path] == (hashlib.sha256(data).hexdigest(), len(data))
