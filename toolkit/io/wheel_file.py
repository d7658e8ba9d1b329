"""Wheels as zip archives: reading members, and writing a new wheel that copies most of them compressed as they are.

The standard library cannot copy a member without recompressing it; for a wheel of 5,800 members and 340 MB that is the
difference between one second and one minute. Layout: PKWARE's APPNOTE 6.3.9, sections 4.3.7, 4.3.12 and 4.3.16.
"""

from __future__ import annotations

import errno
import hashlib
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from installer.exceptions import InstallerError
from installer.sources import WheelFile as InstallerWheel

from toolkit.model.errors import CheckError, EnvironmentUnfitError, UsageError
from toolkit.model.ids import Sha256
from toolkit.model.progress import Task
from toolkit.model.wheel import Action, PlannedMember

CHUNK = 1 << 20
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_VERSION = 20
_UNIX = 3
_UTF8 = 0x800
_ENCRYPTED = 0x1
_LIMIT = 0xFFFFFFFF
_MEMBERS_LIMIT = 0xFFFF
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class WheelFile:
    """A wheel that is open for reading; a context manager.

    Raises:
        CheckError: the file is no zip archive, or has a member that no wheel has.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
        except zipfile.BadZipFile as error:
            raise _damaged(path, str(error)) from error
        self._file = path.open("rb")
        self._members = {info.filename: info for info in self._archive.infolist() if not info.is_dir()}
        for info in self._members.values():
            if info.compress_type not in _METHODS or info.flag_bits & _ENCRYPTED:
                self.close()
                raise _damaged(path, f"{info.filename} is encrypted, or neither stored nor deflated")

    def __enter__(self) -> WheelFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._archive.close()
        self._file.close()

    @property
    def members(self) -> dict[str, bool]:
        """Name -> whether it is executable, in the archive's order, without folders."""
        return {name: bool(info.external_attr >> 16 & 0o111) for name, info in self._members.items()}

    def read(self, name: str) -> bytes:
        """Return one member's bytes.

        Raises:
            CheckError: there is no such member, or its checksum is wrong.
        """
        try:
            return self._archive.read(self.info(name))
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise _damaged(self.path, f"{name}: {error}") from error

    def info(self, name: str) -> zipfile.ZipInfo:
        """Return what the archive's directory says of a member.

        Raises:
            CheckError: there is no such member.
        """
        if name not in self._members:
            raise _damaged(self.path, f"it has no {name}")
        return self._members[name]

    def raw(self, name: str) -> Iterator[bytes]:
        """Yield one member's bytes as the archive holds them, compressed, at most a MiB at a time.

        Raises:
            CheckError: the member's own header disagrees with the directory, or the file ends too early.
        """
        info = self.info(name)
        self._file.seek(info.header_offset)
        header = self._file.read(_LOCAL.size)
        if len(header) != _LOCAL.size or not header.startswith(b"PK\x03\x04"):
            raise _damaged(self.path, f"{name} does not begin where the directory says")
        *_, name_length, extra_length = _LOCAL.unpack(header)
        if self._file.read(name_length) != info.orig_filename.encode("utf-8" if info.flag_bits & _UTF8 else "cp437"):
            raise _damaged(self.path, f"the header of {name} names another file")
        self._file.seek(extra_length, 1)
        left = info.compress_size
        while left:
            chunk = self._file.read(min(left, CHUNK))
            if not chunk:
                raise _damaged(self.path, f"it ends within {name}")
            left -= len(chunk)
            yield chunk


@dataclass(frozen=True, slots=True)
class _Entry:
    """The facts that a member's two headers state; sizes in bytes, time and date in DOS form."""

    name: bytes
    method: int
    crc: int
    compressed: int
    size: int
    mode: int
    stamp: tuple[int, int]

    def _common(self) -> tuple[int, ...]:
        flags = 0 if self.name.isascii() else _UTF8
        return (flags, self.method, *self.stamp, self.crc, self.compressed, self.size, len(self.name))

    def local(self) -> bytes:
        return _LOCAL.pack(b"PK\x03\x04", _VERSION, *self._common(), 0) + self.name

    def central(self, offset: int) -> bytes:
        made = _UNIX << 8 | _VERSION
        return (
            _CENTRAL.pack(b"PK\x01\x02", made, _VERSION, *self._common(), 0, 0, 0, 0, self.mode << 16, offset)
            + self.name
        )


