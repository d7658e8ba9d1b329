"""Obtains pinned files: from the cache when they are there and whole, else from the registry."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from toolkit.io.atomic import atomic_file
from toolkit.io.cache import Cache
from toolkit.io.download import download, wrong_bytes
from toolkit.io.index import find_urls
from toolkit.model.errors import CheckError, UsageError
from toolkit.model.ids import Sha256
from toolkit.model.pin import Artifact, Pins
from toolkit.model.progress import Progress


def obtain(artifact: Artifact, project: str, cache: Cache, progress: Progress) -> Path:
    """Return the path of a file with the artifact's sha256, downloading it if the cache has none.

    Args:
        artifact: name, sha256 and size.
        project: its name on the registry.
        cache: where files stay.
        progress: shows the download.

    Raises:
        CheckError: the registry serves other bytes.
        EnvironmentUnfitError: the file is not in the cache and the registry cannot be reached.
    """
    path = cache.download(artifact.sha256, artifact.filename)
    if is_cached(artifact, cache):
        return path
    with cache.lock(artifact.sha256, lambda: progress.say(f"waiting for another run with {artifact.filename}")):
        if not is_cached(artifact, cache):
            path.unlink(missing_ok=True)
            url = find_urls(project, [artifact.filename])[artifact.filename]
            progress.say(f"downloading {artifact.filename} ({artifact.size / 1e6:,.0f} MB)")
            download(url, path, artifact, progress)
            _stamp(path, _state(path))
    return path


def is_cached(artifact: Artifact, cache: Cache) -> bool:
    """Say whether the cache holds the file, verified.

    A file is hashed once; afterwards its size and its times stand for that. When they changed it is hashed again.
    Nothing is removed here: only who holds the lock may do that.
    """
    path = cache.download(artifact.sha256, artifact.filename)
    try:
        state = _state(path)
        stamp = _stamp_of(path)
        if stamp.is_file() and stamp.read_text(encoding="utf-8") == state:
            return True
        if path.stat().st_size != artifact.size or hash_file(path) != artifact.sha256:
            return False
    except FileNotFoundError:
        return False
    _stamp(path, state)  # as it was before hashing: a change in the meantime does not pass for verified
    return True


def adopt(file: Path, pins: Pins, cache: Cache) -> Artifact:
    """Copy a file that was downloaded elsewhere into the cache.

    Raises:
        CheckError: it has the name of a pinned file, but other bytes.
        UsageError: no pin has such a file.
    """
    digest = hash_file(file)
    known = [artifact for pin in pins.pins for artifact in (pin.sdist, pin.wheel)]
    named = [artifact for artifact in known if artifact.filename == file.name]
    for artifact in known:
        if artifact.sha256 == digest:
            target = cache.download(artifact.sha256, artifact.filename)
            with cache.lock(artifact.sha256):
                with atomic_file(target) as partial:
                    shutil.copyfile(file, partial)
                    if hash_file(partial) != digest:
                        raise wrong_bytes(artifact, hash_file(partial), f"{file} changed while it was copied")
                _stamp(target, _state(target))
            return artifact
    if named:
        raise CheckError(
            f"{file} is not {file.name} as it was released",
            cause=f"expected sha256 {named[0].sha256}, found {digest}",
            fix="download it again, or copy it again from where it is whole",
        )
    raise UsageError(
        f"{file} is not a file of any pin",
        cause=f"its sha256 is {digest}",
        fix=f"give one of {', '.join(artifact.filename for artifact in known)}",
    )


def hash_file(path: Path) -> Sha256:
    """Return the sha256 of a file."""
    with path.open("rb") as source:
        return Sha256(hashlib.file_digest(source, "sha256").hexdigest())


def _state(path: Path) -> str:
    """Return what changes whenever the file does; the time of its last change cannot be set back, unlike mtime."""
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def _stamp_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.verified")


def _stamp(path: Path, state: str) -> None:
    _stamp_of(path).write_text(state, encoding="utf-8")
