"""Unpacks archives; no path is written before it is checked."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from toolkit.model.errors import CheckError


def unpack_sdist(archive: Path, into: Path) -> None:
    """Unpack a source distribution without its single top folder.

    Args:
        archive: a ``.tar.gz``.
        into: an existing empty folder.

    Raises:
        CheckError: the archive is damaged, has several top folders, or holds a path that leaves the folder or anything
            that is neither a file nor a folder.
    """
    top: set[str] = set()
    try:
        # tarfile's own reading of gzip takes a cut between two members for the end, and verifies no checksum.
        with gzip.open(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as source:
            for member in source:
                _check(archive, member.name)
                first, *rest = PurePosixPath(member.name).parts or ("",)
                top.add(first)
                if len(top) > 1:
                    raise _unsafe(archive, f"it has several folders at the top: {', '.join(sorted(top))}")
                _extract(archive, source, member, into.joinpath(*rest))
            while stream.read(1 << 20):
                pass
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _damaged(archive, error) from error


def _extract(archive: Path, source: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    if member.isdir() and not target.is_file():
        target.mkdir(parents=True, exist_ok=True)
        return
    content = source.extractfile(member) if member.isreg() else None
    if content is None:
        # A link could be followed by a file that is written through it. No release of vLLM has one.
        raise _unsafe(archive, f"{member.name} is neither a file nor a folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        sink = target.open("xb")
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise _unsafe(archive, f"{member.name} is there twice, or is both a file and a folder") from error
    with content, sink:
        shutil.copyfileobj(content, sink)
    target.chmod(0o755 if member.mode & 0o100 else 0o644)


def unpack_wheel(archive: Path, into: Path) -> None:
    """Unpack a wheel, keeping the executable bits.

    Args:
        archive: a ``.whl``.
        into: an existing folder; several wheels may go into one.

    Raises:
        CheckError: the archive is damaged, or holds a path that could reach outside the folder.
    """
    try:
        with zipfile.ZipFile(archive) as source:
            members = source.infolist()
            for info in members:
                _check(archive, info.filename)
            for info in members:
                written = Path(source.extract(info, into))
                mode = info.external_attr >> 16 & 0o777
                if mode and not info.is_dir():
                    written.chmod(mode)
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise _damaged(archive, error) from error


def _check(archive: Path, name: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise _unsafe(archive, f"the path {name!r} leaves the folder")


def _unsafe(archive: Path, cause: str) -> CheckError:
    return CheckError(f"{archive.name} is not safe to unpack", cause=cause, fix="do not use this file")


def _damaged(archive: Path, error: Exception) -> CheckError:
    return CheckError(
        f"{archive.name} cannot be unpacked",
        cause=str(error) or type(error).__name__,
        fix="remove it from the cache (hqtool cache --clear), then run the command again",
    )