def wheel_chunks(source: WheelFile, members: Iterable[PlannedMember], when: datetime) -> Iterator[bytes]:
    """Yield the bytes of a wheel; the same members and time give the same bytes on every machine.

    New members are stored: deflated ones would differ between zlib and its rewrites.

    Args:
        source: the official wheel, from which the kept members come.
        members: in their order.
        when: the time that every member carries; seconds are rounded down to even ones.

    Raises:
        UsageError: a zip archive cannot state that time.
        CheckError: the result would need the zip64 form, or the official wheel is damaged.
    """
    stamp = _dos_time(when)
    directory: list[bytes] = []
    offset = 0
    for member in members:
        entry = _entry(source, member, stamp)
        header = entry.local()
        if offset + len(header) + max(entry.size, entry.compressed) >= _LIMIT or len(directory) == _MEMBERS_LIMIT - 1:
            raise _too_large(member.name)
        yield header
        if member.action is Action.KEEP:
            yield from source.raw(member.source)
        else:
            yield member.data
        directory.append(entry.central(offset))
        offset += len(header) + entry.compressed
    records = b"".join(directory)
    if offset + len(records) >= _LIMIT:
        raise _too_large("the archive's directory")
    yield records
    yield _END.pack(b"PK\x05\x06", 0, 0, len(directory), len(directory), len(records), offset, 0)


def compare_file(path: Path, chunks: Iterable[bytes]) -> tuple[bool, Sha256]:
    """Say whether the file holds exactly these bytes; the hash is that of the file if so."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in chunks:
            if file.read(len(chunk)) != chunk:
                return False, Sha256("")
            digest.update(chunk)
        return not file.read(1), Sha256(digest.hexdigest())


def write_file(path: Path, chunks: Iterable[bytes], task: Task) -> Sha256:
    """Write the bytes to a file and return their hash.

    Args:
        path: is created or overwritten.
        chunks: the bytes.
        task: is advanced by the bytes written, and left open.

    Raises:
        EnvironmentUnfitError: the disk, the quota or the largest file allowed is too small.
    """
    digest = hashlib.sha256()
    written = 0
    try:
        with path.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
                digest.update(chunk)
                written += len(chunk)
                task.advance(len(chunk))
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise EnvironmentUnfitError(
            f"no room for the wheel in {path.parent}",
            cause=f"{error.strerror} after {written / 1e6:,.0f} MB",
            fix="free some space (hqtool cache shows what the cache holds), or choose another folder with --out",
        ) from error
    return Sha256(digest.hexdigest())


def audit_record(path: Path, filename: str) -> list[str]:
    """Return what the installer library finds wrong with a wheel's RECORD; hashes are not computed again.

    Args:
        path: the file.
        filename: the wheel's name, if the file does not have it yet.
    """
    with zipfile.ZipFile(path) as archive:
        archive.filename = filename
        try:
            InstallerWheel(archive).validate_record(validate_contents=False)
        except InstallerError as error:
            return [str(issue) for issue in getattr(error, "issues", [error])]
    return []


def _entry(source: WheelFile, member: PlannedMember, stamp: tuple[int, int]) -> _Entry:
    name = member.name.encode()
    mode = 0o100755 if member.executable else 0o100644
    if member.action is not Action.KEEP:
        size = len(member.data)
        return _Entry(name, zipfile.ZIP_STORED, zlib.crc32(member.data), size, size, mode, stamp)
    info = source.info(member.source)
    return _Entry(name, info.compress_type, info.CRC, info.compress_size, info.file_size, mode, stamp)


def _dos_time(when: datetime) -> tuple[int, int]:
    """Return time and date as MS-DOS packs them, in UTC."""
    moment = when.astimezone(UTC)
    if not 1980 <= moment.year <= 2107:
        raise UsageError(
            f"a wheel cannot carry the time {moment.isoformat()}",
            cause="zip archives state years from 1980 to 2107",
            fix="unset SOURCE_DATE_EPOCH, or set it to a time within them",
        )
    date = (moment.year - 1980) << 9 | moment.month << 5 | moment.day
    return moment.hour << 11 | moment.minute << 5 | moment.second // 2, date


def _too_large(name: str) -> CheckError:
    return CheckError(
        "the wheel grows beyond what a plain zip archive holds",
        cause=f"{name} would pass 4 GiB or 65,534 members",
        fix="leave topics out with --without",
    )


def _damaged(path: Path, cause: str) -> CheckError:
    return CheckError(f"{path} is no wheel that can be read", cause=cause, fix="download or build it again")
