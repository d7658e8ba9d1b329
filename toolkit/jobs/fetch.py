"""Provides a pin's source tree: from the registry's sdist, from git, or from a folder of the user's."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from toolkit.io.atomic import atomic_folder
from toolkit.io.cache import Cache
from toolkit.io.git import Git
from toolkit.io.unpack import unpack_sdist
from toolkit.io.web import without_credentials
from toolkit.jobs.artifact import hash_file, is_cached, obtain
from toolkit.jobs.file_index import index_path, save_file_index
from toolkit.model.errors import CheckError, UsageError
from toolkit.model.ids import Sha256
from toolkit.model.pin import Artifact, Pin, Pins
from toolkit.model.progress import Progress

_VERSION = re.compile(r"^__version__ = version = '([^']+)'", re.MULTILINE)


class SourceKind(StrEnum):
    """Where a tree came from."""

    SDIST = "sdist"
    GIT = "git"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class FetchedSource:
    """An unpatched tree; nobody writes into it.

    Attributes:
        commit: all that is known of its commit's id.
        base: sha256 of the sdist; None when the tree came from elsewhere.
    """

    root: Path
    kind: SourceKind
    commit: str
    base: Sha256 | None


def fetch_source(
    pin: Pin, pins: Pins, source: str, cache: Cache, progress: Progress, *, repository: str | None = None
) -> FetchedSource:
    """Return the pin's tree.

    Args:
        pin: the release.
        pins: names the project and its repository.
        source: ``sdist``, ``git``, or the path of a checkout or an unpacked sdist.
        cache: where the sdist and the trees stay.
        progress: shows downloads.
        repository: use this one instead of the pins'.

    Raises:
        CheckError: what was fetched is not the pin.
        UsageError: the folder is not vLLM, or is another release.
        EnvironmentUnfitError: the network, git or the disk fails.
    """
    if source == SourceKind.SDIST:
        return _from_sdist(pin, pins, cache, progress)
    if source == SourceKind.GIT:
        return _from_git(pin, repository or pins.repository, cache, progress)
    return _from_folder(pin, pins, Path(source))


def missing_files(pin: Pin, source: str, cache: Cache, *, wheel: bool) -> tuple[Artifact, ...]:
    """Return the registry's files that `fetch_source` would download now, and the wheel if it is wanted too."""
    needed = [pin.wheel] if wheel else []
    if source == SourceKind.SDIST and not _is_unpacked(_sdist_tree(pin, cache)):
        needed.append(pin.sdist)
    return tuple(artifact for artifact in needed if not is_cached(artifact, cache))


def missing_tag(pin: Pin, source: str, cache: Cache) -> str:
    """Return the tag that `fetch_source` would fetch with git now, '' for none."""
    return pin.tag if source == SourceKind.GIT and not _git_tree(pin, cache).is_dir() else ""


def _sdist_tree(pin: Pin, cache: Cache) -> Path:
    return cache.made("trees", pin.sdist.sha256)


def _is_unpacked(root: Path) -> bool:
    return root.is_dir() and index_path(root).is_file()


def _git_tree(pin: Pin, cache: Cache) -> Path:
    return cache.made("trees", f"git-{pin.version}-{pin.commit}")


def _from_sdist(pin: Pin, pins: Pins, cache: Cache, progress: Progress) -> FetchedSource:
    root = _sdist_tree(pin, cache)
    fetched = FetchedSource(root, SourceKind.SDIST, pin.commit, pin.sdist.sha256)
    if _is_unpacked(root):
        return fetched
    archive = obtain(pin.sdist, pins.project, cache, progress)
    with cache.lock(f"tree-{pin.sdist.sha256}"):
        if not _is_unpacked(root):
            progress.say(f"unpacking {archive.name}")
            shutil.rmtree(root, ignore_errors=True)
            with atomic_folder(root) as partial:
                unpack_sdist(archive, partial)
                index = {path: (hash_file(partial / path), (partial / path).stat().st_size) for path in _files(partial)}
            # Written last: a tree without its index is unpacked again.
            save_file_index(root, index)
    return fetched


def _from_git(pin: Pin, repository: str, cache: Cache, progress: Progress) -> FetchedSource:
    root = _git_tree(pin, cache)
    if not root.is_dir():
        with cache.lock(root.name):
            if not root.is_dir():
                progress.say(f"fetching {pin.tag} from {without_credentials(repository)}")
                _clone(pin, repository, root)
    return FetchedSource(root, SourceKind.GIT, Git(root).commit_of("HEAD"), None)


def _clone(pin: Pin, repository: str, root: Path) -> None:
    with atomic_folder(root) as partial:
        git = Git(partial)
        git.init()
        git.fetch_tag(repository, pin.tag)
        commit = git.commit_of(f"refs/tags/{pin.tag}")
        if not commit.startswith(pin.commit):
            raise CheckError(
                f"tag {pin.tag} of {without_credentials(repository)} is not the pinned commit",
                cause=f"it points to {commit}, and the pin says {pin.commit}",
                fix="use the official repository; a tag that moved there must be looked at before the pin is changed",
            )
        git.check_out(commit)


def _from_folder(pin: Pin, pins: Pins, folder: Path) -> FetchedSource:
    root = folder.expanduser().resolve()
    if not (root / "vllm" / "__init__.py").is_file():
        raise UsageError(
            f"{folder} holds no vLLM",
            cause="there is no vllm/__init__.py in it",
            fix="give sdist, git, or the folder of a vLLM checkout as --source",
        )
    commit = Git(root).commit_of("HEAD") if (root / ".git").exists() else ""
    version = _stated_version(root) or _version_of(commit, pins)
    if version not in ("", pin.version):
        raise UsageError(
            f"{folder} is vLLM {version}",
            cause=f"the series is to be applied to {pin.version}",
            fix=f"choose the matching release with --pin, or another folder for {pin.version}",
        )
    return FetchedSource(root, SourceKind.FOLDER, commit, None)


def _stated_version(root: Path) -> str:
    """Return what ``vllm/_version.py`` says; a checkout that was never built has none."""
    stated = root / "vllm" / "_version.py"
    found = _VERSION.search(stated.read_text(encoding="utf-8", errors="replace")) if stated.is_file() else None
    return found[1] if found else ""


def _version_of(commit: str, pins: Pins) -> str:
    """Return the release that the commit is, '' when it is none that is known."""
    return next((pin.version for pin in pins.pins if commit and commit.startswith(pin.commit)), "")


def _files(root: Path) -> list[str]:
    found = []
    for base, _, names in os.walk(root):
        found += [Path(base, name).relative_to(root).as_posix() for name in names if not Path(base, name).is_symlink()]
    return sorted(found)
