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
from toolkit.jobs.artifact import hash_file, obtain
from toolkit.jobs.file_index import index_path, save_file_index
from toolkit.model.errors import CheckError, UsageError
from toolkit.model.ids import Sha256
from toolkit.model.pin import Pin, Pins
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
    return _from_folder(pin, Path(source))


def _from_sdist(pin: Pin, pins: Pins, cache: Cache, progress: Progress) -> FetchedSource:
    root = cache.made("trees", pin.sdist.sha256)
    fetched = FetchedSource(root, SourceKind.SDIST, pin.commit, pin.sdist.sha256)
    if root.is_dir() and index_path(root).is_file():
        return fetched
    archive = obtain(pin.sdist, pins.project, cache, progress)
    with cache.lock(f"tree-{pin.sdist.sha256}"):
        if not (root.is_dir() and index_path(root).is_file()):
            progress.say(f"unpacking {archive.name}")
            shutil.rmtree(root, ignore_errors=True)
            with atomic_folder(root) as partial:
                unpack_sdist(archive, partial)
                index = {path: (hash_file(partial / path), (partial / path).stat().st_size) for path in _files(partial)}
            # Written last: a tree without its index is unpacked again.
            save_file_index(root, index)
    return fetched


def _from_git(pin: Pin, repository: str, cache: Cache, progress: Progress) -> FetchedSource:
    root = cache.made("trees", f"git-{pin.version}-{pin.commit}")
    if not root.is_dir():
        with cache.lock(root.name):
            if not root.is_dir():
                progress.say(f"fetching {pin.tag} from {repository}")
                _clone(pin, repository, root)
    with Git(root) as git:
        return FetchedSource(root, SourceKind.GIT, git.commit_of("HEAD"), None)


def _clone(pin: Pin, repository: str, root: Path) -> None:
    with atomic_folder(root) as partial, Git(partial) as git:
        git.init()
        git.fetch_tag(repository, pin.tag)
        commit = git.commit_of(f"refs/tags/{pin.tag}")
        if not commit.startswith(pin.commit):
            raise CheckError(
                f"tag {pin.tag} of {repository} is not the pinned commit",
                cause=f"it points to {commit}, and the pin says {pin.commit}",
                fix="use the official repository; a tag that moved there must be looked at before the pin is changed",
            )
        git.check_out(commit)


def _from_folder(pin: Pin, folder: Path) -> FetchedSource:
    root = folder.expanduser().resolve()
    if not (root / "vllm" / "__init__.py").is_file():
        raise UsageError(
            f"{folder} holds no vLLM",
            cause="there is no vllm/__init__.py in it",
            fix="give sdist, git, or the folder of a vLLM checkout as --source",
        )
    stated = root / "vllm" / "_version.py"
    version = _VERSION.search(stated.read_text(encoding="utf-8")) if stated.is_file() else None
    if version is not None and version[1] != pin.version:
        raise UsageError(
            f"{folder} is vLLM {version[1]}",
            cause=f"the series is to be applied to {pin.version}",
            fix=f"choose the matching release with --pin, or another folder for {pin.version}",
        )
    if (root / ".git").exists():
        with Git(root) as git:
            return FetchedSource(root, SourceKind.FOLDER, git.commit_of("HEAD"), None)
    return FetchedSource(root, SourceKind.FOLDER, "", None)


def _files(root: Path) -> list[str]:
    found = []
    for base, _, names in os.walk(root):
        found += [Path(base, name).relative_to(root).as_posix() for name in names if not Path(base, name).is_symlink()]
    return sorted(found)
