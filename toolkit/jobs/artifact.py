"""Obtains pinned files: from the cache when they are there and whole, else from the registry."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from toolkit.io.atomic import atomic_file
from toolkit.io.cache import Cache
from toolkit.io.download import download, wrong_bytes
from toolkit.io.index import find_urls
from toolkit.model.errors import UsageError
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
    with cache.lock(artifact.sha256):
        if not is_cached(artifact, cache):
            url = find_urls(project, [artifact.filename])[artifact.filename]
            progress.say(f"downloading {artifact.filename} ({artifact.size / 1e6:,.0f} MB)")
            download(url, path, artifact, progress)
            _stamp(path)
    return path


def is_cached(artifact: Artifact, cache: Cache) -> bool:
    """Say whether the cache holds the file, verified.

    A file is hashed once; afterwards its size and time stand for that. When they changed it is hashed again, and
    removed if it is not the artifact any more.
    """
    path = cache.download(artifact.sha256, artifact.filename)
    if not path.is_file():
        return False
    if _stamp_of(path).is_file() and _stamp_of(path).read_text(encoding="utf-8") == _state(path):
        return True
    if hash_file(path) == artifact.sha256:
        _stamp(path)
        return True
    path.unlink()
    return False


def adopt(file: Path, pins: Pins, cache: Cache) -> Artifact:
    """Copy a file that was downloaded elsewhere into the cache.

    Raises:
        UsageError: no pin has a file of that sha256.
    """
    digest = hash_file(file)
    known = [artifact for pin in pins.pins for artifact in (pin.sdist, pin.wheel)]
    named = [artifact for artifact in known if artifact.filename == file.name]
    for artifact in known:
        if artifact.sha256 == digest:
            target = cache.download(artifact.sha256, artifact.filename)
            with cache.lock(artifact.sha256), atomic_file(target) as partial:
                shutil.copyfile(file, partial)
            _stamp(target)
            return artifact
    if named:
        raise wrong_bytes(named[0], digest, str(file))
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
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}"


def _stamp_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.verified")


def _stamp(path: Path) -> None:
    _stamp_of(path).write_text(_state(path), encoding="utf-8")
