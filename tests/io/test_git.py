"""Fetching a tag from real repositories, and what is refused before git sees it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import SealedGit
from toolkit.io.git import Git, check_repository, require_git
from toolkit.model.errors import CheckError, EnvironmentUnfitError, UsageError

FILES = {
    "vllm/__init__.py": b"first\n",
    "vllm/windows.txt": b"one\r\ntwo\r\n",
    "vllm/data.bin": bytes(range(256)),
    "README.md": b"one\ntwo\n",
    ".gitattributes": b"*.md text\n*.py filter=loud\n",
}


@dataclass(frozen=True)
class Upstream:
    """A bare repository with the tags v1.0 (annotated) and v2.0 (light), one commit each."""

    path: Path
    first: str
    second: str


@pytest.fixture(scope="module")
def upstream(git: SealedGit) -> Upstream:
    work = git.repository()
    commits = []
    for number, tag in ((1, ("-a", "-m", "release", "v1.0")), (2, ("v2.0",))):
        for name, data in FILES.items():
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_bytes(data)
        (work / "number").write_text(f"{number}\n", encoding="utf-8")
        git("-c", "core.autocrlf=false", "add", "--all", cwd=work)
        git("commit", "--quiet", "-m", f"commit {number}", cwd=work)
        git("tag", *tag, cwd=work)
        commits.append(git("rev-parse", "HEAD", cwd=work).stdout.decode().strip())
    bare = git.folder() / "upstream.git"
    git("clone", "--quiet", "--bare", str(work), str(bare), cwd=git.root)
    return Upstream(bare, *commits)


@pytest.fixture
def empty(tmp_path: Path) -> Git:
    (tmp_path / "clone").mkdir()
    fresh = Git(tmp_path / "clone")
    fresh.init()
    return fresh


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files of a checkout."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(folder).parts[:1]
    }


@pytest.mark.parametrize("form", ["{}", "file://{}"])
@pytest.mark.parametrize("tag", ["v1.0", "v2.0"])
def test_a_tag_is_fetched_without_history(upstream: Upstream, git: SealedGit, empty: Git, form: str, tag: str) -> None:
    empty.fetch_tag(form.format(upstream.path), tag)
    commit = empty.commit_of(f"refs/tags/{tag}")
    assert commit == {"v1.0": upstream.first, "v2.0": upstream.second}[tag]
    empty.check_out(commit)
    assert empty.commit_of("HEAD") == commit
    assert git("rev-list", "--all", "--count", cwd=empty.folder).stdout == b"1\n"
    assert git("tag", cwd=empty.folder).stdout.decode().split() == [tag]
    assert git("status", "--porcelain", cwd=empty.folder).stdout == b""
    assert files_of(empty.folder) == FILES | {"number": f"{tag[1]}\n".encode()}


def test_settings_of_the_user_change_no_byte_and_run_nothing(
    upstream: Upstream, empty: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for hook in ("post-checkout", "reference-transaction"):
        (home / hook).write_text(f"#!/bin/sh\ntouch {home}/{hook}.ran\n", encoding="utf-8")
        (home / hook).chmod(0o755)
    (home / "attributes").write_text("* text eol=crlf\n", encoding="utf-8")
    settings = (
        f"[core]\nautocrlf = true\neol = crlf\nhooksPath = {home}\nattributesFile = {home}/attributes\n"
        f'[filter "loud"]\nsmudge = "touch {home}/filter.ran; tr a-z A-Z"\nrequired = true\n'
    )
    (home / ".gitconfig").write_text(settings, encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    empty.fetch_tag(str(upstream.path), "v1.0")
    empty.check_out(upstream.first)
    assert files_of(empty.folder) == FILES | {"number": b"1\n"}
    assert list(home.glob("*.ran")) == []


def test_inside_a_hook_of_another_repository_that_one_is_left_alone(
    upstream: Upstream, git: SealedGit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = git.repository()
    (other / "mine").write_bytes(b"mine\n")
    git("add", "mine", cwd=other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    folder = tmp_path / "clone"
    folder.mkdir()
    clone = Git(folder)
    clone.init()
    clone.fetch_tag(str(upstream.path), "v1.0")
    clone.check_out(upstream.first)
    assert (folder / "number").read_text(encoding="utf-8") == "1\n"
    assert sorted(path.name for path in other.iterdir()) == [".git", "mine"]
    assert git("status", "--porcelain", cwd=other).stdout == b"A  mine\n"
    assert git("tag", cwd=other).stdout == b""


def test_a_missing_tag_is_named(upstream: Upstream, empty: Git) -> None:
    with pytest.raises(CheckError) as caught:
        empty.fetch_tag(str(upstream.path), "v3.0")
    assert caught.value.what == f"{upstream.path} has no tag v3.0"
    assert "--repository" in caught.value.fix


def test_a_branch_is_no_tag(upstream: Upstream, empty: Git) -> None:
    with pytest.raises(CheckError):
        empty.fetch_tag(str(upstream.path), "main")


@pytest.mark.parametrize(
    "tag", ["--upload-pack=touch ran", "-v1", "", "v1 0", "v1:refs/heads/x", "v1\nx", "+v1.0", "*"]
)
def test_a_tag_is_never_an_option_or_a_pattern(upstream: Upstream, empty: Git, tag: str) -> None:
    with pytest.raises(UsageError, match="not a tag name"):
        empty.fetch_tag(str(upstream.path), tag)
    assert files_of(empty.folder) == {}


@pytest.mark.parametrize(
    "repository",
    [
        "--upload-pack=touch ran",
        "-o",
        "",
        "relative/path",
        "../up",
        "ext::sh -c 'touch ran'",
        "http://example.org/x.git",
        "ssh://example.org/x.git",
        "git://example.org/x.git",
        "user@example.org:x.git",
        "https://-oProxyCommand=x/y",
        "https:///x.git",
        "http://[bad",
    ],
)
def test_other_repositories_are_refused(repository: str) -> None:
    with pytest.raises(UsageError, match="not an acceptable repository"):
        check_repository(repository)


@pytest.mark.parametrize(
    "repository", ["https://example.org/x.git", "https://me:pw@example.org:8443/x", "/srv/x", "file:///srv/x"]
)
def test_acceptable_repositories(repository: str) -> None:
    check_repository(repository)


def test_a_repository_that_is_not_there_is_the_machines_fault(empty: Git, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnfitError) as caught:
        empty.fetch_tag(str(tmp_path / "absent"), "v1.0")
    assert caught.value.what == f"{tmp_path / 'absent'} cannot be fetched"
    assert "does not appear to be a git repository" in caught.value.cause


def test_no_network_shows_no_password(empty: Git) -> None:
    with pytest.raises(EnvironmentUnfitError) as caught:
        empty.fetch_tag("https://me:secret@127.0.0.1:9/x.git", "v1.0")
    assert caught.value.what == "https://127.0.0.1:9/x.git cannot be fetched"
    assert "secret" not in str(caught.value)


def test_references_that_lead_nowhere_are_errors(empty: Git) -> None:
    for reference in ("HEAD", "--all", "0" * 40):
        with pytest.raises(EnvironmentUnfitError, match="git rev-parse fails"):
            empty.commit_of(reference)


def test_a_checkout_that_fails_is_an_error_like_others(upstream: Upstream, empty: Git) -> None:
    empty.fetch_tag(str(upstream.path), "v1.0")
    (empty.folder / ".git" / "index.lock").touch()
    with pytest.raises(EnvironmentUnfitError) as caught:
        empty.check_out(upstream.first)
    assert "index.lock" in caught.value.cause


@pytest.mark.parametrize(
    ("script", "what", "cause"),
    [
        ("echo git version 2.29.3", "git is too old", "it is 2.29, and 2.30 or newer is needed"),
        ("echo git version 1.8.3.1", "git is too old", "it is 1.8, and 2.30 or newer is needed"),
        ("echo broken library; exit 127", "git does not run", "broken library"),
        (None, "git is not installed", "there is no git on the PATH"),
    ],
)
def test_an_unfit_git_is_named_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, what: str, cause: str
) -> None:
    if script is not None:
        (tmp_path / "git").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentUnfitError) as caught:
        Git(tmp_path)
    assert (caught.value.what, caught.value.cause) == (what, cause)
    assert "apt-get install git" in caught.value.fix


def test_this_machines_git_is_new_enough() -> None:
    stated = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True, env=os.environ).stdout
    major, minor = require_git()
    assert f" {major}.{minor}." in stated
