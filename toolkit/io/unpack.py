"""Unpacks archives; every path is checked before the first byte is written."""

from __future__ import annotations

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
        CheckError: the archive is damaged, has several top folders, or holds a path, link or device that could reach
            outside the folder.
    """
    try:
        with tarfile.open(archive) as source:
            members = source.getmembers()
            top = {PurePosixPath(member.name).parts[0] for member in members if PurePosixPath(member.name).parts}
            if len(top) != 1:
                raise _unsafe(archive, f"it has {len(top)} folders at the top instead of one")
            prefix = f"{top.pop()}/"
            for member in members:
                if not member.name.startswith(prefix):
                    continue
                _check(archive, member.name)
                member.name = member.name.removeprefix(prefix)
                # The filter refuses absolute paths, links that leave the folder, and devices (PEP 706).
                source.extract(member, into, filter="data")
    except tarfile.FilterError as error:
        raise _unsafe(archive, str(error)) from error
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise _damaged(archive, error) from error


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
